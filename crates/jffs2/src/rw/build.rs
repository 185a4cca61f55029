//! Turns scanned nodes into a mounted file system: decides which names and inodes are live, and
//! adds each block to a list (spec: jffs2 12.3 to 12.7).

use super::compress::Compress;
use super::flash::{Flash, Marker};
use super::loaded::LoadedInodes;
use super::nodelist::{List, NodeRef, RefState, Sizes};
use super::options::{MountReport, RwOptions};
use super::remains::Remains;
use super::scan::{self, Class, Scan, ScannedName, ScannedNames, ScannedText};
use super::state::{Closed, Collection, Reserves, State};
use super::summary::Collector;
use super::suspect::Suspects;
use super::wbuf::Wbuf;
use super::xattr::Xattrs;
use crate::build::deleted_inodes;
use crate::codes;
use crate::error::Jffs2Error;
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{Findings, Location};
use eraseblock_jffs2_format::constants::{DIRTY_LIMIT, ROOT_INO};
use eraseblock_jffs2_format::{ByteOrder, decode};
use eraseblock_mtd::Mtd;
use std::sync::Arc;

/// Minimum free bytes for which a partly filled block is continued.
const MIN_FREE: u32 = 136;

/// Mounts a medium.
pub(crate) fn mount(
    mtd: Arc<dyn Mtd>,
    options: &RwOptions,
) -> Result<(State, MountReport), Jffs2Error> {
    let flash = Flash::new(mtd, options)?;
    let scan = scan::scan(&flash, options)?;
    refuse_foreign(&scan)?;
    let Scan {
        blocks,
        classes,
        inodes,
        names,
        versions,
        pairs,
        references,
        suspects,
        no_write,
        unassigned,
        has_damage_marker,
        mut report,
        ..
    } = scan;
    let mut state = State {
        reserves: Reserves::new(&flash),
        flash: flash.clone(),
        options: options.clone(),
        blocks,
        wbuf: Wbuf::default(),
        summary: Collector::default(),
        suspects: Suspects::new(suspects),
        inodes,
        loaded: LoadedInodes::default(),
        xattrs: Xattrs::default(),
        highest_ino: ROOT_INO,
        rng: SplitMix64::new(options.seed),
        gc: Collection::default(),
        compress: Compress::default(),
        read_only: options.read_only,
        closed: no_write.map(|(at, node_type)| {
            Closed::Because(format!(
                "{at}: a node of unknown type {node_type:#06x} forbids writing"
            ))
        }),
        remains: Remains::new(&unassigned, has_damage_marker),
        unassigned,
        late: Findings::new(),
        scratch: Vec::new(),
    };
    state.add_names(&names.list);
    state.highest_ino = state.inodes.highest().max(ROOT_INO);
    state.build_tree(names, &mut report.findings)?;
    state.build_xattrs(&pairs, &references)?;
    state.classify(&classes)?;
    state.blocks.rotate(versions);
    state.inodes.shrink();
    report.blocks = state.blocks.count() - state.blocks.len(List::Bad);
    report.inodes = state.inodes.iter().filter(|(_, cache)| cache.names() > 0).count() as u64;
    let mut memory = state.inodes.memory();
    for (_, block) in state.blocks.iter() {
        report.nodes += block.refs.iter().filter(|node| node.is_live()).count() as u64;
        memory += size_of_val(block) + block.refs.capacity() * size_of::<NodeRef>();
    }
    report.memory = memory as u64;
    report.findings.append(std::mem::take(&mut state.late));
    Ok((state, report))
}

/// A medium without any node that can be mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blank {
    pub(crate) order: ByteOrder,
    /// Cleanmarkers in out-of-band areas prove that it belongs to JFFS2.
    pub(crate) is_marked: bool,
}

/// Examines a medium without any node. Returns `None` if it cannot be mounted as an empty file
/// system.
pub(crate) fn blank(
    mtd: Arc<dyn Mtd>,
    order: Option<ByteOrder>,
) -> Result<Option<Blank>, Jffs2Error> {
    let options = RwOptions { order, read_only: true, ..RwOptions::default() };
    let flash = match Flash::new(mtd, &options) {
        Ok(flash) => flash,
        Err(Jffs2Error::Option { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let scan = scan::scan(&flash, &options)?;
    if refuse_foreign(&scan).is_err() {
        return Ok(None);
    }
    let is_marked =
        matches!(flash.marker, Marker::Oob(_)) && scan.classes.contains(&Class::EmptyMarked);
    Ok(Some(Blank { order: flash.order, is_marked }))
}

/// Refuses a medium without any sign of JFFS2, so that it is not erased (spec: jffs2 12.6).
fn refuse_foreign(scan: &Scan<'_>) -> Result<(), Jffs2Error> {
    let totals = scan.blocks.totals();
    let count = |classes: &[Class]| {
        scan.classes.iter().filter(|class| classes.contains(class)).count() as u32
    };
    let content = count(&[Class::Content, Class::Suspicious]);
    let unreadable = count(&[Class::Unreadable]);
    // A file system that never had a node has at least one erased block.
    let is_empty = count(&[Class::EmptyMarked, Class::AllErased, Class::Debris]) > 0;
    let foreign = if is_empty { content } else { content + unreadable };
    if totals.used + totals.unchecked > 0 || foreign == 0 {
        return Ok(());
    }
    Err(Jffs2Error::Foreign { blocks: foreign })
}

/// Returns the directories with entries that are reachable from the root, sorted. Deleted
/// directories may still contain each other in a cycle, because the deletions of their names are
/// collected first.
fn reached(winners: &[ScannedName]) -> Vec<u32> {
    let mut dirs: Vec<u32> = winners.iter().map(|name| name.dir).collect();
    dirs.dedup();
    let mut is_reached = vec![false; dirs.len()];
    let mut queue = vec![ROOT_INO];
    while let Some(dir) = queue.pop() {
        let Ok(index) = dirs.binary_search(&dir) else { continue };
        if !std::mem::replace(&mut is_reached[index], true) {
            let first = winners.partition_point(|name| name.dir < dir);
            let names = winners[first..].iter().take_while(|name| name.dir == dir);
            queue.extend(names.map(|name| name.ino));
        }
    }
    dirs.into_iter().zip(is_reached).filter(|(_, is)| *is).map(|(dir, _)| dir).collect()
}

impl State {
    fn add_names(&mut self, names: &[ScannedName]) {
        for name in names {
            let cache = self.cache_mut(name.dir);
            cache.add_node(name.place, name.version);
        }
        self.cache_mut(ROOT_INO).set_names(1);
    }

    /// Decides which names and inodes are live (spec: jffs2 7, 12.7).
    fn build_tree(
        &mut self,
        names: ScannedNames,
        findings: &mut Findings,
    ) -> Result<(), Jffs2Error> {
        let winners = self.winners(names.list, &names.text)?;
        let reached = reached(&winners);
        let is_reached = |dir| reached.binary_search(&dir).is_ok();
        let groups = winners.chunk_by(|a, b| a.dir == b.dir);
        for name in groups.filter(|group| is_reached(group[0].dir)).flatten() {
            if let Some(target) = self.inodes.get_mut(name.ino) {
                target.add_name();
                target.parent = name.dir;
            } else {
                let at = Location::Inode(name.dir.into());
                let message = format!("a name of inode {}, which has no node", name.ino);
                findings.warn(at, codes::DANGLING_NAME, message);
                self.blocks.obsolete(name.place);
            }
        }
        let nameless = self.inodes.iter().filter(|(_, cache)| cache.names() == 0);
        let dead: Vec<u32> = nameless.map(|(ino, _)| ino).collect();
        for cache in dead.iter().filter_map(|ino| self.inodes.remove(*ino)) {
            for place in cache.nodes.as_slice() {
                self.blocks.obsolete(*place);
            }
        }
        if !dead.is_empty() {
            findings.note(Location::Whole, "orphans", deleted_inodes(dead.len()));
        }
        Ok(())
    }

    /// Returns the newest live node of each name, sorted by directory, without deletions and older
    /// nodes (spec: jffs2 7).
    fn winners(
        &mut self,
        mut names: Vec<ScannedName>,
        text: &ScannedText,
    ) -> Result<Vec<ScannedName>, Jffs2Error> {
        let bytes = |name: &ScannedName| text.bytes(name);
        // Names of one version stay in flash order.
        names.sort_unstable_by(|a, b| {
            let versions = a.version.cmp(&b.version);
            (a.dir, bytes(a)).cmp(&(b.dir, bytes(b))).then(versions).then(a.place.cmp(&b.place))
        });
        let (mut first, mut count) = (0, 0);
        while let Some(name) = names.get(first) {
            let same = |other: &&ScannedName| (other.dir, bytes(other)) == (name.dir, bytes(name));
            let next = first + names[first..].iter().take_while(same).count();
            let winner = self.newest(&names[first..next])?;
            for name in names[first..next].iter().filter(|name| name.place != winner.place) {
                self.blocks.obsolete(name.place);
            }
            if winner.ino != 0 {
                names[count] = winner;
                count += 1;
            }
            first = next;
        }
        names.truncate(count);
        Ok(names)
    }

    /// Returns the newest node of a name; `group` has all its nodes in the order of their versions.
    /// Of several copies, returns the last one that exists: the summary of a block whose erase was
    /// interrupted may still list nodes that are gone.
    fn newest(&self, group: &[ScannedName]) -> Result<ScannedName, Jffs2Error> {
        let last = group[group.len() - 1];
        let copies = group.iter().rev().take_while(|name| name.version == last.version);
        for copy in copies.clone().filter(|_| copies.clone().count() > 1) {
            if self.is_dirent_there(copy)? {
                return Ok(*copy);
            }
        }
        Ok(last)
    }

    /// Returns whether a node known from a summary is on flash.
    fn is_dirent_there(&self, name: &ScannedName) -> Result<bool, Jffs2Error> {
        let node = self.node(name.place);
        if node.state() != RefState::Unchecked {
            return Ok(true);
        }
        let mut bytes = vec![0; node.len() as usize];
        self.read_flash(name.place, &mut bytes)?;
        let at = self.flash.location(name.place);
        let found = decode::dirent(self.flash.order, &bytes, at);
        Ok(found.is_ok_and(|dirent| (dirent.pino, dirent.version) == (name.dir, name.version)))
    }

    /// Adds every block to a list, and chooses the one to continue (spec: jffs2 12.3).
    fn classify(&mut self, classes: &[Class]) -> Result<(), Jffs2Error> {
        let min_free =
            if self.flash.has_buffer() { self.flash.page.max(MIN_FREE) } else { MIN_FREE };
        let mut candidate: Option<u32> = None;
        for (block, class) in (0..).zip(classes) {
            self.settle(block);
            let size = self.flash.block;
            let sizes = self.blocks.get(block).sizes;
            match class {
                Class::Bad => {
                    self.blocks.resize(block, |sizes| *sizes = Sizes::default());
                    self.blocks.file(block, List::Bad);
                }
                Class::EmptyMarked => self.file_empty(block),
                Class::AllErased => self.blocks.file_dead(block, List::ErasePending),
                _ if self.blocks.get(block).is_dead() => {
                    self.blocks.file_dead(block, List::ErasePending);
                }
                _ if size - (sizes.used + sizes.unchecked) <= DIRTY_LIMIT => {
                    self.blocks.resize(block, |sizes| {
                        sizes.wasted += std::mem::take(&mut sizes.dirty);
                        sizes.wasted += std::mem::take(&mut sizes.free);
                    });
                    self.blocks.file(block, List::Clean);
                }
                _ => {
                    let best = candidate.map_or(0, |best| self.blocks.get(best).sizes.free);
                    let wanted = *class != Class::Suspicious
                        && sizes.free > min_free
                        && sizes.free > best
                        && self.is_proven(block);
                    if wanted && let Some(old) = candidate.replace(block) {
                        self.give_up_free(old);
                    } else if !wanted {
                        self.give_up_free(block);
                    }
                }
            }
        }
        match candidate {
            Some(block) => self.continue_block(block),
            None => Ok(()),
        }
    }

    /// Counts dead bytes found by the scan as dirty, not wasted.
    fn settle(&mut self, block: u32) {
        self.blocks.resize(block, |sizes| sizes.dirty += std::mem::take(&mut sizes.wasted));
    }

    fn file_empty(&mut self, block: u32) {
        let dirty = self.blocks.get(block).sizes.dirty;
        let marked = matches!(self.flash.marker, Marker::InBand(_));
        if dirty > 0 || (marked && self.blocks.get(block).live() == 0) {
            self.blocks.file_dead(block, List::ErasePending);
        } else {
            self.blocks.file(block, List::Free);
        }
    }

    fn give_up_free(&mut self, block: u32) {
        self.blocks.resize(block, |sizes| {
            sizes.dirty += std::mem::take(&mut sizes.free);
        });
        // A block that is in no list yet counts as bad.
        self.blocks.file(block, List::Clean);
        self.blocks.file_by_dirt(block);
    }

    /// Continues a block after its last node.
    fn continue_block(&mut self, block: u32) -> Result<(), Jffs2Error> {
        let page = self.flash.page;
        self.blocks.resize(block, |sizes| {
            let cut = if page > 1 { sizes.free % page } else { 0 };
            sizes.free -= cut;
            sizes.wasted += std::mem::take(&mut sizes.dirty) + cut;
        });
        self.blocks.file(block, List::Next);
        if self.options.summary && !self.blocks.get(block).without_summary {
            match self.records_of(block)? {
                Some(records) => self.summary.resume(records),
                None => self.summary.stop(),
            }
        }
        Ok(())
    }

    /// Returns the owner of a node that has not been checked yet.
    pub(crate) fn first_unchecked(&self) -> Option<u32> {
        self.blocks.iter().find_map(|(_, block)| {
            let mut refs = block.refs.iter();
            refs.find(|node| node.state() == RefState::Unchecked).map(|node| node.owner)
        })
    }
}
