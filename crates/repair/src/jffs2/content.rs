//! Files: what damaged nodes held becomes a hole, with the newest attributes that are left.

use super::Work;
use crate::plan::{Action, Level, Loss, Part};
use eraseblock_base::Location;
use eraseblock_jffs2::DamagedPart;
use eraseblock_jffs2_format::constants::compression;
use eraseblock_jffs2_format::{Inode, encode};
use eraseblock_vfs::{FileKind, FileSystem, Ino};

/// Type and permissions of a directory whose own are lost.
const FOLDER: u32 = 0o040_755;

/// Puts right the content and the attributes of every inode that has a name.
pub(super) fn repair(work: &mut Work<'_>) {
    let inodes: Vec<(Ino, Vec<u8>)> =
        work.paths.iter().map(|(ino, path)| (*ino, path.clone())).collect();
    for (ino, path) in inodes {
        let Ok(attr) = work.fs.attr(ino) else { continue };
        match attr.kind {
            FileKind::Regular => file(work, ino, &path),
            FileKind::Directory => folder(work, ino, &path),
            _ => {}
        }
    }
}

fn file(work: &mut Work<'_>, ino: Ino, path: &[u8]) {
    let number = u32::try_from(ino).unwrap_or(0);
    let Some(object) = work.model.objects.get(&number).cloned() else { return };
    let Some(newest) = object.newest.or(object.broken) else { return };
    appended(work, &newest, object.broken.as_ref(), path);
    let parts = work.fs.damaged_parts(ino, newest.isize).unwrap_or_default();
    // An older node holds what a torn one was going to replace.
    for part in parts.iter().filter(|part| part.is_lost || !part.is_torn) {
        hole(work, &newest, *part, path);
    }
}

/// Names what was written after the end of the file, if that is damaged.
fn appended(work: &mut Work<'_>, newest: &Inode, broken: Option<&Inode>, path: &[u8]) {
    let Some(broken) = broken.filter(|broken| broken.version > newest.version) else { return };
    let end = broken.offset.saturating_add(broken.dsize);
    let from = broken.offset.max(newest.isize);
    if from >= end
        || work.fs.damaged_parts(newest.ino.into(), end).is_ok_and(|parts| all_torn(&parts))
    {
        return;
    }
    let why = format!("bytes {from} to {} were appended, and are damaged", end - 1);
    let part = Part::Content { from: from.into(), to: end.into() };
    let action = Action::new(Level::Drop, "node-damaged", "", at(newest.ino), "remove", why);
    work.plan.push(action.losing(Loss { path: Some(path.to_vec()), ino: newest.ino, part }));
}

fn all_torn(parts: &[DamagedPart]) -> bool {
    parts.iter().all(|part| part.is_torn)
}

fn hole(work: &mut Work<'_>, newest: &Inode, part: DamagedPart, path: &[u8]) {
    let version = work.model.next_version(newest.ino);
    let node = Inode {
        version,
        offset: part.start,
        dsize: part.end - part.start,
        compression: compression::ZERO,
        requested: 0,
        ..*newest
    };
    let mut bytes = Vec::new();
    encode::inode(work.model.shape.order, &node, &[], &mut bytes);
    work.nodes.push(bytes);
    let reason =
        if part.is_lost { "no other node holds them" } else { "an older node holds other content" };
    let why = format!("bytes {} to {} are damaged, {reason}: a hole", part.start, part.end - 1);
    let lost = Part::Content { from: part.start.into(), to: part.end.into() };
    let action = Action::new(Level::Drop, "data-lost", "", at(newest.ino), "remove", why);
    work.plan.push(action.losing(Loss { path: Some(path.to_vec()), ino: newest.ino, part: lost }));
}

/// A directory without a node of its own gets one.
fn folder(work: &mut Work<'_>, ino: Ino, path: &[u8]) {
    let number = u32::try_from(ino).unwrap_or(0);
    let object = work.model.objects.get(&number).cloned().unwrap_or_default();
    let is_lost = object.newest.is_none() && (object.broken.is_some() || ino != work.fs.root());
    if !is_lost {
        return;
    }
    let version = work.model.next_version(number);
    let known = object.broken.unwrap_or(Inode { mode: FOLDER, ..Inode::default() });
    let node =
        Inode { ino: number, version, csize: 0, dsize: 0, offset: 0, compression: 0, ..known };
    let mut bytes = Vec::new();
    encode::inode(work.model.shape.order, &node, &[], &mut bytes);
    work.nodes.push(bytes);
    let why = "a directory without a node: it gets mode 0755 and owner 0";
    let action = Action::new(Level::Drop, "attributes-lost", "", at(number), "add", why);
    let part = Part::Attributes;
    work.plan.push(action.losing(Loss { path: Some(path.to_vec()), ino: number, part }));
}

fn at(ino: u32) -> Location {
    Location::Inode(ino.into())
}
