//! Builds a JFFS2 image from a source tree, in process and without privileges (spec: jffs2 5 to 10,
//! 21.1).
//!
//! The modules, in the order in which an image is built: `plan` numbers and checks the inodes,
//! `content` reads files and compresses their pages in parallel (`compress`), `nodes` creates nodes
//! for everything in the order of the plan, `blocks` lays them out in eraseblocks. `summarise`
//! repacks an existing image.
//!
//! # Invariants
//! 1. The same tree and options give the same bytes, regardless of the number of threads: pages are
//!    compressed independently, and only data that is cut at the end of a block depends on its
//!    position.
//! 2. Memory does not grow with file contents: two batches are in memory at a time.
//! 3. No node crosses the end of a block, no data node a page boundary.

mod blocks;
mod compress;
mod content;
mod error;
mod nodes;
mod options;
mod plan;
mod report;
mod summarise;

pub use error::{MkfsError, NodeProblem};
pub use options::{Compression, CompressionMode, Compressor, MkfsOptions, Padding, SummaryOptions};
pub use report::{MkfsReport, NoProgress, Progress};
pub use summarise::{SummaryReport, summarise};

use content::{Feeder, Workshop};
use eraseblock_vfs::SourceTree;
use nodes::Writer;
use plan::Plan;
use std::io::Write;

/// Builds the image of `tree` into `out`, from its first byte to its last.
///
/// Fails before anything is written if options or tree cannot be represented. After any other
/// failure, the bytes written so far are not an image.
pub fn build(
    tree: &SourceTree,
    options: &MkfsOptions,
    out: &mut (dyn Write + Send),
    progress: &(dyn Progress + Sync),
) -> Result<MkfsReport, MkfsError> {
    let plan = Plan::new(tree, options)?;
    progress.total(plan.content_bytes);
    in_pool(options, || {
        let workshop = Workshop::new(&plan, options);
        let mut feeder = Feeder::new(&plan);
        let mut writer = Writer::new(&plan, options, out)?;
        let mut ready = workshop.fill(feeder.batch()?)?;
        while !ready.is_empty() {
            let (next, placed) = both(
                || feeder.batch().and_then(|batch| workshop.fill(batch)),
                || writer.contents(&ready, progress),
            );
            placed?;
            ready = next?;
        }
        writer.finish()
    })
}

/// Runs the work on as many threads as the options ask for.
#[cfg(feature = "parallel")]
fn in_pool<T: Send>(
    options: &MkfsOptions,
    work: impl FnOnce() -> Result<T, MkfsError> + Send,
) -> Result<T, MkfsError> {
    let threads = options.threads.map_or(0, std::num::NonZeroUsize::get);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    pool.map_err(|error| MkfsError::Threads(error.to_string()))?.install(work)
}

#[cfg(feature = "parallel")]
use rayon::join as both;

/// Runs the work on this thread.
#[cfg(not(feature = "parallel"))]
fn in_pool<T>(
    _: &MkfsOptions,
    work: impl FnOnce() -> Result<T, MkfsError>,
) -> Result<T, MkfsError> {
    work()
}

/// Does one piece of work, then the other.
#[cfg(not(feature = "parallel"))]
fn both<A, B>(one: impl FnOnce() -> A, other: impl FnOnce() -> B) -> (A, B) {
    (one(), other())
}

#[cfg(test)]
mod tests;
