//! Mounts for writing: a scan, and the repairs that a power cut calls for (spec: yaffs2 6, 10).

use super::RwOptions;
use super::core::{Core, Flags, Purpose, medium};
use super::log::{Block, Log, Use};
use crate::detect::detect;
use crate::error::YaffsError;
use crate::layout::Version;
use crate::medium::{Flash, Source};
use crate::mount::{self, Origin, Yaffs};
use crate::objects::Objects;
use crate::restore::{Restored, restore};
use crate::scan::{Ending, Scanned, Status, scan};
use crate::tree;
use eraseblock_base::Findings;
use eraseblock_mtd::Mtd;
use eraseblock_vfs::FsError;
use eraseblock_yaffs_format::ObjectKind;
use eraseblock_yaffs_format::constants::{SEQUENCES, object};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Core {
    /// Scans the flash; with repairs still to be made.
    pub(crate) fn open(
        device: Arc<dyn Mtd>,
        RwOptions { open: options, read_only }: &RwOptions,
    ) -> Result<(Self, Findings), YaffsError> {
        let source = Source::Device(Arc::clone(&device));
        let bytes = source.size()?;
        let layout = match &options.layout {
            Some(layout) => layout.clone(),
            None => detect(&source, &options.hints)?.ok_or(YaffsError::NotYaffs { bytes })?,
        };
        mount::check(&layout)?;
        let is_the_chips = layout.pages_per_block == device.geometry().pages_per_peb();
        if layout.version == Version::Yaffs1 || !is_the_chips {
            return Err(YaffsError::Layout {
                option: "version",
                found: 1,
                expected: "YAFFS2 with the blocks of the flash, to be written to",
            });
        }
        let blocks = mount::blocks(&layout, bytes)?;
        let mut flash = Flash { source, layout: layout.clone(), blocks, held: None };
        let mut findings = Findings::new();
        let restored = match restore(&flash)? {
            Restored::Objects(restored, _) => Some(restored),
            Restored::None | Restored::Damaged(_) => None,
        };
        let ending = if restored.is_some() { Ending::Clean } else { Ending::Cut };
        let Scanned { mut objects, counts, statuses, torn } =
            scan(&mut flash, ending, &mut findings)?;
        if let Some(restored) = restored {
            take_sizes(&mut objects, &restored);
        }
        let tree = tree::build(&mut objects, &mut findings);
        let info = mount::info(&flash, &objects, &tree, counts, Origin::Scan);
        let checkpoint = (0..).zip(&statuses).filter(|(_, it)| **it == Status::Checkpoint);
        let checkpoint = checkpoint.map(|(number, _)| number).collect();
        let mut log = Log {
            device,
            layout,
            blocks: statuses.iter().copied().map(block).collect(),
            pages: BTreeMap::new(),
            current: None,
            sequence: counts.sequence.max(*SEQUENCES.start()),
            last: blocks - 1,
        };
        count_pages(&mut log, &objects);
        let fs = Yaffs { flash, info, objects, tree };
        let (open, failed, read_only) = (BTreeMap::new(), None, *read_only);
        let is_repaired = false;
        let core = Self { fs, log, open, checkpoint, torn, read_only, is_repaired, failed };
        Ok((core, findings))
    }

    /// Makes the file system writable, or not.
    pub(crate) fn remount(&mut self, read_only: bool) -> Result<(), FsError> {
        self.read_only = read_only;
        if read_only || self.is_repaired { Ok(()) } else { self.repair() }
    }

    /// Makes the state on flash the one in memory: what a cut left half done is finished before
    /// anything is collected.
    pub(crate) fn repair(&mut self) -> Result<(), FsError> {
        self.is_repaired = true;
        self.settle()?;
        let all = &self.fs.objects.all;
        let is_linked = |id: &u32| self.fs.tree.links.get(id).is_some_and(|links| *links > 0);
        let shown: std::collections::BTreeSet<u32> =
            self.fs.tree.directories.values().flatten().map(|entry| entry.own).collect();
        let users = all.iter().filter(|(id, _)| **id > object::DELETED);
        let (mut gone, mut dead, mut rewritten) = (Vec::new(), Vec::new(), Vec::new());
        for (id, object) in users {
            let is_removed = matches!(object.parent, object::UNLINKED | object::DELETED);
            let is_spare_link = object.kind == ObjectKind::HardLink && !shown.contains(id);
            if is_removed && !is_linked(id) || is_spare_link {
                (if object.parent == object::DELETED { &mut gone } else { &mut dead }).push(*id);
            } else if object.header.as_ref().is_some_and(|(_, header)| header.shadows > 0) {
                rewritten.push(*id);
            }
        }
        // Before anything is collected: what these have left may be in a block that was half erased.
        for id in gone {
            self.forget(id);
        }
        for id in dead {
            self.begin(1, Purpose::Deletion)?;
            self.put_deletion(id)?;
        }
        // Their victims are gone only now.
        for id in rewritten {
            self.begin(1, Purpose::Deletion)?;
            self.change_header(id, Flags::default(), None, &|_| {})?;
        }
        Ok(())
    }

    /// Drops an object whose deletion is on flash.
    fn forget(&mut self, id: u32) {
        self.drop_data(id, 1);
        if let Some((page, _)) = self.fs.objects.all.remove(&id).and_then(|object| object.header) {
            self.log.free(page);
        }
    }

    /// Deletes what is open without a name, as a clean unmount does.
    pub(crate) fn end(&mut self) -> Result<(), FsError> {
        if self.read_only || self.failed.is_some() {
            return Ok(());
        }
        let open = std::mem::take(&mut self.open);
        for id in open.into_keys() {
            if self.fs.tree.links.get(&id) == Some(&0) {
                self.begin(1, Purpose::Deletion)?;
                self.put_deletion(id)?;
            }
        }
        self.sync()
    }

    /// Makes everything durable that the device keeps back.
    pub(crate) fn sync(&self) -> Result<(), FsError> {
        self.log.device.sync().map_err(medium)
    }
}

fn block(status: Status) -> Block {
    match status {
        Status::Bad | Status::Foreign => Block::new(Use::Unusable),
        Status::Empty | Status::Checkpoint => Block::new(Use::Empty),
        Status::Objects { sequence, has_shrink } => {
            Block { sequence, has_shrink, ..Block::new(Use::Full) }
        }
    }
}

/// Counts the pages that are needed.
fn count_pages(log: &mut Log, objects: &Objects) {
    for ((id, chunk), page) in &objects.chunks {
        log.take(*page, (*id, *chunk));
    }
    for (id, object) in &objects.all {
        if let Some((page, _)) = &object.header {
            log.take(*page, (*id, 0));
        }
    }
}

/// Takes the sizes of files over that were made longer by a truncation, of which only a checkpoint
/// knows (spec: yaffs2 5).
fn take_sizes(objects: &mut Objects, restored: &Objects) {
    for (id, object) in &mut objects.all {
        let other = restored.all.get(id).filter(|other| other.kind == object.kind);
        if let Some(other) = other.filter(|_| object.kind == ObjectKind::File) {
            object.size = object.size.max(other.size);
        }
    }
}
