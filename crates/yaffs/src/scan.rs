//! Mounts YAFFS2 by scanning: blocks from the newest to the oldest, pages from the last to the first
//! (spec: yaffs2 6).

mod blocks;
mod tail;

use crate::codes;
use crate::medium::{Flash, Pages};
use crate::mount::Counts;
use crate::objects::{Objects, Stated};
use crate::page::Tagged;
use blocks::Block;
pub(crate) use blocks::Status;
use eraseblock_base::{Findings, Location};
use eraseblock_mtd::ReadError;
use eraseblock_yaffs_format::constants::{MAX_CHUNK, object};
use eraseblock_yaffs_format::{Header, ObjectKind, Tags};
pub(crate) use tail::{Ending, Torn};

/// What a scan found.
pub(crate) struct Scanned {
    pub(crate) objects: Objects,
    pub(crate) counts: Counts,
    /// What is in each block.
    pub(crate) statuses: Vec<Status>,
    /// Pages that a power cut tore.
    pub(crate) torn: Vec<Torn>,
}

/// Scans all blocks. The page that was written last is held in memory if the writer may have been
/// cut off.
pub(crate) fn scan(
    flash: &mut Flash,
    ending: Ending,
    findings: &mut Findings,
) -> Result<Scanned, ReadError> {
    let (mut blocks, mut counts, statuses) = blocks::read(flash, findings)?;
    blocks.sort_by_key(|block| (block.sequence, block.number));
    counts.sequence = blocks.last().map_or(0, |block| block.sequence);
    let torn = match ending {
        Ending::Clean => Vec::new(),
        Ending::Cut => tail::find(flash, &mut blocks, findings)?,
    };
    let flash = &*flash;
    let objects = Objects::new(flash.layout.data());
    let mut scan = Scan { flash, objects, findings };
    for block in blocks.iter().rev() {
        scan.block(block)?;
    }
    Ok(Scanned { objects: scan.objects, counts, statuses, torn })
}

struct Scan<'a> {
    flash: &'a Flash,
    objects: Objects,
    findings: &'a mut Findings,
}

impl Scan<'_> {
    fn block(&mut self, block: &Block) -> Result<(), ReadError> {
        let first = block.number * self.flash.layout.pages_per_block;
        let mut is_last = true;
        for (index, tagged) in (0..block.tags.len() as u32).zip(&block.tags).rev() {
            let page = first + index;
            match tagged {
                Tagged::Unused => continue,
                Tagged::Good(tags) if self.is_possible(block, tags) => self.chunk(tags, page)?,
                // The summary, which is part of the block.
                Tagged::Good(tags) if tags.object == object::SUMMARY => {}
                Tagged::Good(_) => {
                    let message = "tags with impossible values: the page is ignored";
                    self.damaged(page, is_last, message);
                }
                Tagged::Damaged => {
                    let message = "tags with more wrong bits than their ECC corrects: the page is \
                                   ignored";
                    self.damaged(page, is_last, message);
                }
            }
            is_last = false;
        }
        Ok(())
    }

    /// Reports tags that cannot be used: on the last page of a block as what a power cut leaves.
    fn damaged(&mut self, page: u32, is_last: bool, message: &str) {
        let at = self.flash.location(page);
        if is_last {
            self.findings.note(at, "page-torn", message);
        } else {
            self.findings.warn(at, codes::TAGS_DAMAGED, message);
        }
    }

    fn is_possible(&self, block: &Block, tags: &Tags) -> bool {
        tags.sequence == block.sequence
            && (1..=object::MAX).contains(&tags.object)
            && tags.object != object::SUMMARY
            && tags.chunk <= MAX_CHUNK
            && (tags.chunk == 0 || tags.bytes <= self.flash.layout.data())
            && tags.extra.is_none_or(|extra| extra.parent <= object::MAX)
    }

    fn chunk(&mut self, tags: &Tags, page: u32) -> Result<(), ReadError> {
        if tags.chunk > 0 {
            self.objects.data(tags.object, tags.chunk, tags.bytes, page);
            return Ok(());
        }
        let is_newest = !self.objects.is_settled(tags.object);
        let is_read = tags.extra.is_none() || self.objects.wants_header(tags.object);
        let header = if is_read { self.header(tags, page, is_newest)? } else { None };
        let stated = match (tags.extra, &header) {
            (Some(extra), _) => Stated {
                kind: extra.kind,
                parent: extra.parent,
                size: if extra.kind == ObjectKind::File { extra.value.into() } else { 0 },
                equivalent: extra.value,
                is_shrink: extra.is_shrink,
            },
            (None, Some(header)) => Stated {
                kind: header.kind,
                parent: header.parent,
                size: header.size,
                equivalent: header.equivalent,
                is_shrink: header.is_shrink,
            },
            (None, None) => return Ok(()),
        };
        let shadows = header.as_ref().map_or(0, |header| header.shadows);
        if is_newest && shadows > 0 {
            self.objects.replace(shadows);
        } else if is_newest && header.is_none() && tags.extra.is_some_and(|extra| extra.shadows) {
            let message = "the damaged header names an object that it replaces: that may be back";
            self.findings.warn(self.flash.location(page), codes::SHADOW_LOST, message);
        }
        self.objects.header(tags.object, &stated, header.map(|header| (page, header)));
        Ok(())
    }

    /// Reads a header; `None` with a finding if its data is damaged or is that of another object.
    fn header(
        &mut self,
        tags: &Tags,
        page: u32,
        is_newest: bool,
    ) -> Result<Option<Header>, ReadError> {
        let header = read_header(self.flash, page)?;
        let agrees = |header: &Header| {
            header.parent <= object::MAX
                && tags
                    .extra
                    .is_none_or(|extra| (extra.kind, extra.parent) == (header.kind, header.parent))
        };
        let header = header.filter(agrees);
        if header.is_none() && is_newest {
            let id = tags.object;
            let message = match tags.extra {
                Some(_) => {
                    format!("damaged header of object {id}: an older name and owner is used")
                }
                None => format!("damaged header of object {id}: it is ignored"),
            };
            self.findings.warn(self.flash.location(page), codes::HEADER_DAMAGED, message);
        }
        Ok(header)
    }
}

/// Reads the header in a page; `None` if its ECC fails or if it is none.
pub(crate) fn read_header(flash: &Flash, page: u32) -> Result<Option<Header>, ReadError> {
    Ok(header_on(flash, page, &flash.page(page)?))
}

/// Returns the header in a page that was read.
pub(crate) fn header_on(flash: &Flash, page: u32, pages: &Pages) -> Option<Header> {
    let data = flash.layout.data_of(pages.get(0))?;
    let at: Location = flash.location(page);
    Header::decode(flash.layout.order, &data, at).ok()
}
