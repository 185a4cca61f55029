//! Names: those whose node is lost come back, those without an inode go, those that Linux does not allow
//! are replaced, a directory keeps one.

use super::model::Entry;
use super::{Work, joined};
use crate::plan::{Action, Level, Loss, Part, shown};
use eraseblock_base::Location;
use eraseblock_jffs2_format::constants::{DIRENT_LEN, ROOT_INO};
use eraseblock_jffs2_format::node::NodeKind;
use eraseblock_jffs2_format::{Dirent, Inode, encode};
use eraseblock_vfs::FileSystem;
use std::collections::{BTreeMap, BTreeSet};

/// DIRENT file type of directories.
const DIRECTORY: u8 = 4;
const LOST_FOUND: &[u8] = b"lost+found";

/// Gives inodes a name whose only name was in a damaged node: the one that the summary of its block still
/// lists, or one in `lost+found`.
pub(super) fn restore(work: &mut Work<'_>) {
    listed_names(work);
    lost_names(work);
}

/// Puts right all names that are there.
pub(super) fn repair(work: &mut Work<'_>) {
    let live: Vec<((u32, Vec<u8>), Entry)> = work
        .model
        .entries
        .iter()
        .filter(|((pino, _), entry)| entry.ino != 0 && is_reached(work, *pino))
        .map(|(key, entry)| (key.clone(), entry.clone()))
        .collect();
    let mut folders: BTreeMap<u32, Vec<(u32, Vec<u8>, Entry)>> = BTreeMap::new();
    for ((pino, name), entry) in live {
        let is_allowed = !matches!(&name[..], b"." | b"..") && !name.contains(&b'/');
        if !is_known(work, entry.ino) {
            let why = format!("`{}` names inode {}, which has no node", shown(&name), entry.ino);
            remove(work, (pino, &name), entry.ino, "dangling-name", why);
        } else if !is_allowed {
            rename(work, pino, &name, &entry);
        } else if entry.file_type == DIRECTORY {
            folders.entry(entry.ino).or_default().push((pino, name, entry));
        }
    }
    for (_, mut names) in folders {
        // The newest time, then the highest version, is that of the last rename.
        names.sort_by_key(|(_, _, entry)| (entry.mctime, entry.version));
        names.pop();
        for (pino, name, entry) in names {
            let why = format!("`{}` is a second name of a directory", shown(&name));
            remove(work, (pino, &name), entry.ino, "directory-named-twice", why);
        }
    }
}

fn is_reached(work: &Work<'_>, ino: u32) -> bool {
    work.paths.contains_key(&ino.into())
}

/// Returns whether there is an inode to be named.
fn is_known(work: &Work<'_>, ino: u32) -> bool {
    let is_readable = !is_reached(work, ino) || work.fs.attr(ino.into()).is_ok();
    work.model.exists(ino) && is_readable
}

fn path(work: &Work<'_>, pino: u32, name: &[u8]) -> Vec<u8> {
    joined(work.paths.get(&pino.into()).map_or(&[][..], Vec::as_slice), name)
}

fn put(work: &mut Work<'_>, pino: u32, name: &[u8], ino: u32, file_type: u8) {
    let version = work.model.next_version(pino);
    let entry = Dirent { pino, version, ino, mctime: 0, file_type, name };
    let mut bytes = Vec::new();
    encode::dirent(work.model.shape.order, &entry, &mut bytes);
    work.nodes.push(bytes);
}

/// Writes the deletion of a name.
fn remove(
    work: &mut Work<'_>,
    (pino, name): (u32, &[u8]),
    ino: u32,
    code: &'static str,
    why: String,
) {
    let loss = Loss { path: Some(path(work, pino, name)), ino, part: Part::Name };
    let at = Location::Inode(pino.into());
    work.plan.push(Action::new(Level::Drop, code, "", at, "remove", why).losing(loss));
    put(work, pino, name, 0, 0);
}

/// Replaces a name that Linux does not allow.
fn rename(work: &mut Work<'_>, pino: u32, name: &[u8], entry: &Entry) {
    let new = free_name(work, pino, entry.ino);
    let why = format!("`{}` cannot be a name: it becomes `{}`", shown(name), shown(&new));
    let at = Location::Inode(pino.into());
    work.plan.push(Action::new(Level::Safe, "name-not-allowed", "", at, "set", why));
    put(work, pino, &new, entry.ino, entry.file_type);
    put(work, pino, name, 0, 0);
}

/// Returns a name for an inode that is not used in a directory.
fn free_name(work: &Work<'_>, pino: u32, ino: u32) -> Vec<u8> {
    let named = |number: u32| format!("INO_{ino}_{number}").into_bytes();
    let is_free = |name: &Vec<u8>| {
        let known = work.model.entries.get(&(pino, name.clone()));
        known.is_none_or(|entry| entry.ino == 0)
    };
    (0..u32::MAX).map(named).find(is_free).unwrap_or_default()
}

/// Writes again the entries of which only a summary is left. It has a checksum, and repeats all of an entry
/// but its time. An older entry of the name is what readers show until then.
fn listed_names(work: &mut Work<'_>) {
    for ((pino, name), entry) in std::mem::take(&mut work.model.listed) {
        let is_there = entry.ino == 0 || work.model.exists(entry.ino);
        if !is_there || !work.model.exists(pino) {
            continue;
        }
        let what = if entry.ino == 0 { "the deletion of this name" } else { "this name" };
        let why = format!("`{}`: only the summary of its block still has {what}", shown(&name));
        let at = Location::Inode(pino.into());
        let mut action = Action::new(Level::Safe, "name-lost", "", at, "add", why);
        let older = work.model.entries.get(&(pino, name.clone())).map(|older| older.ino);
        if let Some(ino) = older.filter(|ino| *ino != 0 && *ino != entry.ino) {
            action.level = Level::Drop;
            let path = Some(path(work, pino, &name));
            action = action.losing(Loss { path, ino, part: Part::Name });
        }
        work.plan.push(action);
        put(work, pino, &name, entry.ino, entry.file_type);
        work.model.entries.insert((pino, name), entry);
    }
}

/// Names inodes in `lost+found`: Linux would erase them at the next mount.
fn lost_names(work: &mut Work<'_>) {
    let order = work.model.shape.order;
    let named: BTreeSet<u32> = work.model.entries.values().map(|entry| entry.ino).collect();
    let is_entry = |kind: Option<NodeKind>| kind == Some(NodeKind::Dirent);
    let torn: BTreeSet<u32> = work
        .model
        .bad
        .iter()
        .filter(|bad| is_entry(bad.kind) && bad.bytes.len() > DIRENT_LEN as usize)
        .map(|bad| order.u32_at(&bad.bytes, 20))
        .collect();
    let lost: Vec<(u32, Inode)> = torn
        .into_iter()
        .filter(|ino| *ino != ROOT_INO && !named.contains(ino))
        .filter_map(|ino| Some((ino, work.model.objects.get(&ino)?.newest?)))
        .collect();
    if lost.is_empty() {
        return;
    }
    let folder = lost_found(work, &lost[0].1);
    for (ino, newest) in lost {
        let name = free_name(work, folder, ino);
        let why = format!(
            "its name was in a damaged node: it becomes lost+found/{}",
            String::from_utf8_lossy(&name)
        );
        let at = Location::Inode(ino.into());
        work.plan.push(Action::new(Level::Safe, "name-lost", "", at, "add", why));
        put(work, folder, &name, ino, (newest.mode >> 12) as u8);
    }
}

/// Returns the inode number of `lost+found`, which is made if there is none.
fn lost_found(work: &mut Work<'_>, like: &Inode) -> u32 {
    let known = work.model.entries.get(&(ROOT_INO, LOST_FOUND.to_vec())).cloned();
    if let Some(entry) = known.filter(|entry| entry.ino != 0 && entry.file_type == DIRECTORY) {
        return entry.ino;
    }
    let highest = work.model.objects.last_key_value().map_or(ROOT_INO, |(ino, _)| *ino);
    let ino = highest.max(work.fs.info().highest.ino).saturating_add(1);
    let version = work.model.next_version(ino);
    let (atime, mtime, ctime) = (like.atime, like.mtime, like.ctime);
    let node = Inode { ino, version, mode: 0o040_700, atime, mtime, ctime, ..Inode::default() };
    let mut bytes = Vec::new();
    encode::inode(work.model.shape.order, &node, &[], &mut bytes);
    work.nodes.push(bytes);
    let is_taken = work.model.entries.contains_key(&(ROOT_INO, LOST_FOUND.to_vec()));
    let name = if is_taken { free_name(work, ROOT_INO, ino) } else { LOST_FOUND.to_vec() };
    put(work, ROOT_INO, &name, ino, DIRECTORY);
    ino
}
