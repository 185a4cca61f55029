//! The input of an archive reader: a plain file whose contents are read in place later, or a stream
//! (standard input, a compressed archive) whose contents are spooled into one unnamed temporary
//! file.
//!
//! # Invariants
//! 1. `pos` is the position in the decompressed archive of the next byte to return.
//! 2. A returned [`Extent`] is complete: its bytes are in its file once [`Input::finish`] has
//!    returned.

use crate::error::TreeError;
use eraseblock_base::Location;
use eraseblock_vfs::Content;
use lzma_rust2::{LzmaReader, XzReader};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// Bytes moved at a time.
const CHUNK: usize = 128 * 1024;

/// The memory limit of a decompressor in KiB: three times what archives from `xz -9` need.
const MAX_DECODER_KIB: u32 = 200 << 10;

/// Maximum nesting of compressed archives, more than any real archive has.
const MAX_LAYERS: u32 = 4;

/// Called with the bytes of a content as they are read.
pub(crate) type Look<'a> = &'a mut dyn FnMut(&[u8]);

/// Consecutive bytes of a file.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// The bytes of an archive, in order.
pub(crate) struct Input {
    pos: u64,
    /// Bytes read but not returned yet: `buffer[start..]`.
    buffer: Vec<u8>,
    start: usize,
    source: Source,
    /// Number of nested decompressors.
    layers: u32,
}

enum Source {
    /// The next byte to read lies at `at`; the file ends at `end`.
    Plain {
        file: Arc<File>,
        at: u64,
        end: u64,
    },
    Stream {
        reader: Box<dyn Read + Send>,
        spool: Option<Spool>,
    },
}

/// The temporary file; writes are gathered.
struct Spool {
    file: Arc<File>,
    len: u64,
    pending: Vec<u8>,
}

impl Spool {
    fn new() -> io::Result<Self> {
        Ok(Self { file: Arc::new(tempfile::tempfile()?), len: 0, pending: Vec::new() })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        self.len += bytes.len() as u64;
        if self.pending.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    /// Returns the place of the next `len` bytes to be written.
    fn next_extent(&self, len: u64) -> Extent {
        Extent { file: Arc::clone(&self.file), offset: self.len, len }
    }

    fn flush(&mut self) -> io::Result<()> {
        (&*self.file).write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }
}

/// The compression of an archive, detected from its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
    Lzma,
    Bzip2,
    Foreign(&'static str),
}

impl Compression {
    fn detect(head: &[u8]) -> Self {
        match head {
            [0x1F, 0x8B, ..] => Self::Gzip,
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Self::Zstd,
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Self::Bzip2,
            [0x02, 0x21, 0x4C, 0x18, ..] | [0x04, 0x22, 0x4D, 0x18, ..] => {
                Self::Foreign("lz4 compression")
            }
            [0x89, b'L', b'Z', b'O', 0, ..] => Self::Foreign("lzop compression"),
            [0x5D, 0, 0, ..] => Self::Lzma,
            _ => Self::None,
        }
    }

    /// Returns a reader of the decompressed bytes of `packed`.
    fn reader(self, packed: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        let packed = io::BufReader::with_capacity(CHUNK, packed);
        Ok(match self {
            Self::None | Self::Foreign(_) => Box::new(packed),
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Self::Zstd => Box::new(zstd::Decoder::with_buffer(packed)?),
            Self::Xz => Box::new(XzReader::new_mem_limit(packed, true, MAX_DECODER_KIB)),
            Self::Lzma => Box::new(LzmaReader::new_mem_limit(packed, MAX_DECODER_KIB, None)?),
            Self::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(packed)),
        })
    }
}

/// Whether passed bytes of a stream are kept to be read later.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spooling {
    No,
    Yes,
}

impl Input {
    /// Reads a file from its current position: in place if it is a plain, uncompressed, seekable
    /// file, otherwise as a stream.
    pub(crate) fn from_file(mut file: File) -> Result<Self, TreeError> {
        let is_regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
        let start = if is_regular { file.stream_position().ok() } else { None };
        let Some(at) = start else {
            return Self::from_reader(Box::new(file));
        };
        let failed = |source| TreeError::Input { at: Location::Byte(at), source };
        let end = file.seek(SeekFrom::End(0)).map_err(failed)?;
        let source = Source::Plain { file: Arc::new(file), at, end };
        let mut input = Self { pos: 0, buffer: Vec::new(), start: 0, source, layers: 0 };
        input.decompress()?;
        Ok(input)
    }

    /// Reads a stream.
    pub(crate) fn from_reader(reader: Box<dyn Read + Send>) -> Result<Self, TreeError> {
        let source = Source::Stream { reader, spool: None };
        let mut input = Self { pos: 0, buffer: Vec::new(), start: 0, source, layers: 0 };
        input.decompress()?;
        Ok(input)
    }

    /// Returns the position of the next byte.
    pub(crate) fn pos(&self) -> u64 {
        self.pos
    }

    pub(crate) fn here(&self) -> Location {
        Location::Byte(self.pos)
    }

    /// If the following data is compressed, continues with the decompressed data; positions
    /// continue. Returns whether it was.
    pub(crate) fn decompress(&mut self) -> Result<bool, TreeError> {
        let at = self.here();
        let kind = Compression::detect(self.peek(6)?);
        if let Compression::Foreign(what) = kind {
            let hint = "decompress it first and give it as `-`, on standard input";
            return Err(TreeError::Unsupported { at, what, hint });
        }
        if kind == Compression::None {
            return Ok(false);
        }
        self.layers += 1;
        if self.layers > MAX_LAYERS {
            let what = "an archive compressed this many times over";
            return Err(TreeError::Unsupported { at, what, hint: "decompress it first" });
        }
        let head = io::Cursor::new(self.buffer.split_off(self.start));
        let placeholder = Source::Stream { reader: Box::new(io::empty()), spool: None };
        let (rest, spool): (Box<dyn Read + Send>, _) =
            match std::mem::replace(&mut self.source, placeholder) {
                Source::Plain { file, at, end } => (Box::new(PlainReader { file, at, end }), None),
                Source::Stream { reader, spool } => (reader, spool),
            };
        let packed = head.chain(rest);
        let failed = |source| TreeError::Input { at, source };
        let reader = kind.reader(packed).map_err(failed)?;
        self.buffer.clear();
        self.start = 0;
        self.source = Source::Stream { reader, spool };
        Ok(true)
    }

    /// Returns the next `count` bytes (fewer only at the end) without consuming them.
    pub(crate) fn peek(&mut self, count: usize) -> Result<&[u8], TreeError> {
        if self.buffer.len() - self.start < count {
            self.fill(count)?;
        }
        let end = self.buffer.len().min(self.start + count);
        Ok(&self.buffer[self.start..end])
    }

    fn fill(&mut self, count: usize) -> Result<(), TreeError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let at = self.here();
        let failed = |source| TreeError::Input { at, source };
        while self.buffer.len() < count {
            let old = self.buffer.len();
            let want = (count - old).max(4096);
            self.buffer.resize(old + want, 0);
            let got = self.source.read(&mut self.buffer[old..]);
            let got = match got {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
                Ok(0) => {
                    self.buffer.truncate(old);
                    return Ok(());
                }
                got => got,
            };
            self.buffer.truncate(old + *got.as_ref().unwrap_or(&0));
            got.map_err(failed)?;
        }
        Ok(())
    }

    /// Consumes `count` bytes that [`Input::peek`] returned.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(self.buffer.len() - self.start >= count, "peeked before consumed");
        self.start += count;
        self.pos += count as u64;
    }

    /// Returns the next `count` bytes; the caller must have bounded `count`.
    pub(crate) fn take(&mut self, count: usize, what: &'static str) -> Result<Vec<u8>, TreeError> {
        let at = self.here();
        let bytes = self.peek(count)?;
        if bytes.len() < count {
            return Err(TreeError::Truncated { at, what });
        }
        let bytes = bytes.to_vec();
        self.consume(count);
        Ok(bytes)
    }

    /// Skips `count` bytes.
    pub(crate) fn skip(&mut self, count: u64, what: &'static str) -> Result<(), TreeError> {
        self.pass(count, what, Spooling::No, None)
    }

    /// Skips `count` bytes that can be read later. `look` gets all of them, which for a plain file
    /// requires reading them now.
    pub(crate) fn content(
        &mut self,
        count: u64,
        what: &'static str,
        look: Option<Look<'_>>,
    ) -> Result<Extent, TreeError> {
        let extent = match &mut self.source {
            Source::Plain { file, at, .. } => {
                let buffered = (self.buffer.len() - self.start) as u64;
                Extent { file: Arc::clone(file), offset: *at - buffered, len: count }
            }
            Source::Stream { spool: Some(spool), .. } => spool.next_extent(count),
            Source::Stream { spool, .. } => {
                spool.insert(Spool::new().map_err(TreeError::Spool)?).next_extent(count)
            }
        };
        self.pass(count, what, Spooling::Yes, look)?;
        Ok(extent)
    }

    fn pass(
        &mut self,
        count: u64,
        what: &'static str,
        spooling: Spooling,
        mut look: Option<Look<'_>>,
    ) -> Result<(), TreeError> {
        let at = self.here();
        let mut left = count;
        while left > 0 {
            if look.is_none() && self.jump(left) {
                return Ok(());
            }
            let want = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            let got = self.peek(want)?.len();
            if got == 0 {
                return Err(TreeError::Truncated { at, what });
            }
            let bytes = &self.buffer[self.start..self.start + got];
            if spooling == Spooling::Yes
                && let Source::Stream { spool: Some(spool), .. } = &mut self.source
            {
                spool.write(bytes).map_err(TreeError::Spool)?;
            }
            if let Some(look) = &mut look {
                look(bytes);
            }
            self.consume(got);
            left -= got as u64;
        }
        Ok(())
    }

    /// Skips `count` bytes of a plain file without reading them; returns false if that is not
    /// possible.
    fn jump(&mut self, count: u64) -> bool {
        let buffered = (self.buffer.len() - self.start) as u64;
        let Source::Plain { at, end, .. } = &mut self.source else {
            return false;
        };
        let beyond = count.saturating_sub(buffered);
        if beyond > end.saturating_sub(*at) {
            return false;
        }
        *at += beyond;
        self.start += usize::try_from(count.min(buffered)).expect("not above the buffer's length");
        self.pos += count;
        true
    }

    /// Ends reading: every returned extent is in its file.
    pub(crate) fn finish(self) -> Result<(), TreeError> {
        match self.source {
            Source::Stream { spool: Some(mut spool), .. } => {
                spool.flush().map_err(TreeError::Spool)
            }
            _ => Ok(()),
        }
    }
}

impl Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain { file, at, end } => read_plain(file, at, *end, buf),
            Self::Stream { reader, .. } => reader.read(buf),
        }
    }
}

fn read_plain(file: &File, at: &mut u64, end: u64, buf: &mut [u8]) -> io::Result<usize> {
    let left = usize::try_from(end.saturating_sub(*at)).unwrap_or(usize::MAX);
    let count = buf.len().min(left);
    let got = file.read_at(&mut buf[..count], *at)?;
    *at += got as u64;
    Ok(got)
}

/// The rest of a plain file as a stream.
struct PlainReader {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for PlainReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        read_plain(&self.file, &mut self.at, self.end, buf)
    }
}

/// The content of an archive member: pieces of a file, and zeros between them.
#[derive(Debug)]
pub(crate) struct Pieces {
    size: u64,
    /// (offset in the content, place of its bytes), ascending and disjoint, within `size`.
    pieces: Vec<(u64, Extent)>,
}

impl Pieces {
    /// Returns a content without holes.
    pub(crate) fn whole(extent: Extent) -> Self {
        Self { size: extent.len, pieces: vec![(0, extent)] }
    }

    /// Returns a content of `size` bytes whose parts at `map` (offset, length) lie consecutively in
    /// `stored`. The map must have been checked.
    pub(crate) fn sparse(size: u64, map: &[(u64, u64)], stored: &Extent) -> Self {
        let mut at = stored.offset;
        let mut pieces = Vec::with_capacity(map.len());
        for (offset, len) in map.iter().copied().filter(|piece| piece.1 > 0) {
            pieces.push((offset, Extent { file: Arc::clone(&stored.file), offset: at, len }));
            at += len;
        }
        Self { size, pieces }
    }

    /// Reads bytes at `offset` into the front of `buf`; returns their number.
    fn read_some(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let end = self.size.min(offset.saturating_add(buf.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        let index = self.pieces.partition_point(|(at, extent)| at + extent.len <= offset);
        let fit = |end: u64| usize::try_from(end - offset).expect("within the buffer");
        match self.pieces.get(index) {
            Some((at, extent)) if *at <= offset => {
                let count = fit(end.min(at + extent.len));
                extent.file.read_at(&mut buf[..count], extent.offset + (offset - at))
            }
            next => {
                let count = fit(next.map_or(end, |(at, _)| end.min(*at)));
                buf[..count].fill(0);
                Ok(count)
            }
        }
    }
}

impl Content for Pieces {
    fn size(&self) -> u64 {
        self.size
    }

    fn open(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(Box::new(PiecesReader { content: self, at: 0 }))
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() {
            let at = offset.saturating_add(filled as u64);
            match self.read_some(at, &mut buf[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

struct PiecesReader<'a> {
    content: &'a Pieces,
    at: u64,
}

impl Read for PiecesReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_some(self.at, buf)?;
        self.at += count as u64;
        Ok(count)
    }
}
