//! Decides at mount which pairs of name and value, and which references to them, are live
//! (spec: jffs2 10, resolution).
//!
//! Layer: above `owners`. Reads nodes and declares them dead, writes nothing.

use super::failure::io;
use super::nodelist::RefState;
use super::owners::Owners;
use super::pairs::{Content, RefKey, Reference, Xattrs, read_pair};
use super::store::Store;
use crate::codes;
use eraseblock_jffs2_format::decode;
use eraseblock_vfs::{FsError, FsErrorKind};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Adds the nodes of extended attributes at these places.
pub(crate) fn build_xattrs(
    store: &mut Store,
    owners: &mut Owners,
    pairs: &[u32],
    references: &[u32],
) -> Result<(), FsError> {
    let mut xattrs = std::mem::take(&mut owners.xattrs);
    for place in pairs {
        build_pair(store, &mut xattrs, *place)?;
    }
    for place in references {
        build_reference(store, &mut xattrs, *place)?;
    }
    drop_dangling(store, &mut xattrs, owners);
    hide_older_names(store, &mut xattrs)?;
    count_users(&mut xattrs);
    let all: Vec<u32> = xattrs.pairs.keys().copied().collect();
    for xid in all {
        xattrs.drop_unused(store, xid);
    }
    owners.xattrs = xattrs;
    Ok(())
}

/// Drops the references of inodes that do not exist, and those to pairs that do not. The inode of a
/// reference is gone if a power cut came after its deletion: a deletion writes nothing for them.
fn drop_dangling(store: &mut Store, xattrs: &mut Xattrs, owners: &Owners) {
    let all: Vec<(RefKey, Reference)> =
        xattrs.references.iter().map(|(key, reference)| (*key, *reference)).collect();
    for (key, reference) in all {
        let lives = owners.cache(key.ino).is_some_and(|cache| cache.names() > 0);
        let is_known = reference.is_deleted() || xattrs.pairs.contains_key(&key.xid);
        if !lives || !is_known {
            xattrs.references.remove(&key);
            store.obsolete(reference.place);
        }
    }
}

fn count_users(xattrs: &mut Xattrs) {
    for (key, reference) in &xattrs.references {
        if !reference.is_deleted()
            && let Some(pair) = xattrs.pairs.get_mut(&key.xid)
        {
            pair.users += 1;
        }
    }
}

fn build_pair(store: &mut Store, xattrs: &mut Xattrs, place: u32) -> Result<(), FsError> {
    let bytes = store.read_node(store.node(place))?;
    let at = store.flash.location(place);
    let found = match decode::xattr(store.flash.order, &bytes, at) {
        Ok(found) => found,
        Err(error) => {
            store.late.warn(at, codes::XATTR_DAMAGED, error.to_string());
            store.obsolete(place);
            return Ok(());
        }
    };
    store.blocks.check_off(place, RefState::Normal);
    xattrs.see_xid(found.xid);
    if let Some(old) = xattrs.pairs.get(&found.xid)
        && counts(store, (old.version, old.place), (found.version, place))?
    {
        store.obsolete(place);
        return Ok(());
    }
    let content = Content { prefix: found.prefix, name: found.name, value: found.value };
    if let Some(old) = xattrs.add_pair(found.xid, place, found.version, &content) {
        store.obsolete(old.place);
    }
    Ok(())
}

fn build_reference(store: &mut Store, xattrs: &mut Xattrs, place: u32) -> Result<(), FsError> {
    let bytes = store.read_node(store.node(place))?;
    let at = store.flash.location(place);
    let found = match decode::xref(store.flash.order, &bytes, at) {
        Ok(found) => found,
        Err(error) => {
            store.late.warn(at, codes::XREF_DAMAGED, error.to_string());
            store.obsolete(place);
            return Ok(());
        }
    };
    // A summary does not name the inode of a reference.
    store.blocks.set_owner(place, found.ino);
    store.blocks.check_off(place, RefState::Normal);
    xattrs.see_xseqno(found.xseqno);
    let key = RefKey { ino: found.ino, xid: found.xid };
    if let Some(old) = xattrs.references.get(&key) {
        if counts(store, (old.xseqno, old.place), (found.xseqno, place))? {
            store.obsolete(place);
            return Ok(());
        }
        store.obsolete(old.place);
    }
    xattrs.references.insert(key, Reference { place, xseqno: found.xseqno });
    Ok(())
}

/// Returns whether of two nodes, each a version and a place, the first one counts: the newer one,
/// or of copies the second, unless the first is safer.
fn counts(store: &Store, one: (u32, u32), other: (u32, u32)) -> Result<bool, FsError> {
    match one.0.cmp(&other.0) {
        Ordering::Less => Ok(false),
        Ordering::Equal => store.is_safer(one.1, other.1).map_err(io),
        Ordering::Greater => Ok(true),
    }
}

/// The reference with which an inode has a name.
#[derive(Clone, Copy)]
struct Holder {
    xseqno: u32,
    xid: u32,
}

/// Hides the older one of two references for one name of an inode: a power cut came between the
/// reference to the new value and the deletion of the old one.
fn hide_older_names(store: &mut Store, xattrs: &mut Xattrs) -> Result<(), FsError> {
    let mut inodes: Vec<u32> = xattrs.references.keys().map(|key| key.ino).collect();
    inodes.dedup();
    for ino in inodes {
        let mut newest: BTreeMap<(u8, Vec<u8>), Holder> = BTreeMap::new();
        let pairs = xattrs.of(ino);
        if pairs.len() < 2 {
            continue;
        }
        for (xid, pair) in pairs {
            let stored = match read_pair(store, pair.place) {
                Ok(stored) => stored,
                Err(error) if error.kind() == FsErrorKind::Corrupted => continue,
                Err(error) => return Err(error),
            };
            let key = RefKey { ino, xid };
            let xseqno = xattrs.references.get(&key).map_or(0, |one| one.xseqno);
            let name = (stored.prefix, stored.name);
            let loser = match newest.insert(name.clone(), Holder { xseqno, xid }) {
                Some(old) if old.xseqno > xseqno => {
                    newest.insert(name, old);
                    Some(xid)
                }
                old => old.map(|old| old.xid),
            };
            if let Some(xid) = loser
                && let Some(gone) = xattrs.references.remove(&RefKey { ino, xid })
            {
                xattrs.hidden.insert(RefKey { ino, xid });
                store.obsolete(gone.place);
            }
        }
    }
    Ok(())
}
