//! Mounts for writing: a checkpoint or a scan, and the repairs that a power cut calls for (spec: yaffs2 6, 10).

use super::RwOptions;
use super::core::{Core, Flags, Purpose, medium};
use super::log::{Block, Log, Use};
use crate::detect::detect;
use crate::error::YaffsError;
use crate::layout::Version;
use crate::medium::{Flash, Source};
use crate::mount::{self, Counts, OpenOptions, Origin, Yaffs};
use crate::objects::Objects;
use crate::page::Tagged;
use crate::restore::{Restored, State, restore};
use crate::scan::{Ending, Scanned, Status, Torn, scan};
use crate::tree;
use eraseblock_base::Findings;
use eraseblock_mtd::{Mtd, ReadError};
use eraseblock_vfs::FsError;
use eraseblock_yaffs_format::ObjectKind;
use eraseblock_yaffs_format::constants::{SEQUENCES, object};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Core {
    /// Restores a checkpoint or scans the flash; with repairs still to be made.
    pub(crate) fn open(
        device: Arc<dyn Mtd>,
        options: &RwOptions,
    ) -> Result<(Self, Findings), YaffsError> {
        let source = Source::Device(Arc::clone(&device));
        let bytes = source.size()?;
        let layout = match &options.open.layout {
            Some(layout) => layout.clone(),
            None => detect(&source, &options.open.hints)?.ok_or(YaffsError::NotYaffs { bytes })?,
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
        let Found { mut objects, counts, statuses, torn, failing, current, origin } =
            find(&mut flash, &options.open, &mut findings)?;
        let tree = tree::build(&mut objects, &mut findings);
        let info = mount::info(&flash, &objects, &tree, counts, origin);
        let checkpoint = (0..).zip(&statuses).filter(|(_, it)| **it == Status::Checkpoint);
        let checkpoint = checkpoint.map(|(number, _)| number).collect();
        let mut log = Log {
            device,
            layout,
            blocks: statuses.iter().copied().map(block).collect(),
            pages: BTreeMap::new(),
            current: None,
            tags: Vec::new(),
            summaries: options.summaries,
            sequence: counts.sequence.max(*SEQUENCES.start()),
            last: blocks - 1,
        };
        for number in failing {
            log.blocks[number as usize].is_failing = true;
        }
        count_pages(&mut log, &objects);
        continue_block(&mut log, &flash, current)?;
        let core = Self {
            fs: Yaffs { flash, info, objects, tree },
            log,
            open: BTreeMap::new(),
            checkpoint,
            is_described: origin == Origin::Checkpoint,
            checkpoint_from: options.checkpoint_from,
            torn,
            read_only: options.read_only,
            is_repaired: false,
            failed: None,
        };
        Ok((core, findings))
    }

    /// Makes the file system writable.
    pub(crate) fn become_writable(&mut self) -> Result<(), FsError> {
        self.read_only = false;
        if self.is_repaired { Ok(()) } else { self.repair() }
    }

    /// Makes the state on flash the one in memory: what a cut left half done is finished before
    /// anything is collected.
    pub(crate) fn repair(&mut self) -> Result<(), FsError> {
        self.is_repaired = true;
        if !self.is_described {
            // A part of a checkpoint that is void must not make one with what follows.
            self.erase_checkpoint()?;
        }
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

    /// Makes everything durable that the device keeps back, and writes a checkpoint.
    pub(crate) fn sync(&mut self) -> Result<(), FsError> {
        self.flush()?;
        if self.read_only || self.failed.is_some() || self.is_described {
            return Ok(());
        }
        self.put_checkpoint()?;
        self.flush()
    }

    /// Makes everything durable that the device keeps back.
    pub(crate) fn flush(&self) -> Result<(), FsError> {
        self.log.device.sync().map_err(medium)
    }
}

/// What a mount found.
struct Found {
    objects: Objects,
    counts: Counts,
    statuses: Vec<Status>,
    torn: Vec<Torn>,
    failing: Vec<u32>,
    current: Option<(u32, u32)>,
    origin: Origin,
}

/// Restores a checkpoint, or scans all blocks.
fn find(
    flash: &mut Flash,
    options: &OpenOptions,
    findings: &mut Findings,
) -> Result<Found, YaffsError> {
    let ending = match restore(flash)? {
        Restored::State(state) if !options.ignore_checkpoint => {
            let State { objects, counts, statuses, failing, current } = *state;
            let (torn, origin) = (Vec::new(), Origin::Checkpoint);
            return Ok(Found { objects, counts, statuses, torn, failing, current, origin });
        }
        Restored::State(_) => Ending::Clean,
        Restored::None | Restored::Damaged(_) => Ending::Cut,
    };
    let Scanned { objects, counts, statuses, torn } = scan(flash, ending, findings)?;
    let (failing, current, origin) = (Vec::new(), None, Origin::Scan);
    Ok(Found { objects, counts, statuses, torn, failing, current, origin })
}

/// Goes on in the block that the writer of a checkpoint wrote to last, unless one of its pages has no
/// tags that a summary could repeat.
fn continue_block(
    log: &mut Log,
    flash: &Flash,
    current: Option<(u32, u32)>,
) -> Result<(), ReadError> {
    let Some((block, next)) = current.filter(|(_, next)| *next < log.capacity()) else {
        return Ok(());
    };
    let pages = flash.pages(block * flash.layout.pages_per_block, next)?;
    let tags = |index| match flash.layout.tags(pages.get(index)) {
        Tagged::Good(tags) => Some(tags.pack()),
        Tagged::Unused | Tagged::Damaged => None,
    };
    if let Some(tags) = (0..next).map(tags).collect() {
        (log.tags, log.current, log.last) = (tags, current, block);
    }
    Ok(())
}

fn block(status: Status) -> Block {
    match status {
        Status::Bad | Status::Foreign => Block::new(Use::Unusable),
        Status::Empty => Block::new(Use::Empty),
        Status::Checkpoint => Block::new(Use::Checkpoint),
        Status::Objects { sequence, has_shrink, has_summary } => {
            Block { sequence, has_shrink, has_summary, ..Block::new(Use::Full) }
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
