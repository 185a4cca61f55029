//! Every byte of an image, named: which structure it belongs to, as text that can be changed and
//! assembled again, what differs between two images, and what refers to what.
//!
//! [`segment`] cuts an image into formats, [`mod@walk`] into records, [`text`] prints and assembles them,
//! [`diff`] compares them, [`census`] says which are live; [`debug`] asks and changes, over an
//! [`overlay`] of what is not written yet; [`script`] is such a session in a file with what `check`
//! must say afterwards.

// Offsets in blocks have 32 bits by the limits of the formats.
#![allow(clippy::cast_possible_truncation)]

pub mod census;
pub mod debug;
pub mod diff;
pub mod overlay;
pub mod script;
pub mod segment;
pub mod shown;
pub mod text;
mod value;
pub mod walk;

pub use census::{Census, Entry, State};
pub use segment::{Format, Lpt, Plan, Segment};
pub use walk::{Family, Record, What, walk};
