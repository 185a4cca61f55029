//! LZO1X, the default compression of UBIFS (spec: ubifs-format 7.2): a decoder and two encoders
//! written from the grammar of the stream.

mod decode;
mod dense;
mod fast;
#[cfg(test)]
mod tests;
mod write;

pub use decode::{decompress, decompress_up_to};
pub(crate) use dense::Dense;
pub(crate) use fast::Fast;
