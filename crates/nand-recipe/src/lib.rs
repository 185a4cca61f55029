//! Raw dumps of NAND flash: how a controller stores pages ([`Recipe`]), encoding and decoding by a
//! recipe ([`encode`], [`decode`]), and finding the recipe of a dump ([`detect`]).
//!
//! The crate knows nothing of what is stored on a flash: callers pass the magic numbers of their
//! formats as hints.

pub mod bits;
pub mod blind;
pub mod describe;
pub mod detect;
mod engine;
mod error;
mod evidence;
mod polynomial;
pub mod recipe;
mod sample;
pub mod scrambler;
mod search;
pub mod stream;
pub mod table;

pub use detect::{Detection, Hints, detect};
pub use engine::{Damaged, Outcome, PageCodec};
pub use error::RecipeError;
pub use evidence::{Confidence, Evidence};
pub use recipe::Recipe;
pub use stream::{DecodeOptions, Decoded, Encoded, decode, decode_reads, encode};
