//! Verifies everything that must hold between two operations (spec: jffs2 12.1, 15). Nothing is
//! written.
//!
//! Layer: above `tree`.

use super::blocks::{List, Sizes};
use super::nodelist::{NodeRef, RefKind, RefState};
use super::pairs::RefKey;
use super::store::Store;
use super::tree::Tree;
use eraseblock_jffs2_format::constants::{DIRTY_LIMIT, ROOT_INO};
use eraseblock_vfs::{FsError, FsErrorKind};
use std::collections::{BTreeMap, BTreeSet};

impl Tree {
    /// Loads every inode, verifies all checksums, and compares accounts, lists and link counts with
    /// recomputed ones. Fails with [`FsErrorKind::Corrupted`] and the difference.
    pub(crate) fn check(&mut self) -> Result<(), FsError> {
        self.store.check_blocks().map_err(broken)?;
        self.check_names()?;
        self.check_nodes().map_err(broken)
    }

    /// Compares accounts, lists and owners in memory with recomputed ones; reads nothing. Returns
    /// the difference.
    pub(crate) fn check_memory(&self) -> Result<(), String> {
        self.store.check_blocks()?;
        self.check_nodes()
    }
}

fn broken(message: String) -> FsError {
    FsError::new(FsErrorKind::Corrupted, message)
}

impl Store {
    /// Checks sizes, lists and order of nodes.
    fn check_blocks(&self) -> Result<(), String> {
        let mut totals: Sizes<u64> = Sizes::default();
        for (number, block) in self.blocks.iter() {
            let sizes = &block.sizes;
            let fail = |what: &str| Err(format!("block {number}: {what}: {block:?}"));
            let expected = if block.list == List::Bad { 0 } else { self.flash.block };
            if sizes.sum() != expected {
                return fail("sizes do not add up");
            }
            let live = block.refs.iter().filter(|node| node.is_live());
            let (mut used, mut unchecked) = (0, 0);
            for node in live {
                match node.state() {
                    RefState::Unchecked => unchecked += node.len(),
                    _ => used += node.len(),
                }
            }
            if (used, unchecked) != (sizes.used, sizes.unchecked) {
                return fail("live bytes are not those of the nodes");
            }
            let ordered = block
                .refs
                .windows(2)
                .all(|pair| pair[0].place() + pair[0].len() <= pair[1].place());
            let inside = block.refs.iter().all(|node| {
                let place = node.place();
                place / self.flash.block == number
                    && place % self.flash.block + node.len() <= self.flash.block
            });
            if !ordered || !inside {
                return fail("nodes overlap or are out of order");
            }
            self.check_list(number).map_err(|what| format!("block {number}: {what}: {block:?}"))?;
            totals.used += u64::from(sizes.used);
            totals.unchecked += u64::from(sizes.unchecked);
            totals.dirty += u64::from(sizes.dirty);
            totals.wasted += u64::from(sizes.wasted);
            totals.free += u64::from(sizes.free);
        }
        if totals != *self.blocks.totals() {
            return Err(format!("totals are {:?}, counted {totals:?}", self.blocks.totals()));
        }
        if self.blocks.len(List::Next) > 1 || self.blocks.len(List::Victim) > 1 {
            return Err("more than one open block or victim".into());
        }
        Ok(())
    }

    fn check_list(&self, number: u32) -> Result<(), String> {
        let block = self.blocks.get(number);
        if self.blocks.list(block.list).iter().filter(|entry| **entry == number).count() != 1 {
            return Err("not once on its list".into());
        }
        let sizes = &block.sizes;
        let half = self.flash.block / 2;
        let is_right = match block.list {
            List::Free => sizes.free + sizes.used == self.flash.block && block.refs.len() < 2,
            List::Clean => sizes.dirty <= DIRTY_LIMIT && sizes.free == 0,
            List::Dirty => sizes.dirty > DIRTY_LIMIT && sizes.dirty < half && sizes.free == 0,
            List::VeryDirty => sizes.dirty >= half && sizes.free == 0,
            List::Erasable | List::ErasePending | List::PendingWbuf => {
                sizes.dirty == self.flash.block
            }
            List::BadUsed => block.live() > 0,
            List::Next | List::Victim | List::Bad => true,
        };
        if is_right { Ok(()) } else { Err("sizes do not fit its list".into()) }
    }
}

impl Tree {
    /// Walks from the root: every name must refer to an inode, and the counts must be right.
    fn check_names(&mut self) -> Result<(), FsError> {
        let mut names: BTreeMap<u32, u32> = BTreeMap::from([(ROOT_INO, 1)]);
        let mut queue = vec![ROOT_INO];
        let mut seen = BTreeSet::from([ROOT_INO]);
        while let Some(dir) = queue.pop() {
            self.load(dir)?;
            let targets: Vec<(u32, bool)> = self
                .inode(dir)
                .dents
                .iter()
                .filter(|dent| dent.ino != 0)
                .map(|dent| (dent.ino, dent.file_type == 4))
                .collect();
            for (ino, is_dir) in targets {
                *names.entry(ino).or_default() += 1;
                match self.load(ino) {
                    Ok(()) => {}
                    Err(error) if error.kind() == FsErrorKind::Corrupted => continue,
                    Err(error) => return Err(error),
                }
                if self.inode(ino).attributes.is_directory() != is_dir {
                    return Err(broken(format!("inode {ino}: its name says otherwise")));
                }
                if is_dir && seen.insert(ino) {
                    queue.push(ino);
                }
            }
        }
        for (ino, cache) in self.owners.inodes.iter() {
            let counted = names.remove(&ino).unwrap_or(0);
            if cache.names() != counted {
                let message = format!("inode {ino}: {} names, counted {counted}", cache.names());
                return Err(broken(message));
            }
        }
        match names.first_key_value() {
            Some((ino, _)) => Err(broken(format!("inode {ino} has a name but does not exist"))),
            None => Ok(()),
        }
    }

    /// Checks that every live node is referred to by its owner, and that only live nodes are.
    fn check_nodes(&self) -> Result<(), String> {
        self.check_pairs()?;
        for (ino, loaded) in self.owners.loaded.iter() {
            let mut named: BTreeSet<u32> = loaded.fragments.nodes().collect();
            named.extend(loaded.metadata);
            named.extend(loaded.dents.iter().map(|dent| dent.place));
            let places = self.owners.places(ino);
            let live: BTreeSet<u32> = places
                .iter()
                .copied()
                .filter(|place| self.store.blocks.node(*place).is_some_and(NodeRef::is_live))
                .collect();
            if named != live {
                return Err(format!("inode {ino}: names nodes {named:?}, alive are {live:?}"));
            }
        }
        for (_, block) in self.store.blocks.iter() {
            for node in block.refs.iter().filter(|node| node.is_live()) {
                let place = node.place();
                let is_known = match node.kind() {
                    RefKind::Inode | RefKind::Dirent | RefKind::Deletion | RefKind::Broken => {
                        self.owners.places(node.owner).contains(&place)
                    }
                    RefKind::Xattr => {
                        let pair = self.owners.xattrs.pairs.get(&node.owner);
                        pair.is_some_and(|pair| pair.place == place)
                    }
                    RefKind::Xref => self
                        .owners
                        .xattrs
                        .references
                        .range(RefKey::all_of(node.owner))
                        .any(|(_, reference)| reference.place == place),
                    RefKind::Copy | RefKind::Filler => true,
                };
                if !is_known {
                    return Err(format!(
                        "{}: live, but nothing refers to it: {node:?}",
                        self.store.flash.location(place)
                    ));
                }
            }
        }
        Ok(())
    }

    /// Checks that every pair of name and value has as many users as references, and that there is
    /// none without.
    fn check_pairs(&self) -> Result<(), String> {
        let xattrs = &self.owners.xattrs;
        let mut counted: BTreeMap<u32, u32> = BTreeMap::new();
        for (key, _) in xattrs.references.iter().filter(|(_, it)| !it.is_deleted()) {
            *counted.entry(key.xid).or_default() += 1;
        }
        for (xid, pair) in &xattrs.pairs {
            let counted = counted.remove(xid).unwrap_or(0);
            if pair.users != counted || counted == 0 {
                return Err(format!("xid {xid}: {} users, counted {counted}", pair.users));
            }
        }
        match counted.first_key_value() {
            Some((xid, _)) => Err(format!("xid {xid} is referred to but does not exist")),
            None => Ok(()),
        }
    }
}
