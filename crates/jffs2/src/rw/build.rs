//! Mounts: turns scanned nodes into a file system. Decides which names and inodes are live, and
//! adds each block to a list (spec: jffs2 12.3 to 12.7).
//!
//! Layer: next to the operations, above the driver, which it creates. Writes nothing: a mount that
//! a power cut interrupts has changed nothing.
//!
//! # Invariants
//! 1. A block is continued only if its last page proves that nothing after it was ever programmed.
//! 2. Names are decided before inodes, and inodes before blocks: a node that no name reaches is
//!    dead, and a block without live nodes waits for its erase.

use super::blocks::{List, Sizes};
use super::compress::Compress;
use super::failure::Closed;
use super::flash::{Flash, Marker};
use super::gc::Collection;
use super::inodes::Inodes;
use super::log::Log;
use super::nodelist::{NodeRef, RefKind, RefState};
use super::options::{MountReport, RwOptions};
use super::owners::Owners;
use super::pairs_build::build_xattrs;
use super::remains::Remains;
use super::scan::{self, Class, NoWrite, Scan, ScannedName, ScannedNames, ScannedText};
use super::space::Reserves;
use super::state::{Access, State};
use super::store::Store;
use super::summary::{Collector, Summaries};
use super::suspect::Suspects;
use super::tree::Tree;
use super::wbuf::Wbuf;
use super::write::Writer;
use crate::build::deleted_inodes;
use crate::codes;
use crate::error::Jffs2Error;
use eraseblock_base::random::SplitMix64;
use eraseblock_base::{Findings, Location};
use eraseblock_jffs2_format::constants::{DIRTY_LIMIT, INODE_LEN, ROOT_INO};
use eraseblock_jffs2_format::summary::Record;
use eraseblock_jffs2_format::{ByteOrder, decode};
use eraseblock_mtd::{Mtd, MtdError};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Minimum free bytes for which a partly filled block is continued.
const MIN_FREE: u32 = 136;

/// Maximum number of nodes of a block that are read to prove that it was not being erased.
const LOOKED_AT: usize = 8;

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
    let mut store = Store {
        reserves: Reserves::new(&flash),
        flash: flash.clone(),
        blocks,
        wbuf: Wbuf::default(),
        suspects: Suspects::new(suspects),
        rng: SplitMix64::new(options.seed),
        late: Findings::new(),
    };
    let mut owners = Owners { inodes, ..Owners::default() };
    add_names(&mut owners.inodes, &names.list);
    let highest_ino = owners.inodes.highest().max(ROOT_INO);
    build_tree(&mut store, &mut owners.inodes, names, &mut report.findings)?;
    build_xattrs(&mut store, &mut owners, &pairs, &references)?;
    let open = classify(&mut store, &owners.inodes, &classes)?;
    let mut collector = Collector::new(Summaries::new(options.summary));
    if let Some(block) = open {
        continue_block(&mut store, &mut collector, block)?;
    }
    store.blocks.rotate(versions);
    owners.inodes.shrink();
    complete(&mut report, &mut store, &owners.inodes);
    let closed = no_write.map(|NoWrite { at, node_type }| {
        Closed::Because(format!("{at}: a node of unknown type {node_type:#06x} forbids writing"))
    });
    let tree = Tree::new(store, owners, Remains::new(unassigned, has_damage_marker));
    let log = Log::new(tree, collector, closed);
    let state = State {
        writer: Writer::new(log, Compress::new(options.compression)),
        gc: Collection::default(),
        access: Access::new(options.read_only),
        highest_ino,
    };
    Ok((state, report))
}

/// Completes the report of a mount with what was found to be live.
fn complete(report: &mut MountReport, store: &mut Store, inodes: &Inodes) {
    report.blocks = store.blocks.count() - store.blocks.len(List::Bad);
    report.inodes = inodes.iter().filter(|(_, cache)| cache.names() > 0).count() as u64;
    let mut memory = inodes.memory();
    for (_, block) in store.blocks.iter() {
        report.nodes += block.refs.iter().filter(|node| node.is_live()).count() as u64;
        memory += size_of_val(block) + block.refs.capacity() * size_of::<NodeRef>();
    }
    report.memory = memory as u64;
    report.findings.append(std::mem::take(&mut store.late));
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

fn add_names(inodes: &mut Inodes, names: &[ScannedName]) {
    for name in names {
        inodes.entry(name.dir).add_node(name.place, name.version);
    }
    inodes.entry(ROOT_INO).set_names(1);
}

/// Decides which names and inodes are live (spec: jffs2 7, 12.7).
fn build_tree(
    store: &mut Store,
    inodes: &mut Inodes,
    names: ScannedNames,
    findings: &mut Findings,
) -> Result<(), Jffs2Error> {
    let winners = winners(store, names.list, &names.text)?;
    let reached = reached(&winners);
    let is_reached = |dir| reached.binary_search(&dir).is_ok();
    let groups = winners.chunk_by(|a, b| a.dir == b.dir);
    for name in groups.filter(|group| is_reached(group[0].dir)).flatten() {
        if let Some(target) = inodes.get_mut(name.ino) {
            target.add_name();
            target.parent = NonZeroU32::new(name.dir);
        } else {
            let at = Location::Inode(name.dir.into());
            let message = format!("a name of inode {}, which has no node", name.ino);
            findings.warn(at, codes::DANGLING_NAME, message);
            store.blocks.obsolete(name.place);
        }
    }
    // An inode without a name: a cut came between its first node and its name, or after the
    // deletion of its last name, which writes nothing else.
    let nameless = inodes.iter().filter(|(_, cache)| cache.names() == 0);
    let dead: Vec<u32> = nameless.map(|(ino, _)| ino).collect();
    for cache in dead.iter().filter_map(|ino| inodes.remove(*ino)) {
        for place in cache.nodes.as_slice() {
            store.blocks.obsolete(*place);
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
    store: &mut Store,
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
        let winner = newest_of(store, &names[first..next])?;
        for name in names[first..next].iter().filter(|name| name.place != winner.place) {
            store.blocks.obsolete(name.place);
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

/// Returns the newest node of a name; `group` has all its nodes in the order of their versions. Of
/// several copies, returns one that exists: the summary of a block whose erase was interrupted may
/// still list nodes that are gone. Of these, the last of the safest.
fn newest_of(store: &Store, group: &[ScannedName]) -> Result<ScannedName, Jffs2Error> {
    let last = group[group.len() - 1];
    let copies = group.iter().rev().take_while(|name| name.version == last.version);
    let mut newest: Option<ScannedName> = None;
    if copies.clone().count() > 1 {
        for copy in copies {
            let is_better = match &newest {
                Some(found) => store.is_safer(copy.place, found.place)?,
                None => true,
            };
            if is_better && is_dirent_there(store, copy)? {
                newest = Some(*copy);
            }
        }
    }
    Ok(newest.unwrap_or(last))
}

/// Returns whether a node known from a summary is on flash.
fn is_dirent_there(store: &Store, name: &ScannedName) -> Result<bool, Jffs2Error> {
    let node = store.node(name.place);
    if node.state() != RefState::Unchecked {
        return Ok(true);
    }
    let mut bytes = vec![0; node.len() as usize];
    store.read_flash(name.place, &mut bytes)?;
    let at = store.flash.location(name.place);
    let found = decode::dirent(store.flash.order, &bytes, at);
    Ok(found.is_ok_and(|dirent| (dirent.pino, dirent.version) == (name.dir, name.version)))
}

/// Adds every block to a list. Returns the one to continue, which is on none yet (spec: jffs2
/// 12.3): never one whose erase may have been cut, because it may not be programmed.
fn classify(
    store: &mut Store,
    inodes: &Inodes,
    classes: &[Class],
) -> Result<Option<u32>, Jffs2Error> {
    let (has_buffer, page) = (store.flash.has_buffer(), store.flash.page);
    let min_free = if has_buffer { page.max(MIN_FREE) } else { MIN_FREE };
    let mut candidate: Option<u32> = None;
    for (block, class) in (0..).zip(classes) {
        // Dead bytes found by the scan count as dirty, not wasted.
        store.blocks.resize(block, |sizes| sizes.dirty += std::mem::take(&mut sizes.wasted));
        let size = store.flash.block;
        let sizes = store.blocks.get(block).sizes;
        match class {
            Class::Bad => {
                store.blocks.resize(block, |sizes| *sizes = Sizes::default());
                store.blocks.file(block, List::Bad);
            }
            Class::EmptyMarked => file_empty(store, block),
            // Erased, but the marker is missing: a cut came before it, and bits of the old content
            // may come back.
            Class::AllErased => store.blocks.file_dead(block, List::ErasePending),
            _ if store.blocks.get(block).is_dead() => {
                store.blocks.file_dead(block, List::ErasePending);
            }
            _ if size - (sizes.used + sizes.unchecked) <= DIRTY_LIMIT => {
                store.blocks.resize(block, |sizes| {
                    sizes.wasted += std::mem::take(&mut sizes.dirty);
                    sizes.wasted += std::mem::take(&mut sizes.free);
                });
                store.blocks.file(block, List::Clean);
            }
            _ => {
                let best = candidate.map_or(0, |best| store.blocks.get(best).sizes.free);
                let wanted = *class != Class::Suspicious
                    && sizes.free > min_free
                    && sizes.free > best
                    && store.is_proven(block)
                    && store.flash.starts_with_node(block)?
                    && holds_newest(store, inodes, block)?;
                if wanted && let Some(old) = candidate.replace(block) {
                    give_up_free(store, old);
                } else if !wanted {
                    give_up_free(store, block);
                }
            }
        }
    }
    Ok(candidate)
}

/// Returns whether one of the last nodes of a block is the newest of its inode. Before a block is
/// erased, all of it is superseded by newer nodes, even if it reads well after a cut of that erase.
fn holds_newest(store: &Store, inodes: &Inodes, block: u32) -> Result<bool, Jffs2Error> {
    let nodes = store.blocks.get(block).refs.iter().rev();
    let is_dated = |kind: RefKind| kind == RefKind::Inode || kind.is_of_name();
    let nodes = nodes.filter(|node| node.is_live() && is_dated(node.kind()));
    for node in nodes.take(LOOKED_AT) {
        let is_inode = node.kind() == RefKind::Inode;
        let len = if is_inode { INODE_LEN.min(node.len()) } else { node.len() };
        let mut bytes = vec![0; len as usize];
        store.read_flash(node.place(), &mut bytes)?;
        let (order, at) = (store.flash.order, store.flash.location(node.place()));
        let found = if is_inode {
            decode::inode(order, &bytes, at).map(|inode| (inode.ino, inode.version))
        } else {
            decode::dirent(order, &bytes, at).map(|dirent| (dirent.pino, dirent.version))
        };
        let is_newest = |(ino, version)| inodes.get(ino).is_some_and(|it| it.highest == version);
        if found.is_ok_and(is_newest) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn file_empty(store: &mut Store, block: u32) {
    let dirty = store.blocks.get(block).sizes.dirty;
    let marked = matches!(store.flash.marker, Marker::InBand(_));
    if dirty > 0 || (marked && store.blocks.get(block).live() == 0) {
        store.blocks.file_dead(block, List::ErasePending);
    } else {
        store.blocks.file(block, List::Free);
    }
}

/// Counts the free space of a block that is not continued as dead: a program that a cut interrupted
/// may have left bits in it.
fn give_up_free(store: &mut Store, block: u32) {
    store.blocks.resize(block, |sizes| {
        sizes.dirty += std::mem::take(&mut sizes.free);
    });
    // A block that is in no list yet counts as bad.
    store.blocks.file(block, List::Clean);
    store.blocks.file_by_dirt(block);
}

/// Continues a block after its last node, and with a buffer after its last page: a page is
/// programmed once.
fn continue_block(
    store: &mut Store,
    summary: &mut Collector,
    block: u32,
) -> Result<(), Jffs2Error> {
    let page = store.flash.page;
    store.blocks.resize(block, |sizes| {
        let cut = if page > 1 { sizes.free % page } else { 0 };
        sizes.free -= cut;
        sizes.wasted += std::mem::take(&mut sizes.dirty) + cut;
    });
    store.blocks.file(block, List::Next);
    if summary.summaries() == Summaries::Written {
        match records_of(store, block)? {
            Some(records) => summary.resume(records),
            None => summary.stop(),
        }
    }
    Ok(())
}

/// Returns the records of a block that was written before mounting and will be continued; `None` if
/// it must not get a summary.
fn records_of(store: &Store, block: u32) -> Result<Option<Vec<Record>>, MtdError> {
    let entry = store.blocks.get(block);
    let mut records = Vec::with_capacity(entry.refs.len());
    for node in &entry.refs {
        if node.kind() == RefKind::Copy {
            return Ok(None);
        }
        if node.kind() == RefKind::Filler {
            continue;
        }
        let mut bytes = vec![0; node.len() as usize];
        store.read_flash(node.place(), &mut bytes)?;
        let at = store.flash.location(node.place());
        let order = store.flash.order;
        let Ok(header) = decode::header(order, &bytes, at) else { return Ok(None) };
        let Some(bytes) = bytes.get(..header.totlen as usize) else { return Ok(None) };
        let offset = node.place() % store.flash.block;
        match Record::of(order, header.kind(), bytes, offset) {
            Ok(Some(record)) => records.push(record),
            Ok(None) | Err(_) => return Ok(None),
        }
    }
    Ok(Some(records))
}
