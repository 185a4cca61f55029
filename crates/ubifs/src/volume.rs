//! A LEB device with the geometry of the file system on it.

use crate::report::Late;
use crate::tnc::check_leaf;
use eraseblock_base::Leb;
use eraseblock_base::align::is_erased;
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome, read_only_leb};
use eraseblock_ubifs_format::decode::Node;
use eraseblock_ubifs_format::{Branch, Expected, FormatError, Limits, Superblock};
use std::sync::Arc;

/// The volume as used by everything below the file-system interface.
#[derive(Debug)]
pub(crate) struct Volume {
    device: Arc<dyn LebDevice>,
    /// The superblock as mounted (grown to the volume).
    pub(crate) sb: Superblock,
    /// The parameters that node lengths depend on.
    pub(crate) limits: Limits,
    /// Of a past commit: the sequence number from which on nodes were written after it.
    pub(crate) later: Option<u64>,
    /// Findings made after opening.
    pub(crate) late: Late,
}

impl Volume {
    pub(crate) fn new(device: Arc<dyn LebDevice>, sb: Superblock) -> Self {
        let limits = Limits::of(&sb);
        Self { device, sb, limits, later: None, late: Late::default() }
    }

    /// Returns the same as it was before a node with the sequence number `later` was written: nodes
    /// that were written since then count as lost.
    pub(crate) fn before(&self, later: u64) -> Self {
        let device = Arc::clone(&self.device);
        Self { later: Some(later), ..Self::new(device, self.sb.clone()) }
    }

    /// Checks the bytes of a leaf against the branch that led to it.
    pub(crate) fn leaf<'a>(
        &self,
        branch: &Branch,
        bytes: &'a [u8],
    ) -> Result<Node<'a>, FormatError> {
        self.check_age(check_leaf(&self.limits, branch, bytes)?)
    }

    /// Refuses a node that was written after the commit that is read: its place was used again.
    pub(crate) fn check_age<'a>(&self, node: Node<'a>) -> Result<Node<'a>, FormatError> {
        match self.later {
            Some(later) if node.header.sqnum >= later => Err(FormatError::Field {
                at: node.at,
                what: node.header.node_type,
                field: "sequence number",
                found: node.header.sqnum,
                expected: Expected::Words("one of the time before the commit"),
            }),
            _ => Ok(node),
        }
    }

    pub(crate) fn leb_size(&self) -> u32 {
        self.sb.leb_size
    }

    /// Returns the unit a power cut can tear, at least the minimum I/O unit.
    pub(crate) fn max_write(&self) -> u32 {
        self.device.max_write().max(self.sb.min_io_size)
    }

    /// Returns the first LEB after the main area that can hold anything.
    pub(crate) fn main_end(&self) -> u32 {
        self.sb.leb_cnt.min(self.device.leb_count())
    }

    /// Reads bytes of a LEB. A LEB after the end of the device reads as never written: an image
    /// file may be shorter than its volume.
    pub(crate) fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        if leb.get() >= self.device.leb_count() {
            buf.fill(0xFF);
            return Ok(());
        }
        self.device.read(leb, offset, buf).map(drop)
    }

    /// Returns whether a LEB may hold anything; one that does not reads as erased.
    pub(crate) fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        Ok(leb.get() < self.device.leb_count() && self.device.is_mapped(leb)?)
    }

    /// Reads a whole LEB.
    pub(crate) fn read_leb(&self, leb: Leb, buf: &mut Vec<u8>) -> Result<(), MtdError> {
        buf.resize(self.leb_size() as usize, 0);
        self.read(leb, 0, buf)
    }

    /// Reads a LEB that is written from its start; returns the end of the part that was read. After
    /// an erased piece of several units that a power cut can tear nothing was written: that part is
    /// not read and counts as erased.
    pub(crate) fn read_written(&self, leb: Leb, buf: &mut Vec<u8>) -> Result<u32, MtdError> {
        buf.clear();
        buf.resize(self.leb_size() as usize, 0xFF);
        let piece = PIECE * self.max_write();
        let mut end = 0;
        for part in buf.chunks_mut(piece as usize) {
            self.read(leb, end, part)?;
            end += part.len() as u32;
            if is_erased(part) {
                break;
            }
        }
        Ok(end)
    }

    /// Reads the part that [`Volume::read_written`] has not read. The other part is not read again:
    /// cells that were being programmed at a power cut may give another result.
    pub(crate) fn read_rest(&self, leb: Leb, end: u32, buf: &mut [u8]) -> Result<(), MtdError> {
        self.read(leb, end, buf.get_mut(end as usize..).unwrap_or_default())
    }
}

/// Number of units read at once of a LEB that may have few.
const PIECE: u32 = 4;

/// The bytes of a volume divided into LEBs of another size: an image was written to a volume, or
/// opened, with a wrong LEB size.
#[derive(Debug)]
pub(crate) struct Recut {
    inner: Arc<dyn LebDevice>,
    leb_size: u32,
}

impl Recut {
    pub(crate) fn new(inner: Arc<dyn LebDevice>, leb_size: u32) -> Self {
        Self { inner, leb_size }
    }
}

impl LebDevice for Recut {
    fn leb_size(&self) -> u32 {
        self.leb_size
    }

    fn min_io(&self) -> u32 {
        self.inner.min_io()
    }

    fn max_write(&self) -> u32 {
        self.inner.max_write()
    }

    fn leb_count(&self) -> u32 {
        let bytes = u64::from(self.inner.leb_size()) * u64::from(self.inner.leb_count());
        u32::try_from(bytes / u64::from(self.leb_size)).unwrap_or(u32::MAX)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read(&self, leb: Leb, offset: u32, mut buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let inner_size = u64::from(self.inner.leb_size());
        let mut flat = u64::from(leb.get()) * u64::from(self.leb_size) + u64::from(offset);
        let mut outcome = ReadOutcome::CLEAN;
        while !buf.is_empty() {
            let within = flat % inner_size;
            let room = usize::try_from(inner_size - within).unwrap_or(usize::MAX).min(buf.len());
            let (now, rest) = buf.split_at_mut(room);
            let inner_leb = Leb::new(u32::try_from(flat / inner_size).unwrap_or(u32::MAX));
            let inner_offset = u32::try_from(within).expect("an offset in a LEB has 32 bits");
            outcome = outcome.merge(self.inner.read(inner_leb, inner_offset, now)?);
            flat += room as u64;
            buf = rest;
        }
        Ok(outcome)
    }

    fn is_mapped(&self, _leb: Leb) -> Result<bool, MtdError> {
        Ok(true)
    }

    fn write(&self, leb: Leb, _offset: u32, _data: &[u8]) -> Result<(), MtdError> {
        read_only_leb(leb, "write")
    }

    fn change(&self, leb: Leb, _data: &[u8]) -> Result<(), MtdError> {
        read_only_leb(leb, "change")
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        read_only_leb(leb, "map")
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        read_only_leb(leb, "unmap")
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}
