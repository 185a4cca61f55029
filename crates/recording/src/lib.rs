//! What applications do to a file system: recorded at a mount, imported from `strace`, `blkparse` and fio, replayed
//! on any file system, exported for fio. The format is described in `docs/format/ops.md`.
//!
//! A recording holds no content. Of a write it keeps how far the data could be compressed; a replay
//! makes such data from a seed.
//!
//! # Invariants
//! 1. A recording lists changes in the order in which they happened: [`Recorder`] makes and records a
//!    change under one lock.
//! 2. Nothing here reads a clock: times come from the caller or from the recording.
//! 3. A line of any file is at most [`MAX_LINE`] bytes, and memory does not grow with the lengths that
//!    a line states.

mod blkparse;
mod content;
mod error;
mod fio;
mod folder;
mod named;
mod op;
mod paths;
mod reader;
mod recorder;
mod replay;
mod strace;
mod writer;

#[cfg(test)]
mod tests;

pub use error::RecordingError;
pub use fio::{FioExport, FioVersion};
pub use folder::FolderReplay;
pub use op::{How, Kind, Name, Op, Step};
pub use reader::{MAX_LINE, Origin, Reader};
pub use recorder::{Clock, Recorder};
pub use replay::{Counts, Pace, QUIET, Replay};
pub use writer::Writer;
