//! The first write of a mount: it makes durable what the mount decided on the page that was written
//! last (spec: yaffs2 10).
//!
//! The next mount looks at the last page of the newest block only. So what voids a torn page, or
//! repeats one that may soon be unreadable, comes before anything else, in a fresh block.
//!
//! Layer: above `core`.

use super::core::{Core, Flags, nameless};
use crate::medium::Pages;
use crate::objects::Object;
use crate::page::Tagged;
use eraseblock_vfs::FsError;
use eraseblock_yaffs_format::constants::object;
use eraseblock_yaffs_format::{ObjectKind, Tags};

/// A chunk and its page.
struct Chunk {
    page: u32,
    tags: Tags,
    data: Vec<u8>,
}

impl Core {
    /// Writes the last page again, or what voids it if it is torn.
    pub(crate) fn settle(&mut self) -> Result<(), FsError> {
        let torn = std::mem::take(&mut self.torn);
        // Without a free page nothing can follow, either.
        if self.log.free_pages() > 0 {
            let held = self.fs.flash.held.clone().filter(|_| torn.is_empty());
            let last = held.as_ref().and_then(|(page, pages)| self.chunk_on(*page, pages));
            if let Some(last) = last {
                self.repeat(&last)?;
            }
            // The page before a torn one is complete, or the torn one is a copy of it.
            for torn in torn {
                self.void(&torn.tags)?;
            }
        }
        self.fs.flash.held = None;
        Ok(())
    }

    /// Returns the chunk on a page, if it is one of an object.
    fn chunk_on(&self, page: u32, pages: &Pages) -> Option<Chunk> {
        let layout = &self.log.layout;
        let Tagged::Good(tags) = layout.tags(pages.get(0)) else { return None };
        let data = layout.data_of(pages.get(0))?[..layout.data() as usize].to_vec();
        (tags.object != object::SUMMARY).then_some(Chunk { page, tags, data })
    }

    /// Appends a copy of a chunk.
    fn repeat(&mut self, Chunk { page, tags, data }: &Chunk) -> Result<(), FsError> {
        let owner = (tags.object, tags.chunk);
        let copy = self.append_copy(tags, data)?;
        if self.log.pages.get(page) != Some(&owner) {
            return Ok(());
        }
        self.log.free(*page);
        self.log.take(copy, owner);
        if tags.chunk > 0 {
            self.fs.objects.chunks.insert(owner, copy);
        } else if let Some(object) = self.fs.objects.all.get_mut(&tags.object)
            && let Some((place, _)) = &mut object.header
        {
            *place = copy;
        }
        Ok(())
    }

    /// Makes the current state of a chunk newer than a torn page with its tags.
    fn void(&mut self, tags: &Tags) -> Result<(), FsError> {
        let (id, chunk) = (tags.object, tags.chunk);
        let is_deleted = |object: &Object| object.parent == object::DELETED;
        let Some(object) = self.fs.objects.all.get(&id).filter(|it| !is_deleted(it)) else {
            let kind = tags.extra.map_or(ObjectKind::File, |extra| extra.kind);
            return self.append_deletion(id, nameless(id, &Object::unknown(kind)));
        };
        let offset = u64::from(chunk.saturating_sub(1)) * self.data_len();
        if chunk > 0 && offset < object.size {
            let rest = object.size - offset;
            let (data, valid) = self.content(id, chunk)?;
            let bytes = if valid > 0 { valid } else { rest.min(self.data_len()) as u32 };
            return self.put_data(id, chunk, &data, bytes);
        }
        let header = object.header.as_ref().map(|(_, header)| header);
        let flags = Flags {
            is_shrink: chunk > 0
                || header.is_some_and(|header| header.is_shrink)
                || tags.extra.is_some_and(|extra| extra.is_shrink),
            shadows: header.map_or(0, |header| header.shadows),
        };
        self.change_header(id, flags, None, &|_| {})
    }
}
