//! The new state on flash: index, LPT, log, orphan area, master and superblock for a set of leaves.
//!
//! Leaves stay where they are, so that nothing that is intact is copied and old versions remain for
//! those who look for them. Only nodes that were changed, and those in LEBs where Linux would stumble
//! over damage, are written to other LEBs, as the index is. What nothing refers to is unmapped.
//!
//! # Invariants
//! 1. Sequence numbers, the commit number and the highest inode number go up only.
//! 2. No leaf is in the same LEB as damage or an index node.

use crate::error::RepairError;
use crate::model::{Leaf, Source, Wanted};
use crate::patched::Changes;
use crate::scan::{LebState, Scan};
use eraseblock_base::align::align_up;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::constants::{
    LOG_FIRST, MASTER_LEB, NODE_ALIGN, SB_LEB, master_flags, sb_flags,
};
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::layout::Layout;
use eraseblock_ubifs_format::lpt::LebProps;
use eraseblock_ubifs_format::lpt::fresh::{self, FreshLpt};
use eraseblock_ubifs_format::raw::SuperblockNode;
use eraseblock_ubifs_format::{Branch, CommitStart, Master, Superblock};
use std::collections::{BTreeMap, BTreeSet};

/// What the writer starts from.
pub(crate) struct Input<'a> {
    pub(crate) device: &'a dyn LebDevice,
    /// As it is on flash, not grown.
    pub(crate) sb: &'a Superblock,
    /// Whether it must be written.
    pub(crate) is_new_sb: bool,
    pub(crate) scan: &'a Scan,
    pub(crate) highest_inum: u32,
    /// In the order of the index.
    pub(crate) wanted: Vec<Wanted>,
}

/// Returns the LEBs that change.
pub(crate) fn write(input: &Input<'_>) -> Result<Changes, RepairError> {
    let placing = place(input)?;
    let mut writer = Writer {
        input,
        packer: Packer::new(input, placing.free),
        sqnum: input.scan.max_sqnum + 1,
        used: BTreeMap::new(),
    };
    let mut leaves = Vec::with_capacity(input.wanted.len());
    for wanted in &input.wanted {
        leaves.push(writer.leaf(wanted, &placing.stay)?);
    }
    writer.packer.next_leb();
    let index = writer.index(leaves)?;
    writer.packer.next_leb();
    writer.finish(&index)
}

/// Which LEBs stay, and which can be written to.
struct Placing {
    stay: BTreeSet<u32>,
    /// In ascending order.
    free: Vec<u32>,
}

fn place(input: &Input<'_>) -> Result<Placing, RepairError> {
    let sb = input.sb.grown(input.device.leb_count());
    let mut live: BTreeMap<u32, u64> = BTreeMap::new();
    let mut fresh = 0;
    for wanted in &input.wanted {
        match &wanted.source {
            Source::Flash(leaf) => *live.entry(leaf.leb).or_default() += aligned(leaf.len),
            Source::Renewed(leaf) => fresh += aligned(leaf.len),
            Source::Bytes(bytes) => fresh += aligned(bytes.len() as u32),
        }
    }
    let can_stay = |leb: &u32| {
        sb.is_main(*leb) && input.scan.lebs.get(leb).is_some_and(|state| state.is_clean)
    };
    let (mut stay, moved): (BTreeMap<u32, u64>, BTreeMap<u32, u64>) =
        live.into_iter().partition(|(leb, _)| can_stay(leb));
    let mut moving = fresh + moved.values().sum::<u64>();
    let index = index_bytes(input.wanted.len() as u64, input.sb);
    loop {
        // At the end of a LEB, up to the largest node is wasted.
        let room = u64::from(sb.leb_size - WASTE.min(sb.leb_size / 2));
        // One LEB is kept for garbage collection.
        let needed = moving.div_ceil(room) + index.div_ceil(room) + 1;
        let available = u64::from(sb.main_lebs()) - stay.len() as u64;
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        if needed <= available {
            let free =
                (sb.main_first()..sb.leb_cnt).filter(|leb| !stay.contains_key(leb)).collect();
            return Ok(Placing { stay: stay.into_keys().collect(), free });
        }
        // The LEB with the least in it makes room: packed with others, it takes less.
        let victim = stay.iter().min_by_key(|(_, live)| **live).map(|(leb, live)| (*leb, *live));
        let Some((victim, live)) = victim else {
            return Err(RepairError::NoSpace {
                needed: narrow(needed),
                available: narrow(available),
            });
        };
        stay.remove(&victim);
        moving += live;
    }
}

/// Bytes at the end of a LEB that the next node may not fit.
const WASTE: u32 = 4256;

fn aligned(len: u32) -> u64 {
    align_up(len, NODE_ALIGN).into()
}

/// Returns the bytes of an index over this many leaves.
fn index_bytes(leaves: u64, sb: &Superblock) -> u64 {
    let fanout = u64::from(sb.fanout);
    let node = aligned(encode::index_len(sb.fanout));
    let (mut below, mut bytes) = (leaves.max(1), 0);
    loop {
        below = below.div_ceil(fanout);
        bytes += below * node;
        if below == 1 {
            return bytes;
        }
    }
}

/// The LEBs that are written, one after the other.
struct Packer {
    free: std::vec::IntoIter<u32>,
    current: Option<u32>,
    buffer: Vec<u8>,
    leb_size: u32,
    min_io: u32,
    /// Contents and dirty bytes, by LEB.
    done: BTreeMap<u32, (Vec<u8>, u32)>,
}

impl Packer {
    fn new(input: &Input<'_>, free: Vec<u32>) -> Self {
        let (leb_size, min_io) = (input.sb.leb_size, input.sb.min_io_size);
        let done = BTreeMap::new();
        Self { free: free.into_iter(), current: None, buffer: Vec::new(), leb_size, min_io, done }
    }

    /// Places a node and returns where.
    fn put(&mut self, node: &[u8]) -> Result<(u32, u32), RepairError> {
        let mut offset = encode::start(&mut self.buffer);
        if offset + node.len() > self.leb_size as usize {
            self.next_leb();
            offset = 0;
        }
        let leb = self.leb()?;
        self.buffer.extend_from_slice(node);
        Ok((leb, offset as u32))
    }

    fn leb(&mut self) -> Result<u32, RepairError> {
        if self.current.is_none() {
            self.current = self.free.next();
        }
        self.current.ok_or(RepairError::NoSpace { needed: 1, available: 0 })
    }

    /// Completes the current LEB.
    fn next_leb(&mut self) {
        let Some(leb) = self.current.take() else { return };
        let used = encode::start(&mut self.buffer);
        encode::pad(&mut self.buffer, self.min_io);
        let dirty = (self.buffer.len() - used) as u32;
        self.done.insert(leb, (std::mem::take(&mut self.buffer), dirty));
    }
}

/// The new index.
struct Index {
    root: Branch,
    size: u64,
    lebs: BTreeSet<u32>,
    /// The last LEB that was written.
    head: u32,
}

struct Writer<'a> {
    input: &'a Input<'a>,
    packer: Packer,
    /// The next sequence number.
    sqnum: u64,
    /// Live bytes of LEBs that stay.
    used: BTreeMap<u32, u64>,
}

impl Writer<'_> {
    fn next_sqnum(&mut self) -> u64 {
        self.sqnum += 1;
        self.sqnum - 1
    }

    fn leaf(&mut self, wanted: &Wanted, stay: &BTreeSet<u32>) -> Result<Branch, RepairError> {
        let key = wanted.key;
        let node = match &wanted.source {
            Source::Flash(leaf) if stay.contains(&leaf.leb) => {
                *self.used.entry(leaf.leb).or_default() += aligned(leaf.len);
                let Leaf { leb, offset, len, .. } = *leaf;
                return Ok(Branch { key, leb: Leb::new(leb), offset, len });
            }
            Source::Flash(leaf) => self.read(leaf)?,
            Source::Renewed(leaf) => {
                let mut node = self.read(leaf)?;
                encode::seal(&mut node, self.next_sqnum());
                node
            }
            Source::Bytes(bytes) => {
                let mut node = bytes.clone();
                encode::seal(&mut node, self.next_sqnum());
                node
            }
        };
        let (leb, offset) = self.packer.put(&node)?;
        Ok(Branch { key, leb: Leb::new(leb), offset, len: node.len() as u32 })
    }

    fn read(&self, leaf: &Leaf) -> Result<Vec<u8>, RepairError> {
        let mut bytes = vec![0; leaf.len as usize];
        self.input.device.read(Leb::new(leaf.leb), leaf.offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes the index over the leaves, bottom up.
    fn index(&mut self, leaves: Vec<Branch>) -> Result<Index, RepairError> {
        let fanout = self.input.sb.fanout.max(2) as usize;
        let (mut size, mut lebs, mut node) = (0, BTreeSet::new(), Vec::new());
        let (mut below, mut head) = (leaves, 0);
        for level in 0.. {
            let mut above = Vec::with_capacity(below.len().div_ceil(fanout));
            for children in below.chunks(fanout) {
                node.clear();
                encode::index(&mut node, level, children, Seal::single(self.next_sqnum()));
                let (leb, offset) = self.packer.put(&node)?;
                let len = node.len() as u32;
                size += aligned(len);
                lebs.insert(leb);
                head = leb;
                above.push(Branch { key: children[0].key, leb: Leb::new(leb), offset, len });
            }
            below = above;
            if below.len() == 1 {
                break;
            }
        }
        Ok(Index { root: below[0], size, lebs, head })
    }

    /// Adds LPT, log, master and superblock.
    fn finish(mut self, index: &Index) -> Result<Changes, RepairError> {
        let input = self.input;
        let gc = self.packer.free.next();
        let gc = gc.ok_or(RepairError::NoSpace { needed: 1, available: 0 })?;
        let used = self.used.keys().chain(self.packer.done.keys()).chain([&gc]);
        let needed = used.max().map_or(0, |last| last + 1);
        let mut sb = input.sb.clone();
        sb.leb_cnt = sb.leb_cnt.max(needed);
        let layout = layout(&sb);
        let props = self.props(&sb, index);
        let main_first = Leb::new(sb.main_first());
        let lpt = fresh::build(&layout.lpt(sb.main_lebs()), &props, main_first);
        let lpt = lpt.ok_or_else(|| RepairError::Unsupported {
            at: Location::leb(Leb::new(sb.lpt_first())),
            what: "the LPT area is too small for the LPT".to_owned(),
        })?;
        // What is not written here is erased, except after the file system and the superblock.
        let last = sb.leb_cnt.min(input.device.leb_count());
        let mut changes: Changes = (MASTER_LEB..last).map(|leb| (leb, None)).collect();
        for leb in self.used.keys() {
            changes.remove(leb);
        }
        for (leb, (bytes, _)) in std::mem::take(&mut self.packer.done) {
            changes.insert(leb, Some(bytes));
        }
        for (leb, bytes) in (sb.lpt_first()..).zip(&lpt.lebs) {
            changes.insert(leb, Some(bytes.clone()));
        }
        let mut master = master(&sb, &layout, &props, &lpt, index);
        master.gc_lnum = gc;
        master.highest_inum = input.highest_inum.max(input.scan.highest_inum).into();
        master.cmt_no = input.scan.max_commit + 1;
        for leb in [MASTER_LEB, MASTER_LEB + 1] {
            let mut bytes = Vec::new();
            master.sqnum = self.next_sqnum();
            encode::master(&mut bytes, &master);
            encode::pad(&mut bytes, sb.min_io_size);
            changes.insert(leb, Some(bytes));
        }
        if input.is_new_sb || sb != *input.sb {
            changes.insert(SB_LEB, Some(self.superblock(sb.clone())));
        }
        let mut bytes = Vec::new();
        let start = CommitStart { cmt_no: master.cmt_no };
        encode::commit_start(&mut bytes, &start, Seal::single(self.next_sqnum()));
        encode::pad(&mut bytes, sb.min_io_size);
        changes.insert(LOG_FIRST, Some(bytes));
        without_unmapped(input.device, changes)
    }

    /// Returns the superblock LEB, with the signature that may follow the node.
    fn superblock(&mut self, mut sb: Superblock) -> Vec<u8> {
        let unit = self.input.sb.min_io_size;
        let mut whole = vec![0; self.input.sb.leb_size as usize];
        if self.input.device.read(Leb::new(SB_LEB), 0, &mut whole).is_err() {
            whole.fill(0xFF);
        }
        let used = whole.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        let behind = whole.get(SuperblockNode::SIZE..used).unwrap_or_default().to_vec();
        sb.sqnum = self.next_sqnum();
        let mut bytes = Vec::new();
        encode::superblock(&mut bytes, &sb);
        bytes.extend_from_slice(&behind);
        bytes.resize(bytes.len().next_multiple_of(unit.max(1) as usize), 0xFF);
        bytes
    }

    fn props(&self, sb: &Superblock, index: &Index) -> Vec<LebProps> {
        let size = sb.leb_size;
        let of = |leb: u32| {
            if let Some((bytes, dirty)) = self.packer.done.get(&leb) {
                let free = size - bytes.len() as u32;
                return LebProps { free, dirty: *dirty, index: index.lebs.contains(&leb) };
            }
            let Some(used) = self.used.get(&leb) else { return LebProps::empty(size) };
            let state: LebState = self.input.scan.lebs.get(&leb).copied().unwrap_or_default();
            let dirty = u64::from(state.end).saturating_sub(*used);
            LebProps { free: size - state.end, dirty: dirty as u32, index: false }
        };
        (sb.main_first()..sb.leb_cnt).map(of).collect()
    }
}

/// A LEB that is erased already need not be erased again.
fn without_unmapped(device: &dyn LebDevice, mut changes: Changes) -> Result<Changes, RepairError> {
    let mut unneeded = Vec::new();
    for (leb, change) in &changes {
        if change.is_none() && !device.is_mapped(Leb::new(*leb))? {
            unneeded.push(*leb);
        }
    }
    for leb in unneeded {
        changes.remove(&leb);
    }
    Ok(changes)
}

/// Returns the layout that a superblock describes.
fn layout(sb: &Superblock) -> Layout {
    Layout {
        leb_size: sb.leb_size,
        min_io: sb.min_io_size,
        max_leb_cnt: sb.max_leb_cnt,
        max_bud_bytes: sb.max_bud_bytes,
        log_lebs: sb.log_lebs,
        lpt_lebs: sb.lpt_lebs,
        orph_lebs: sb.orph_lebs,
        max_main_lebs: sb.max_leb_cnt.saturating_sub(sb.main_first()),
        fanout: sb.fanout,
        lsave_cnt: sb.lsave_cnt,
        big_lpt: sb.has(sb_flags::BIG_LPT),
        rp_size: sb.rp_size,
    }
}

fn master(
    sb: &Superblock,
    layout: &Layout,
    props: &[LebProps],
    lpt: &FreshLpt,
    index: &Index,
) -> Master {
    let sum = |of: &dyn Fn(&LebProps) -> u32| props.iter().map(|leb| u64::from(of(leb))).sum();
    let count = |of: &dyn Fn(&LebProps) -> bool| props.iter().filter(|leb| of(leb)).count() as u32;
    let used = |leb: &LebProps| if leb.index { 0 } else { sb.leb_size - leb.free - leb.dirty };
    let head = &props[(index.head - sb.main_first()) as usize];
    Master {
        sqnum: 0,
        highest_inum: 0,
        cmt_no: 0,
        flags: master_flags::NO_ORPHANS,
        log_lnum: LOG_FIRST,
        root_lnum: index.root.leb.get(),
        root_offs: index.root.offset,
        root_len: index.root.len,
        gc_lnum: 0,
        ihead_lnum: index.head,
        ihead_offs: sb.leb_size - head.free,
        index_size: index.size,
        total_free: sum(&|leb| leb.free),
        total_dirty: sum(&|leb| leb.dirty),
        total_used: sum(&used),
        total_dead: sum(&|leb| layout.dead_and_dark(leb).0),
        total_dark: sum(&|leb| layout.dead_and_dark(leb).1),
        lpt_lnum: lpt.root.leb.get(),
        lpt_offs: lpt.root.offset,
        nhead_lnum: lpt.head.leb.get(),
        nhead_offs: lpt.head.offset,
        ltab_lnum: lpt.ltab.leb.get(),
        ltab_offs: lpt.ltab.offset,
        lsave_lnum: lpt.lsave.map_or(0, |place| place.leb.get()),
        lsave_offs: lpt.lsave.map_or(0, |place| place.offset),
        lscan_lnum: sb.main_first(),
        empty_lebs: count(&|leb| leb.free == sb.leb_size),
        idx_lebs: count(&|leb| leb.index),
        leb_cnt: sb.leb_cnt,
        hash_root_idx: [0; 64],
        hash_lpt: [0; 64],
        hmac: [0; 64],
    }
}
