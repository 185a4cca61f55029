//! A flash as it is planned so far.

use super::UbiOptions;
use crate::error::RepairError;
use crate::flash::{Blocks, PatchedFlash};
use crate::plan::Plan;
use crate::rules::Quarantined;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::Mtd;
use eraseblock_ubi::{Attachment, attach};
use eraseblock_ubi_format::constants::HEADER_SIZE;
use eraseblock_ubi_format::encode::{encode_ec, encode_vid};
use eraseblock_ubi_format::{
    EcHeader, EraseCount, HeaderLayout, ReadQuality, SqNum, VidHeader, classify_vid,
};
use std::sync::Arc;

pub(super) const HEADER: usize = HEADER_SIZE as usize;

/// The flash, and what is planned.
pub(super) struct Work {
    below: Arc<dyn Mtd>,
    pub(super) layout: HeaderLayout,
    pub(super) options: UbiOptions,
    pub(super) blocks: Blocks,
    pub(super) plan: Plan,
    pub(super) quarantine: Vec<Quarantined>,
    /// Sequence numbers that were given out.
    given: u64,
}

impl Work {
    pub(super) fn new(below: Arc<dyn Mtd>, layout: HeaderLayout, options: UbiOptions) -> Self {
        let (blocks, plan, quarantine) = (Blocks::new(), Plan::default(), Vec::new());
        Self { below, layout, options, blocks, plan, quarantine, given: 0 }
    }

    /// Returns the flash as planned so far.
    pub(super) fn flash(&self) -> Result<Arc<dyn Mtd>, RepairError> {
        Ok(Arc::new(PatchedFlash::new(Arc::clone(&self.below), self.blocks.clone())?))
    }

    pub(super) fn attach(&self) -> Result<Attachment, RepairError> {
        Ok(attach(&*self.flash()?, &self.layout, &self.options.attach)?)
    }

    /// Returns the bytes of an eraseblock as planned so far.
    pub(super) fn block(&self, peb: u32) -> Result<Vec<u8>, RepairError> {
        self.part(peb, self.layout.peb_size() as usize)
    }

    /// Returns the bytes of an eraseblock up to the end of its headers, as planned so far.
    pub(super) fn headers(&self, peb: u32) -> Result<Vec<u8>, RepairError> {
        self.part(peb, self.layout.vid_hdr_offset() as usize + HEADER)
    }

    /// Returns the VID header of an eraseblock, if one can be used.
    pub(super) fn vid(&self, peb: u32) -> Result<Option<VidHeader>, RepairError> {
        let offset = self.layout.vid_hdr_offset();
        let bytes = &self.headers(peb)?[offset as usize..];
        let at = Location::Peb(Peb::new(peb), offset);
        Ok(classify_vid(bytes, ReadQuality::Clean, &self.layout, at).usable())
    }

    fn part(&self, peb: u32, len: usize) -> Result<Vec<u8>, RepairError> {
        let mut bytes = vec![0xFF; len];
        match self.blocks.get(&peb) {
            Some(planned) => {
                let len = planned.len().min(len);
                bytes[..len].copy_from_slice(&planned[..len]);
            }
            None if peb < self.below.geometry().peb_count() => {
                let addr = self.below.geometry().address_of(Peb::new(peb));
                self.below.read(addr, &mut bytes)?;
            }
            None => {}
        }
        Ok(bytes)
    }

    /// Returns the number of the first eraseblock after the end.
    pub(super) fn end(&self) -> u32 {
        let last = self.blocks.last_key_value().map_or(0, |(peb, _)| peb + 1);
        self.below.geometry().peb_count().max(last)
    }

    /// Keeps the bytes of an eraseblock, less what is erased at its end.
    pub(super) fn keep(&mut self, peb: u32, why: &str) -> Result<(), RepairError> {
        let mut bytes = self.block(peb)?;
        let used = bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        bytes.truncate(used);
        let at = Location::peb(Peb::new(peb));
        self.quarantine.push(Quarantined { at, why: why.to_owned(), bytes });
        Ok(())
    }

    /// Returns the erase-counter header of an eraseblock: with its own counter or, if that is lost,
    /// with the mean.
    pub(super) fn ec(&self, attachment: &Attachment, peb: u32) -> EcHeader {
        let own = attachment.peb(Peb::new(peb)).and_then(|info| info.erase_count);
        let mean = EraseCount::new(attachment.erase_counters.mean.into());
        EcHeader {
            erase_count: own.or(mean).unwrap_or_default(),
            vid_hdr_offset: self.layout.vid_hdr_offset(),
            data_offset: self.layout.data_offset(),
            image_seq: attachment.image_seq,
            end_mark: false,
        }
    }

    /// Returns an eraseblock after one more erasure.
    pub(super) fn erased(&self, attachment: &Attachment, peb: u32) -> Vec<u8> {
        let mut header = self.ec(attachment, peb);
        let more = EraseCount::new(u64::from(header.erase_count.get()) + 1);
        header.erase_count = more.unwrap_or(header.erase_count);
        encode_ec(&header).to_vec()
    }

    /// Returns an eraseblock with a LEB.
    pub(super) fn with_leb(&self, ec: &EcHeader, vid: &VidHeader, data: &[u8]) -> Vec<u8> {
        let (vid_at, data_at) = (self.layout.vid_hdr_offset(), self.layout.data_offset());
        let mut bytes = vec![0xFF; data_at as usize];
        bytes[..HEADER].copy_from_slice(&encode_ec(ec));
        bytes[vid_at as usize..][..HEADER].copy_from_slice(&encode_vid(vid));
        bytes.extend_from_slice(data);
        bytes
    }

    /// Returns a sequence number that is higher than all others.
    pub(super) fn next_sqnum(&mut self, attachment: &Attachment) -> SqNum {
        self.given = self.given.max(attachment.max_sqnum.get()).saturating_add(1);
        SqNum::new(self.given)
    }
}
