//! Compares what is in memory with the flash.
//!
//! Layer: above `core`.

use super::core::{Core, medium_read};
use super::log::Use;
use crate::objects::Object;
use crate::scan::{Ending, Status, scan};
use eraseblock_base::Findings;
use eraseblock_vfs::{FsError, FsErrorKind};
use eraseblock_yaffs_format::ObjectKind;
use eraseblock_yaffs_format::constants::object;
use std::collections::BTreeMap;

fn wrong(message: String) -> FsError {
    FsError::new(FsErrorKind::Corrupted, message)
}

impl Core {
    /// Compares what memory refers to with what the blocks count, and both with a scan.
    pub(crate) fn check(&self) -> Result<(), FsError> {
        self.check_counts()?;
        self.check_flash()
    }

    fn check_counts(&self) -> Result<(), FsError> {
        let (log, objects) = (&self.log, &self.fs.objects);
        let header =
            |(id, it): (&u32, &Object)| it.header.as_ref().map(|(page, _)| (*page, (*id, 0)));
        let chunks = objects.chunks.iter().map(|(owner, page)| (*page, *owner));
        let pages: BTreeMap<u32, (u32, u32)> =
            objects.all.iter().filter_map(header).chain(chunks).collect();
        if pages != log.pages {
            return Err(wrong("pages in use differ from those that objects have".to_owned()));
        }
        let per_block = log.layout.pages_per_block;
        for (number, block) in (0..).zip(&log.blocks) {
            let first = number * per_block;
            let live = pages.range(first..first + per_block).count();
            if live != block.live as usize {
                let counted = block.live;
                return Err(wrong(format!(
                    "block {number}: {live} pages in use, {counted} counted"
                )));
            }
        }
        Ok(())
    }

    /// Compares the blocks with a scan.
    fn check_blocks(&self, statuses: &[Status]) -> Result<(), FsError> {
        for (number, (block, status)) in (0..).zip(self.log.blocks.iter().zip(statuses)) {
            let agrees = match *status {
                // A page that failed may look like one that was written.
                _ if block.is_failing => true,
                Status::Objects { sequence, has_shrink, .. } => {
                    block.state == Use::Full
                        && block.sequence == sequence
                        && (block.has_shrink || !has_shrink)
                }
                Status::Checkpoint => self.checkpoint.contains(&number),
                Status::Empty => block.state != Use::Full || block.live == 0,
                Status::Bad | Status::Foreign => block.state == Use::Unusable,
            };
            if !agrees {
                return Err(wrong(format!("block {number} is {block:?}, on the flash {status:?}")));
            }
        }
        Ok(())
    }

    /// A mount after a power cut at this moment must find what is in memory.
    fn check_flash(&self) -> Result<(), FsError> {
        let mut findings = Findings::new();
        let mut flash = self.fs.flash.clone();
        let scanned = scan(&mut flash, Ending::Cut, &mut findings).map_err(medium_read)?;
        self.check_blocks(&scanned.statuses)?;
        let found = scanned.objects;
        let users = |id: &u32| *id > object::DELETED;
        let all = &self.fs.objects.all;
        // The next mount deletes what has no name, so that older headers may void its data.
        let has_name = |id: &u32| all.get(id).is_some_and(|it| it.parent != object::UNLINKED);
        for (id, object) in all.iter().filter(|(id, _)| users(id) && has_name(id)) {
            let other = found.all.get(id);
            let of = |it: &Object| match it.kind {
                ObjectKind::File => (it.kind, it.parent, it.size),
                ObjectKind::HardLink => (it.kind, it.parent, it.equivalent.into()),
                _ => (it.kind, it.parent, 0),
            };
            if other.map(of) != Some(of(object)) {
                let other = other.map(of);
                let message = format!("object {id} is {:?}, on the flash {other:?}", of(object));
                return Err(wrong(message));
            }
        }
        let lives = |id: &u32| all.contains_key(id);
        let is_live = |id: &u32, it: &Object| {
            lives(id) || !users(id) || matches!(it.parent, object::UNLINKED | object::DELETED)
        };
        if let Some((id, _)) = found.all.iter().find(|(id, it)| !is_live(id, it)) {
            return Err(wrong(format!("object {id} is on the flash only")));
        }
        let here = self.fs.objects.chunks.iter().filter(|((id, _), _)| has_name(id));
        let there = found.chunks.iter().filter(|((id, _), _)| has_name(id));
        match here.zip(there).find(|(here, there)| here != there) {
            None => Ok(()),
            Some((((id, chunk), page), _)) => Err(wrong(format!(
                "object {id}: chunk {chunk} on page {page} is another on the flash"
            ))),
        }
    }
}
