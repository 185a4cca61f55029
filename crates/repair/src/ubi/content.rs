//! What the UBIFS volumes of a flash expect in LEBs that have no eraseblock.

use crate::error::RepairError;
use crate::scan::{self, Scan, What};
use crate::superblock;
use eraseblock_base::{Leb, Location, VolumeId};
use eraseblock_mtd::{LebDevice, Mtd};
use eraseblock_ubi::{AttachOptions, Ubi, UbiVolume};
use eraseblock_ubi_format::{HeaderLayout, VolumeKind};
use eraseblock_ubifs_format::constants::NodeType;
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_ubifs_format::{IndexNode, Key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A node that an index refers to.
struct Expected {
    offset: u32,
    len: u32,
    /// Of a leaf; `None` for an index node.
    key: Option<Key>,
}

/// What is expected in a LEB.
struct Wanted {
    volume: VolumeId,
    leb: Leb,
    limits: Limits,
    nodes: Vec<Expected>,
}

/// The LEBs that are missing.
pub(super) struct Missing {
    wanted: Vec<Wanted>,
}

impl Missing {
    /// Reads the index of each UBIFS.
    pub(super) fn of(
        flash: &Arc<dyn Mtd>,
        layout: &HeaderLayout,
        options: AttachOptions,
    ) -> Result<Self, RepairError> {
        let ubi = Ubi::attach(Arc::clone(flash), layout, &options)?;
        let mut wanted = Vec::new();
        for info in &ubi.attachment().volumes {
            if info.kind == VolumeKind::Dynamic {
                in_volume(&ubi.volume(info.id)?, &mut wanted);
            }
        }
        Ok(Self { wanted })
    }

    /// Returns whether no index expects anything in a LEB that is missing.
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns the only LEB of which every expected node is in these bytes.
    pub(super) fn place_of(&self, data: &[u8]) -> Option<(VolumeId, Leb)> {
        let mut fitting = self.wanted.iter().filter(|wanted| wanted.is_in(data));
        let first = fitting.next()?;
        fitting.next().is_none().then_some((first.volume, first.leb))
    }
}

impl Wanted {
    fn is_in(&self, data: &[u8]) -> bool {
        self.nodes.iter().all(|node| {
            let rest = data.get(node.offset as usize..).unwrap_or_default();
            let found = decode::node(rest, &self.limits, Location::Leb(self.leb, node.offset));
            found.is_ok_and(|found| {
                let is_kind = match node.key {
                    Some(key) => found.key() == Some(key),
                    None => found.header.node_type == NodeType::Index,
                };
                found.header.len == node.len && is_kind
            })
        })
    }
}

/// Adds what the newest index of a volume refers to in LEBs that are not mapped.
fn in_volume(volume: &UbiVolume, wanted: &mut Vec<Wanted>) {
    // A volume without a superblock and without a trace of one is no UBIFS.
    let Ok(settled) = superblock::settle(volume) else { return };
    let sb = settled.sb.grown(volume.leb_count());
    let scan = scan::scan(volume, &sb);
    let mut missing: BTreeMap<u32, Vec<Expected>> = BTreeMap::new();
    for (leb, node) in references(&scan) {
        if volume.is_mapped(Leb::new(leb)).is_ok_and(|is_mapped| !is_mapped) {
            missing.entry(leb).or_default().push(node);
        }
    }
    let (id, limits) = (volume.info().id, Limits::of(&sb));
    wanted.extend(missing.into_iter().map(|(leb, nodes)| Wanted {
        volume: id,
        leb: Leb::new(leb),
        limits,
        nodes,
    }));
}

/// Returns every node that the newest index refers to, as far as it can be followed.
fn references(scan: &Scan) -> Vec<(u32, Expected)> {
    let index = |node: &'_ scan::Found| match &node.what {
        What::Index(index) => Some(((node.leb, node.offset), (**index).clone())),
        _ => None,
    };
    let nodes: BTreeMap<(u32, u32), IndexNode> = scan.nodes.iter().filter_map(index).collect();
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    let mut open: Vec<_> =
        scan.masters.last().map(|master| (master.root(), None)).into_iter().collect();
    while let Some((branch, key)) = open.pop() {
        let place = (branch.leb.get(), branch.offset);
        all.push((place.0, Expected { offset: place.1, len: branch.len, key }));
        let Some(node) = nodes.get(&place).filter(|_| key.is_none() && seen.insert(place)) else {
            continue;
        };
        let is_leaf = node.level == 0;
        open.extend(node.branches.iter().map(|child| (*child, is_leaf.then_some(child.key))));
    }
    all
}
