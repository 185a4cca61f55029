//! The directories of the objects that a mount found: names, hard links, and what has no place (spec:
//! yaffs2 5, 6 rule 8).

use crate::codes;
use crate::objects::{Object, Objects};
use eraseblock_base::{Findings, Location};
use eraseblock_yaffs_format::ObjectKind;
use eraseblock_yaffs_format::constants::object;
use std::collections::{BTreeMap, BTreeSet};

/// Directories above an object that are walked up; deeper ones count as unreachable.
const MAX_DEPTH: u32 = 100;
/// Hard links to hard links that are followed.
const MAX_LINKS: u32 = 8;

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    /// The object that the name leads to: of a hard link its target.
    pub(crate) id: u32,
    /// The object with the name: of a hard link not its target.
    pub(crate) own: u32,
}

/// The directories.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Entries by directory, sorted by name.
    pub(crate) directories: BTreeMap<u32, Vec<Entry>>,
    /// Number of names of each object that can be reached.
    pub(crate) links: BTreeMap<u32, u32>,
}

/// Builds the directories.
pub(crate) fn build(objects: &mut Objects, findings: &mut Findings) -> Tree {
    find_lost(objects, findings);
    let mut tree = Tree::default();
    let mut names: BTreeMap<(u32, Vec<u8>), (u32, u32)> = BTreeMap::new();
    let mut lost = BTreeSet::new();
    for (id, object) in &objects.all {
        if *id <= object::DELETED || is_removed(*id, object, findings) {
            continue;
        }
        let Some(target) = target(objects, *id, object, findings) else { continue };
        *tree.links.entry(target).or_default() += 1;
        let key = (object.parent, name(*id, object));
        let Some((other, other_target)) = names.insert(key.clone(), (*id, target)) else {
            continue;
        };
        // The newer of the two keeps the name.
        let rank = |id: u32| objects.all.get(&id).map_or(u32::MAX, |object| object.rank);
        let is_newer = rank(*id) <= rank(other);
        let (older, older_target) = if is_newer { (other, other_target) } else { (*id, target) };
        if !is_newer {
            names.insert(key.clone(), (other, other_target));
        }
        let at = Location::Inode(older.into());
        let shown = String::from_utf8_lossy(&key.1).into_owned();
        if other_target == target {
            // A removal cut short: one link took the place of the file, and is still there.
            let message = format!("a second name `{shown}` of object {target}: it is left out");
            findings.note(at, "duplicate-name", message);
            tree.links.entry(target).and_modify(|links| *links -= 1);
        } else {
            let message = format!("a newer object has the name `{shown}`: it is in lost+found");
            findings.warn(at, "duplicate-name", message);
            lost.insert((older, older_target));
        }
    }
    for (id, target) in lost {
        names.insert((object::LOST_FOUND, number_name(id)), (id, target));
    }
    for ((directory, name), (entry, id)) in names {
        tree.directories.entry(directory).or_default().push(Entry { name, id, own: entry });
    }
    add_lost_found(&mut tree);
    tree
}

/// Shows lost+found if there is anything in it.
fn add_lost_found(tree: &mut Tree) {
    if !tree.directories.contains_key(&object::LOST_FOUND) {
        return;
    }
    let root = tree.directories.entry(object::ROOT).or_default();
    let find = |name: &[u8], root: &[Entry]| {
        root.binary_search_by(|entry| entry.name.as_slice().cmp(name))
    };
    // A file of a user may have its name.
    let usual = b"lost+found".to_vec();
    let name = if find(&usual, root).is_ok() { number_name(object::LOST_FOUND) } else { usual };
    if let Err(index) = find(&name, root) {
        let id = object::LOST_FOUND;
        root.insert(index, Entry { name, id, own: id });
    }
}

/// Returns whether an object is deleted: with a name that a mount would remove, a finding says so.
fn is_removed(id: u32, object: &Object, findings: &mut Findings) -> bool {
    if object.parent == object::UNLINKED && object.header.is_some() {
        let message = "removed while it was open: the next writable mount deletes it";
        findings.note(Location::Inode(id.into()), "unlinked-file", message);
    }
    matches!(object.parent, object::UNLINKED | object::DELETED)
}

/// Returns the object that a name leads to, or `None` with a finding.
fn target(objects: &Objects, id: u32, object: &Object, findings: &mut Findings) -> Option<u32> {
    if object.kind != ObjectKind::HardLink {
        return Some(id);
    }
    let mut target = object.equivalent;
    for _ in 0..MAX_LINKS {
        match objects.all.get(&target) {
            Some(found) if found.kind == ObjectKind::HardLink => target = found.equivalent,
            Some(found) if found.kind != ObjectKind::Directory => return Some(target),
            _ => break,
        }
    }
    let shown = String::from_utf8_lossy(&name(id, object)).into_owned();
    let message =
        format!("hard link `{shown}` to object {}, which does not exist", object.equivalent);
    findings.error(Location::Inode(id.into()), codes::DANGLING_LINK, message);
    None
}

/// Returns the name of an object: its number, if its own is not one.
fn name(id: u32, object: &Object) -> Vec<u8> {
    let name = object.header.as_ref().map_or(&[][..], |(_, header)| &header.name);
    match name {
        b"" | b"." | b".." => number_name(id),
        name if name.contains(&b'/') => number_name(id),
        name => name.to_vec(),
    }
}

fn number_name(id: u32) -> Vec<u8> {
    format!("obj{id}").into_bytes()
}

/// Moves objects that cannot be reached from the root to lost+found.
fn find_lost(objects: &mut Objects, findings: &mut Findings) {
    let ids: Vec<u32> = objects.all.keys().copied().filter(|id| *id > object::DELETED).collect();
    for id in ids {
        let Some(top) = unreachable(objects, id) else { continue };
        if let Some(object) = objects.all.get_mut(&top) {
            let (at, parent) = (Location::Inode(top.into()), object.parent);
            if object.header.is_none() {
                findings.warn(at, "no-directory", "no header: it is in lost+found");
            } else {
                let message = format!("directory {parent} does not exist: it is in lost+found");
                findings.warn(at, "no-directory", message);
            }
            object.parent = object::LOST_FOUND;
        }
    }
    for (id, object) in &objects.all {
        if object.parent == object::LOST_FOUND && object.header.is_none() && !object.is_settled {
            let message = "no header: it is in lost+found";
            findings.warn(Location::Inode((*id).into()), "no-directory", message);
        }
    }
}

/// Walks up from an object. Returns the one that has to move for it to be reachable.
fn unreachable(objects: &Objects, id: u32) -> Option<u32> {
    let mut top = id;
    for depth in 0..MAX_DEPTH {
        let parent = objects.all.get(&top)?.parent;
        match parent {
            object::ROOT | object::LOST_FOUND => return None,
            // Deleted itself, or below something that is.
            object::UNLINKED | object::DELETED => return (depth > 0).then_some(top),
            _ => {}
        }
        match objects.all.get(&parent) {
            Some(above) if above.kind == ObjectKind::Directory => {}
            _ => return Some(top),
        }
        top = parent;
    }
    Some(id)
}
