//! File contents: read in the order of the plan, their pages compressed in parallel.
//!
//! A batch is a list of pieces: whole small files, which the worker reads that compresses them, or
//! parts of a large file, which can only be read from its start and are read when the batch is
//! made.

use super::compress::Engines;
use super::error::MkfsError;
use super::options::{Compression, MkfsOptions};
use super::plan::{Plan, path_of};
use crate::inode::decompress;
use crate::mount::compressor_name;
use eraseblock_base::align::is_zero;
use eraseblock_jffs2_format::constants::compression;
use eraseblock_vfs::source::{Content, NodeId, SourceKind, read_part};
#[cfg(feature = "parallel")]
use rayon::prelude::*;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// Bytes of contents in a batch.
const BATCH: usize = 4 << 20;
/// Bytes in a piece: a multiple of every page size.
const PIECE: usize = 128 << 10;

/// One page of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page {
    /// Number of its compressor; [`compression::ZERO`] for a page of zeros.
    pub(super) number: u8,
    /// Bytes stored: of the piece's `stored`, or of its content when nothing is compressed.
    pub(super) len: usize,
}

/// A file, or a part of one.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) id: NodeId,
    /// Offset in the file, a multiple of the page size.
    pub(super) offset: u64,
    pub(super) len: usize,
    /// Whether the file ends with it.
    pub(super) is_last: bool,
    /// The bytes of the file; empty before they are read.
    pub(super) content: Vec<u8>,
    pub(super) pages: Vec<Page>,
    /// The compressed pages, concatenated.
    pub(super) stored: Vec<u8>,
}

impl Piece {
    fn new(id: NodeId, offset: u64, len: usize) -> Self {
        let (content, pages, stored) = (Vec::new(), Vec::new(), Vec::new());
        Self { id, offset, len, is_last: false, content, pages, stored }
    }
}

fn content<'t>(plan: &Plan<'t>, id: NodeId) -> &'t dyn Content {
    match &plan.tree.node(id).kind {
        SourceKind::Regular(content) => content.as_ref(),
        _ => unreachable!("a plan lists only regular files"),
    }
}

fn open<'t>(plan: &Plan<'t>, id: NodeId) -> Result<Box<dyn Read + Send + 't>, MkfsError> {
    let failed = |error| MkfsError::Read { path: path_of(plan.tree, id), error };
    content(plan, id).open().map_err(failed)
}

/// Reads the bytes of a piece; at the end of the file nothing may follow.
fn read(plan: &Plan<'_>, piece: &mut Piece, reader: &mut dyn Read) -> Result<(), MkfsError> {
    piece.content.resize(piece.len, 0);
    let path = || path_of(plan.tree, piece.id);
    match read_part(reader, &mut piece.content, piece.is_last) {
        Ok(true) => Ok(()),
        Ok(false) => {
            Err(MkfsError::Changed { path: path(), expected: content(plan, piece.id).size() })
        }
        Err(error) => Err(MkfsError::Read { path: path(), error }),
    }
}

/// Makes batches in the order of the plan.
pub(super) struct Feeder<'a, 't> {
    plan: &'a Plan<'t>,
    next_file: usize,
    large: Option<Large<'t>>,
}

/// A large file that is being read.
struct Large<'t> {
    id: NodeId,
    reader: Box<dyn Read + Send + 't>,
    offset: u64,
    size: u64,
}

impl<'a, 't> Feeder<'a, 't> {
    pub(super) fn new(plan: &'a Plan<'t>) -> Self {
        Self { plan, next_file: 0, large: None }
    }

    /// Returns the next pieces; none at the end.
    pub(super) fn batch(&mut self) -> Result<Vec<Piece>, MkfsError> {
        let (mut pieces, mut sum) = (Vec::new(), 0);
        while sum < BATCH {
            let Some(piece) = self.next_piece()? else { break };
            sum += piece.len;
            pieces.push(piece);
        }
        Ok(pieces)
    }

    fn next_piece(&mut self) -> Result<Option<Piece>, MkfsError> {
        if self.large.is_none() {
            let Some(id) = self.plan.files.get(self.next_file).copied() else { return Ok(None) };
            self.next_file += 1;
            let size = content(self.plan, id).size();
            if let Some(len) = usize::try_from(size).ok().filter(|len| *len <= PIECE) {
                return Ok(Some(Piece { is_last: true, ..Piece::new(id, 0, len) }));
            }
            self.large = Some(Large { id, reader: open(self.plan, id)?, offset: 0, size });
        }
        let Some(large) = &mut self.large else { return Ok(None) };
        let rest = large.size - large.offset;
        let len = rest.min(PIECE as u64) as usize;
        let piece = Piece::new(large.id, large.offset, len);
        let mut piece = Piece { is_last: rest == len as u64, ..piece };
        read(self.plan, &mut piece, &mut *large.reader)?;
        large.offset += len as u64;
        if piece.is_last {
            self.large = None;
        }
        Ok(Some(piece))
    }
}

/// Compresses batches. Workers borrow compressors from a pool.
pub(super) struct Workshop<'a, 't> {
    plan: &'a Plan<'t>,
    rules: &'a Compression,
    page_size: usize,
    verify: bool,
    engines: Mutex<Vec<Engines>>,
}

impl<'a, 't> Workshop<'a, 't> {
    pub(super) fn new(plan: &'a Plan<'t>, options: &'a MkfsOptions) -> Self {
        let page_size = options.page_size as usize;
        let (rules, verify) = (&options.compression, options.verify);
        Self { plan, rules, page_size, verify, engines: Mutex::default() }
    }

    /// Reads what is not read yet and compresses everything.
    pub(super) fn fill(&self, mut batch: Vec<Piece>) -> Result<Vec<Piece>, MkfsError> {
        let fill = |piece: &mut Piece| {
            let mut engines = match self.lent() {
                Some(engines) => engines,
                None => Engines::new(self.rules)?,
            };
            let done = self.fill_piece(piece, &mut engines);
            self.engines.lock().unwrap_or_else(PoisonError::into_inner).push(engines);
            done
        };
        #[cfg(feature = "parallel")]
        batch.par_iter_mut().try_for_each(fill)?;
        #[cfg(not(feature = "parallel"))]
        batch.iter_mut().try_for_each(fill)?;
        Ok(batch)
    }

    fn lent(&self) -> Option<Engines> {
        self.engines.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn fill_piece(&self, piece: &mut Piece, engines: &mut Engines) -> Result<(), MkfsError> {
        if piece.content.is_empty() {
            let mut reader = open(self.plan, piece.id)?;
            read(self.plan, piece, &mut *reader)?;
        }
        for page in piece.content.chunks(self.page_size) {
            if is_zero(page) {
                piece.pages.push(Page { number: compression::ZERO, len: 0 });
                continue;
            }
            let made = engines.compress(page, page.len())?;
            let (number, stored) = made.unwrap_or((compression::NONE, page));
            if self.verify {
                verify(number, stored, page)?;
            }
            if number != compression::NONE {
                piece.stored.extend_from_slice(stored);
            }
            piece.pages.push(Page { number, len: stored.len() });
        }
        Ok(())
    }
}

/// Checks that what is stored gives the page again.
fn verify(number: u8, stored: &[u8], page: &[u8]) -> Result<(), MkfsError> {
    let mut back = vec![0; page.len()];
    let message = match decompress(number, stored, &mut back) {
        Ok(()) if back == page => return Ok(()),
        Ok(()) => "its output is decompressed to something else".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(MkfsError::Compressor { compressor: compressor_name(number), message })
}
