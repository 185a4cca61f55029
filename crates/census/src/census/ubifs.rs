//! Which nodes of a UBIFS are live.

use super::State;
use crate::walk::{Family, Record, What};
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{Live, OpenOptions, Ubifs};
use eraseblock_ubifs_format::constants::{MASTER_LEB, NodeType, PADDING_BYTE, master_flags};
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_ubifs_format::lpt::{LptGeometry, Nnode};
use eraseblock_ubifs_format::raw::{CommitStartNode, CommonHeader};
use eraseblock_ubifs_format::{Key, Master, Superblock};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// A node that is live, in 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Node {
    leb: u32,
    offset: u32,
    parent: Option<(u32, u32)>,
}

impl Node {
    fn place(&self) -> (u32, u32) {
        (self.leb, self.offset)
    }
}

/// What is known of a volume.
#[derive(Debug)]
pub(super) struct Facts {
    superblock: Superblock,
    master: Option<Master>,
    /// Everything was found by a scan.
    is_rescued: bool,
    /// In ascending order of their places.
    nodes: Vec<Node>,
    keys: HashSet<Key>,
    lpt: BTreeSet<(u32, u32)>,
    /// The sequence number at which the last commit started.
    commit: Option<u64>,
}

impl Facts {
    /// Opens the file system of a volume; `None` if there is none.
    pub(super) fn of(device: &Arc<dyn LebDevice>) -> Option<Self> {
        let (fs, _) = Ubifs::open(Arc::clone(device), &OpenOptions::default()).ok()?;
        let (mut nodes, mut keys) = (Vec::new(), HashSet::new());
        let node = |live: &Live| Node {
            leb: live.leb.get(),
            offset: live.offset,
            parent: live.parent.map(|(leb, offset)| (leb.get(), offset)),
        };
        fs.visit_leaves(&mut |live| {
            keys.insert(live.key);
            nodes.push(node(&live));
        });
        nodes.sort_unstable();
        let mut inner = Vec::new();
        fs.visit_index(&mut |live, level| {
            let own = node(&live);
            if level.is_some() {
                inner.push(own);
            } else if let Ok(at) = nodes.binary_search_by_key(&own.place(), Node::place) {
                nodes[at].parent = own.parent;
            }
        });
        nodes.append(&mut inner);
        nodes.sort_unstable();
        let superblock = fs.superblock().clone();
        let master = fs.master().cloned();
        let mut facts = Self {
            commit: master.as_ref().and_then(|master| commit(device.as_ref(), &superblock, master)),
            is_rescued: fs.info().is_rescued,
            superblock,
            master,
            nodes,
            keys,
            lpt: BTreeSet::new(),
        };
        facts.walk_lpt(device.as_ref());
        Some(facts)
    }

    /// Collects the nodes that the master refers to.
    fn walk_lpt(&mut self, device: &dyn LebDevice) {
        let Some(master) = self.master.clone() else { return };
        let Some(inputs) = crate::segment::lpt_inputs(&self.superblock) else { return };
        let geometry = LptGeometry::new(inputs);
        for (leb, offset) in
            [(master.ltab_lnum, master.ltab_offs), (master.lsave_lnum, master.lsave_offs)]
        {
            self.lpt.insert((leb, offset));
        }
        let mut open = vec![(master.lpt_lnum, master.lpt_offs, geometry.height, 1_u32)];
        while let Some((leb, offset, level, number)) = open.pop() {
            if !self.lpt.insert((leb, offset)) || level == 0 {
                continue;
            }
            let mut bytes = vec![0; geometry.nnode_size as usize];
            if device.read(Leb::new(leb), offset, &mut bytes).is_err() {
                continue;
            }
            let at = Location::Leb(Leb::new(leb), offset);
            let number_of =
                if geometry.inputs.big { stored_number(&bytes, &geometry) } else { number };
            let Ok(node) = Nnode::unpack(&bytes, &geometry, number_of, level, at) else { continue };
            for child in node.branches.into_iter().flatten() {
                open.push((child.leb.get(), child.offset, level - 1, number));
            }
        }
    }

    /// Returns the state of a record at a place of the volume, and the place of what refers to it.
    pub(super) fn state(
        &self,
        record: &Record<'_>,
        leb: Leb,
        offset: u32,
    ) -> (State, Option<(Leb, u32)>) {
        match record.what {
            What::Run(0xFF) => (State::Free, None),
            What::Run(0) if self.is_filler(leb) => (State::Padding, None),
            What::Run(PADDING_BYTE) => (State::Padding, None),
            What::Bytes if record.bytes.iter().all(|byte| *byte == PADDING_BYTE) => {
                (State::Padding, None)
            }
            What::Bytes if record.bytes.iter().all(|byte| *byte == 0xFF) => (State::Free, None),
            What::Structure { family: Family::Lpt(_), .. } => {
                let is_live = self.lpt.contains(&(leb.get(), offset));
                (if is_live { State::Live } else { State::Superseded }, None)
            }
            What::Structure { family: Family::Ubifs, kind, .. } => {
                match u8::try_from(kind).ok().and_then(NodeType::from_number) {
                    Some(node_type) => self.node(record.bytes, node_type, leb, offset),
                    None => (State::Garbage, None),
                }
            }
            _ => (State::Garbage, None),
        }
    }

    /// Zeros follow padding nodes, whose length is not part of the node.
    fn is_filler(&self, leb: Leb) -> bool {
        leb.get() < self.superblock.leb_cnt
    }

    fn node(
        &self,
        bytes: &[u8],
        node_type: NodeType,
        leb: Leb,
        offset: u32,
    ) -> (State, Option<(Leb, u32)>) {
        let place = (leb.get(), offset);
        let at = self.nodes.binary_search_by_key(&place, Node::place);
        if let Ok(at) = at {
            let state = if self.is_rescued { State::Doubtful } else { State::Live };
            return (state, self.nodes[at].parent.map(|(leb, offset)| (Leb::new(leb), offset)));
        }
        let limits = Limits::unknown(self.superblock.leb_size);
        let Ok(node) = decode::node(bytes, &limits, Location::Leb(leb, offset)) else {
            return (State::Torn, None);
        };
        let sqnum = node.header.sqnum;
        let is_since_commit = self.commit.is_some_and(|commit| sqnum >= commit);
        let live_if = |is_live: bool| if is_live { State::Live } else { State::Superseded };
        let state = match node_type {
            NodeType::Superblock | NodeType::Signature => live_if(leb.get() == 0),
            NodeType::Master => {
                let newest = self.master.as_ref().map(|master| master.sqnum);
                // The copy in the second LEB is written after that in the first.
                live_if(newest.is_some_and(|newest| match leb.get().checked_sub(MASTER_LEB) {
                    Some(0) => sqnum == newest || sqnum == newest.wrapping_sub(1),
                    Some(1) => sqnum == newest || sqnum == newest.wrapping_add(1),
                    _ => false,
                }))
            }
            NodeType::Reference | NodeType::CommitStart | NodeType::Auth => {
                live_if(is_since_commit)
            }
            NodeType::Orphan => {
                let none = self.master.as_ref().is_some_and(|m| m.has(master_flags::NO_ORPHANS));
                live_if(!none)
            }
            NodeType::Padding => State::Padding,
            NodeType::Index => State::Superseded,
            NodeType::Truncation => deletion(is_since_commit),
            NodeType::Inode | NodeType::Data | NodeType::Dent | NodeType::Xent => {
                let key =
                    bytes.get(CommonHeader::SIZE..).and_then(|key| key.first_chunk().copied());
                let is_deletion = match node_type {
                    NodeType::Inode => node.inode().is_ok_and(|inode| inode.nlink == 0),
                    NodeType::Data => false,
                    _ => node.dent().is_ok_and(|dent| dent.ino == 0),
                };
                match key.map(Key::from_bytes) {
                    _ if is_deletion => deletion(is_since_commit),
                    Some(key) if self.keys.contains(&key) => State::Superseded,
                    _ => State::Deleted,
                }
            }
        };
        (state, None)
    }
}

/// A deletion counts until the next commit.
fn deletion(is_since_commit: bool) -> State {
    if is_since_commit { State::Live } else { State::Deleted }
}

/// Returns the number that a node of the big model stores.
fn stored_number(bytes: &[u8], geometry: &LptGeometry) -> u32 {
    use eraseblock_base::field::{Repr, number_at};
    number_at(bytes, 20, geometry.pcnt_bits as usize, Repr::Little) as u32
}

/// Returns the sequence number of the node that started the last commit.
fn commit(device: &dyn LebDevice, superblock: &Superblock, master: &Master) -> Option<u64> {
    let tail = Leb::new(master.log_lnum);
    let mut bytes = [0; CommitStartNode::SIZE];
    device.read(tail, 0, &mut bytes).ok()?;
    let limits = Limits::of(superblock);
    let node = decode::expect(&bytes, NodeType::CommitStart, &limits, Location::leb(tail));
    node.ok().map(|node| node.header.sqnum)
}
