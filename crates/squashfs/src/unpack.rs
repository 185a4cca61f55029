//! Decompression of blocks.

use crate::limits;
use eraseblock_base::ByteOrder;
use eraseblock_codec::{Decompressor, lzo};
use lzma_rust2::{LzmaReader, XzReader};
use std::cell::RefCell;
use std::io::Read;

/// How the blocks of an image are compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compressor {
    /// A zlib stream.
    Gzip,
    /// A stream with the header of `.lzma` files.
    Lzma,
    /// LZO1X.
    Lzo,
    /// An xz stream.
    Xz,
    /// An LZ4 block.
    Lz4,
    /// A zstd frame.
    Zstd,
}

impl Compressor {
    pub(crate) fn from_number(number: u16) -> Option<Self> {
        Some(match number {
            1 => Self::Gzip,
            2 => Self::Lzma,
            3 => Self::Lzo,
            4 => Self::Xz,
            5 => Self::Lz4,
            6 => Self::Zstd,
            _ => return None,
        })
    }

    /// Returns the name that `mksquashfs -comp` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Lzma => "lzma",
            Self::Lzo => "lzo",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// Decompresses a block that may fill `out`; returns its length. What goes wrong is described for
    /// people.
    fn unpack(self, input: &[u8], out: &mut [u8]) -> Result<usize, String> {
        thread_local! {
            static CONTEXTS: RefCell<Decompressor> = RefCell::new(Decompressor::new());
        }
        match self {
            Self::Gzip => CONTEXTS
                .with_borrow_mut(|contexts| contexts.unzlib_up_to(input, out))
                .map_err(|error| error.to_string()),
            Self::Zstd => CONTEXTS
                .with_borrow_mut(|contexts| contexts.unzstd_up_to(input, out))
                .map_err(|error| error.to_string()),
            Self::Lzo => lzo::decompress_up_to(input, out).map_err(|error| error.to_string()),
            Self::Lz4 => lz4_flex::block::decompress_into(input, out)
                .map_err(|error| format!("LZ4: {error}")),
            Self::Xz => fill(&mut XzReader::new_mem_limit(input, false, limits::DECODER_KIB), out)
                .map_err(|error| format!("xz: {error}")),
            Self::Lzma => LzmaReader::new_mem_limit(input, limits::DECODER_KIB, None)
                .and_then(|mut reader| fill(&mut reader, out))
                .map_err(|error| format!("LZMA: {error}")),
        }
    }
}

/// Returns a buffer of zeros. Few have different sizes: an allocator keeps freed memory of each.
pub(crate) fn buffer(len: usize) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(len.next_power_of_two());
    buffer.resize(len, 0);
    buffer
}

/// Reads a stream to its end, which verifies its checksums. Fails if it is longer than `out`.
fn fill(stream: &mut dyn Read, out: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while len < out.len() {
        match stream.read(&mut out[len..])? {
            0 => return Ok(len),
            more => len += more,
        }
    }
    if stream.read(&mut [0])? > 0 {
        return Err(std::io::Error::other("output exceeds its size"));
    }
    Ok(len)
}

/// How the blocks of an image are compressed in fact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Coding {
    /// Streams that say themselves how they end.
    Usual(Compressor),
    /// LZMA of a vendor.
    BareLzma(BareLzma),
}

/// LZMA whose streams do not have the header of `.lzma` files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BareLzma {
    /// Bytes before the stream, which are not looked at.
    skipped: usize,
    lc: u32,
    lp: u32,
    pb: u32,
}

impl BareLzma {
    /// The most bytes that are skipped.
    const MOST_SKIPPED: usize = 10;

    /// Returns those that a stream may be, the likeliest first.
    fn candidates(stream: &[u8]) -> impl Iterator<Item = Self> {
        // The first byte of a stream is 0.
        let starts = (0..=Self::MOST_SKIPPED).filter(|at| stream.get(*at) == Some(&0));
        let usual = starts.clone().map(|skipped| Self { skipped, lc: 3, lp: 0, pb: 2 });
        let others = starts.flat_map(|skipped| {
            (0..=4).flat_map(move |lc| {
                (0..=4 - lc).flat_map(move |lp| (0..=4).map(move |pb| Self { skipped, lc, lp, pb }))
            })
        });
        usual.chain(others)
    }

    /// Returns whether the first block of the inode table may be such a stream: it begins with an inode of
    /// a known type. Almost all wrong parameters are refused without decompressing more.
    fn begins_with_inode(self, input: &[u8], order: ByteOrder) -> bool {
        let Self { skipped, lc, lp, pb } = self;
        let stream = input.get(skipped..).unwrap_or_default();
        let mut kind = [0; 2];
        let read = LzmaReader::new(stream, limits::METADATA as u64, lc, lp, pb, 4096, None)
            .and_then(|mut reader| reader.read_exact(&mut kind));
        read.is_ok() && (1..=14).contains(&order.u16_at(&kind, 0))
    }

    /// Decompresses a block that may fill `out`; returns its length. Such a stream need not say how long
    /// it is: it ends with its input, or when it is as long as a block can be.
    fn unpack(self, input: &[u8], out: &mut [u8]) -> Result<usize, String> {
        let Self { skipped, lc, lp, pb } = self;
        let stream = input.get(skipped..).unwrap_or_default();
        let most = out.len();
        // A match cannot reach back further than the block.
        let dictionary = u32::try_from(most).unwrap_or(limits::BLOCK).next_power_of_two().max(4096);
        let open = || {
            LzmaReader::new(stream, most as u64, lc, lp, pb, dictionary, None)
                .map_err(|error| format!("LZMA without a header: {error}"))
        };
        if open()?.read_exact(out).is_ok() {
            return Ok(most);
        }
        // What comes before the end of the input can only be had byte by byte.
        let (mut reader, mut len) = (open()?, 0);
        while len < most && matches!(reader.read(&mut out[len..=len]), Ok(1)) {
            len += 1;
        }
        if len == 0 {
            return Err("LZMA without a header: nothing can be decompressed".to_owned());
        }
        Ok(len)
    }
}

impl Coding {
    /// Returns what the first block of the inode table may be that is not what the superblock says.
    pub(crate) fn candidates(
        block: &[u8],
        order: ByteOrder,
        declared: Compressor,
    ) -> impl Iterator<Item = Self> {
        let usual = (1..=6).filter_map(Compressor::from_number).filter(move |it| *it != declared);
        let bare = BareLzma::candidates(block);
        let bare = bare.filter(move |lzma| lzma.begins_with_inode(block, order));
        usual.map(Self::Usual).chain(bare.map(Self::BareLzma))
    }

    /// Decompresses a block that may fill `out`; returns its length. What goes wrong is described for
    /// people.
    pub(crate) fn unpack_into(self, input: &[u8], out: &mut [u8]) -> Result<usize, String> {
        match self {
            Self::Usual(compressor) => compressor.unpack(input, out),
            Self::BareLzma(lzma) => lzma.unpack(input, out),
        }
    }

    /// Decompresses a block of at most `most` bytes.
    pub(crate) fn unpack(self, input: &[u8], most: usize) -> Result<Vec<u8>, String> {
        let mut out = buffer(most);
        let len = self.unpack_into(input, &mut out)?;
        out.truncate(len);
        Ok(out)
    }

    /// Returns the name of a compressor of `mksquashfs`, or what is different about it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Usual(compressor) => compressor.name().to_owned(),
            Self::BareLzma(BareLzma { skipped, lc, lp, pb }) => {
                format!("lzma (lc {lc}, lp {lp}, pb {pb}, {skipped} bytes before a stream)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_compressor_takes_nonsense_or_delivers_more_than_asked() {
        for number in 1..=6 {
            let compressor = Compressor::from_number(number).unwrap();
            for input in [&[][..], &[0xFF; 40], &[0x5D, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]] {
                if let Ok(len) = compressor.unpack(input, &mut [0; 8192]) {
                    assert!(len <= 8192, "{}", compressor.name());
                }
            }
        }
        assert!(Compressor::from_number(0).is_none() && Compressor::from_number(7).is_none());
    }

    /// A stream that asks for a dictionary of 1.5 GiB.
    #[test]
    fn a_stream_cannot_ask_for_much_memory() {
        let mut stream = vec![0x5D, 0, 0, 0, 0x60];
        stream.extend([0xFF; 8]);
        stream.extend([0; 16]);
        let error = Compressor::Lzma.unpack(&stream, &mut [0; 8192]).unwrap_err();
        assert!(error.contains("memory"), "{error}");
    }
}
