//! Writes and collects the nodes of extended attributes (spec: jffs2 10).
//!
//! Layer: above `write`, below garbage collection.

use super::log::NewNode;
use super::nodelist::{NodeRef, RefKind, RefState};
use super::pairs::{Content, Link, RefKey, Reference, read_pair};
use super::summary::Listed;
use super::write::Writer;
use eraseblock_jffs2_format::constants::XREF_LEN;
use eraseblock_jffs2_format::summary::RecordNode;
use eraseblock_jffs2_format::{Xattr, Xref, decode, encode};
use eraseblock_vfs::FsError;

impl Writer {
    /// Writes a new pair; returns its number.
    pub(crate) fn put_pair(&mut self, content: &Content<'_>) -> Result<u32, FsError> {
        let xid = self.log.tree.owners.xattrs.next_xid();
        let place = self.put_pair_node(xid, 1, content)?;
        self.log.tree.owners.xattrs.add_pair(xid, place, 1, content);
        Ok(xid)
    }

    fn put_pair_node(
        &mut self,
        xid: u32,
        version: u32,
        content: &Content<'_>,
    ) -> Result<u32, FsError> {
        let Content { prefix, name, value } = *content;
        let totlen = encode::xattr_len(name.len(), value.len());
        self.log.reserve(totlen, RecordNode::XATTR_LEN)?;
        let mut bytes = Vec::with_capacity(totlen as usize);
        let node = Xattr { xid, version, prefix, name, value };
        encode::xattr(self.log.tree.store.flash.order, &node, &mut bytes);
        let listed = Some(Listed { node: RecordNode::Xattr { xid, version }, totlen });
        let (kind, state) = (RefKind::Xattr, RefState::Normal);
        self.log.put(&NewNode { kind, owner: xid, state, listed, bytes: &bytes })
    }

    /// Writes a reference of an inode to a pair, or its deletion.
    pub(crate) fn put_reference(&mut self, key: RefKey, link: Link) -> Result<(), FsError> {
        let new = self.put_reference_node(key, link)?;
        let tree = &mut self.log.tree;
        tree.owners.xattrs.refer(&mut tree.store, key, new);
        Ok(())
    }

    fn put_reference_node(&mut self, key: RefKey, link: Link) -> Result<Reference, FsError> {
        self.log.reserve(XREF_LEN, RecordNode::XREF_LEN)?;
        let tree = &mut self.log.tree;
        let xseqno = tree.owners.xattrs.next_xseqno(link);
        let mut bytes = Vec::with_capacity(XREF_LEN as usize);
        let node = Xref { ino: key.ino, xid: key.xid, xseqno };
        encode::xref(tree.store.flash.order, &node, &mut bytes);
        let listed = Some(Listed { node: RecordNode::Xref, totlen: XREF_LEN });
        let (kind, state) = (RefKind::Xref, RefState::Normal);
        let new = NewNode { kind, owner: key.ino, state, listed, bytes: &bytes };
        Ok(Reference { place: self.log.put(&new)?, xseqno })
    }

    /// Collects an XATTR node (spec: jffs2 10).
    pub(crate) fn collect_pair(&mut self, node: NodeRef) -> Result<(), FsError> {
        let stored = read_pair(&self.log.tree.store, node.place())?;
        let pair = self.log.tree.owners.xattrs.pairs.get(&node.owner).copied();
        if let Some(pair) = pair {
            // A higher version: the copy counts even if the erase of the original is cut.
            let version = pair.version.saturating_add(1);
            let place = self.put_pair_node(node.owner, version, &stored.content())?;
            if let Some(pair) = self.log.tree.owners.xattrs.pairs.get_mut(&node.owner) {
                pair.place = place;
                pair.version = version;
            }
        }
        self.log.tree.store.obsolete(node.place());
        Ok(())
    }

    /// Collects an XREF node; drops a deleted reference if no older node of it is left.
    pub(crate) fn collect_reference(&mut self, node: NodeRef) -> Result<(), FsError> {
        let references = &self.log.tree.owners.xattrs.references;
        let mut mine = references.range(RefKey::all_of(node.owner));
        let found = mine.find(|(_, one)| one.place == node.place());
        if let Some((key, reference)) = found.map(|(key, one)| (*key, *one)) {
            if reference.is_deleted() && !self.is_still_on_flash(key)? {
                self.log.tree.owners.xattrs.references.remove(&key);
            } else {
                let new = self.put_reference_node(key, reference.link())?;
                self.log.tree.owners.xattrs.references.insert(key, new);
            }
        }
        self.log.tree.store.obsolete(node.place());
        Ok(())
    }

    /// Returns whether a scan can still find a dead reference of the inode to the pair: in another
    /// block, or in the same one while it is being erased. Without its deletion, it would be
    /// alive again.
    fn is_still_on_flash(&self, key: RefKey) -> Result<bool, FsError> {
        let store = &self.log.tree.store;
        for (block, entry) in store.blocks.iter() {
            let dead = entry.refs.iter().filter(|node| {
                node.kind() == RefKind::Xref && node.owner == key.ino && !node.is_live()
            });
            for node in dead {
                let bytes = store.read_node(*node)?;
                let at = store.flash.location(store.flash.start(block));
                if let Ok(xref) = decode::xref(store.flash.order, &bytes, at)
                    && xref.xid == key.xid
                    && xref.xseqno & 1 == 0
                {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}
