//! Leaves by themselves: those that cannot be read, those that occur twice, and sequence numbers.

use super::{Quarantined, Rules};
use crate::model::{Block, InodeLeaf, Leaf, Lost, Model, Origin, is_insane};
use crate::plan::{Action, Level, Part, without_place};
use eraseblock_ubifs_format::constants::BLOCK_SIZE;
use eraseblock_ubifs_format::{Key, KeyKind, Limits};

impl Rules<'_> {
    /// N1, N6, N8: a leaf that cannot be read is replaced by a copy of it, or it is lost.
    pub(super) fn lost_leaves(&mut self) {
        for mut lost in std::mem::take(&mut self.model.lost) {
            lost.why = without_place(lost.leaf.at(), &lost.why);
            if !self.use_copy(&lost) {
                self.lose_leaf(&lost);
            }
        }
    }

    /// Garbage collection does not change what it copies: a copy has the same key, length and
    /// sequence number, which the damaged header still contains.
    fn use_copy(&mut self, lost: &Lost) -> bool {
        let leaf = &lost.leaf;
        let Some(sqnum) = lost.bytes.get(8..16).and_then(<[u8]>::first_chunk) else { return false };
        let sqnum = u64::from_le_bytes(*sqnum);
        let copy = self.scan.nodes.iter().find(|node| {
            let is_same = (node.key, node.len, node.sqnum) == (leaf.key, leaf.len, sqnum);
            let is_leaf = !matches!(node.what, crate::scan::What::Index(_));
            is_leaf && is_same && (node.leb, node.offset) != (leaf.leb, leaf.offset)
        });
        let Some(copy) = copy else { return false };
        let there = Leaf { leb: copy.leb, offset: copy.offset, ..*leaf };
        let read = Model::new(self.device, Limits::of(self.sb), vec![there]);
        if !read.lost.is_empty() {
            return false;
        }
        let ino = leaf.key.ino();
        for object in read.objects.into_values() {
            let own = self.model.object(ino);
            own.inode = object.inode.or(own.inode.take());
            own.blocks.extend(object.blocks);
            own.entries.extend(object.entries);
            own.xattrs.extend(object.xattrs);
        }
        let why = format!("{}: {}; a copy is whole", self.name_of(ino), lost.why);
        let action = Action::new(Level::Safe, "leaf-lost", lost.rule, leaf.at(), "set", why);
        self.act(action.sets("place", leaf.at().to_string(), there.at().to_string()));
        true
    }

    fn lose_leaf(&mut self, lost: &Lost) {
        let leaf = &lost.leaf;
        let ino = leaf.key.ino();
        if !lost.bytes.is_empty() {
            let (at, why, bytes) = (leaf.at(), lost.why.clone(), lost.bytes.clone());
            self.quarantine.push(Quarantined { at, why, bytes });
        }
        let (what, part) = match leaf.key.kind() {
            Some(KeyKind::Data) => {
                let from = u64::from(leaf.key.value()) * u64::from(BLOCK_SIZE);
                let to = from + u64::from(BLOCK_SIZE);
                (format!("bytes {from} to {}", to - 1), Part::Content { from, to })
            }
            Some(KeyKind::Dent) => ("an entry".to_owned(), Part::Name),
            Some(KeyKind::Xent) => ("an xattr".to_owned(), Part::Xattr { name: None }),
            _ => ("the inode".to_owned(), Part::Attributes),
        };
        let why = format!("{}: {what} cannot be read: {}", self.name_of(ino), lost.why);
        let loss = self.loss(ino, part);
        let action = Action::new(Level::Drop, "leaf-lost", lost.rule, leaf.at(), "remove", why);
        self.act(action.losing(loss));
    }

    /// I4: a key that occurs twice; the newer leaf was kept when the model was read.
    pub(super) fn twins(&mut self) {
        for leaf in std::mem::take(&mut self.model.twins) {
            let why = format!(
                "{}: {} occurs twice, the older one goes",
                self.name_of(leaf.key.ino()),
                leaf.key
            );
            self.keep(&leaf, &why);
            self.act(Action::new(Level::Safe, "keys-disordered", "I4", leaf.at(), "remove", why));
        }
    }

    /// N2, Q1: leaves older than their inode, and sequence numbers at the end of their range.
    pub(super) fn sequence_numbers(&mut self) {
        let mut actions = Vec::new();
        for (ino, object) in &mut self.model.objects {
            let mut creat = 0;
            if let Some(inode) = &mut object.inode {
                creat = inode.raw.creat_sqnum.get();
                let own = inode.sqnum();
                let is_made = inode.origin == Origin::Made;
                if !is_made && (own <= creat || is_insane(creat)) && !is_insane(own) {
                    let least = lowest(&object.blocks, own, &object.entries, &object.xattrs);
                    let to = least.saturating_sub(1);
                    inode.raw.creat_sqnum.set(to);
                    inode.origin.renew();
                    let why = format!("inode {ino} was written before it was created");
                    let at = inode.origin.at();
                    let action = Action::new(Level::Safe, "sqnum-wrong", "N2", at, "set", why);
                    actions.push(action.sets("creat_sqnum", creat, to));
                    creat = to;
                }
                renew_old(&mut inode.origin, own, creat, Key::inode(*ino), &mut actions);
            }
            for (number, Block { sqnum, origin, .. }) in &mut object.blocks {
                renew_old(origin, *sqnum, creat, Key::data(*ino, *number), &mut actions);
            }
            for entry in object.entries.iter_mut().chain(&mut object.xattrs) {
                let (sqnum, key) = (entry.sqnum(), entry.key());
                renew_old(&mut entry.origin, sqnum, creat, key, &mut actions);
            }
        }
        self.actions.extend(actions);
    }
}

fn lowest(
    blocks: &std::collections::BTreeMap<u32, Block>,
    own: u64,
    entries: &[crate::model::Entry],
    xattrs: &[crate::model::Entry],
) -> u64 {
    let blocks = blocks.values().map(|block| block.sqnum);
    let named = entries.iter().chain(xattrs);
    let named = named.filter(|entry| entry.origin != Origin::Made).map(crate::model::Entry::sqnum);
    blocks.chain(named).chain([own]).min().unwrap_or(own)
}

fn renew_old(origin: &mut Origin, sqnum: u64, creat: u64, key: Key, actions: &mut Vec<Action>) {
    let Origin::Flash(leaf) = *origin else { return };
    if sqnum > creat && !is_insane(sqnum) {
        return;
    }
    *origin = Origin::Renewed(leaf);
    let why =
        format!("{key}: sequence number {sqnum}, its inode was created at {creat}: a new one");
    actions.push(Action::new(Level::Safe, "sqnum-wrong", "N2, Q1", leaf.at(), "set", why));
}

impl InodeLeaf {
    /// Sets a field through `set`, and has the node written again.
    pub(crate) fn change(&mut self, set: impl FnOnce(&mut Self)) {
        set(self);
        self.origin.renew();
    }
}
