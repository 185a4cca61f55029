//! Paths inside an image, with their symbolic links followed there.

use crate::error::{Context, Result};
use crate::text;
use eraseblock_vfs::{FileKind, FileSystem, FsError, FsErrorKind, Ino};

/// Symbolic links followed on the way of one path, as Linux does.
const MOST_LINKS: u32 = 40;

/// The longest path that links may grow to, in bytes.
const MOST_BYTES: usize = 1 << 16;

/// The inode at a path.
pub(crate) fn resolve(fs: &dyn FileSystem, path: &[u8]) -> Result<Ino> {
    follow(fs, path, Last::Follow).context(text::name(path))
}

/// The inode at a path; the last component is not followed if it is a link.
pub(crate) fn resolve_link(fs: &dyn FileSystem, path: &[u8]) -> Result<Ino> {
    follow(fs, path, Last::Keep).context(text::name(path))
}

/// The inode of the directory of a path's last component, and that component.
#[cfg(feature = "edit")]
pub(crate) fn resolve_parent<'p>(fs: &dyn FileSystem, path: &'p [u8]) -> Result<(Ino, &'p [u8])> {
    let trimmed = match path.iter().rposition(|byte| *byte != b'/') {
        Some(last) => &path[..=last],
        None => &[],
    };
    let start = trimmed.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (dir, name) = trimmed.split_at(start);
    if matches!(name, b"" | b"." | b"..") {
        let error = FsError::new(FsErrorKind::Invalid, "the path names no file");
        return Err(error).context(text::name(path));
    }
    Ok((resolve(fs, dir)?, name))
}

/// What is done with a link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Follow,
    Keep,
}

fn follow(fs: &dyn FileSystem, path: &[u8], last: Last) -> Result<Ino, FsError> {
    // Components that are still to come, the next one last.
    let mut rest: Vec<Vec<u8>> = Vec::new();
    push(&mut rest, path);
    // The way down from the root, so that `..` needs no entry of that name.
    let mut way = vec![fs.root()];
    let mut links = 0;
    while let Some(name) = rest.pop() {
        match name.as_slice() {
            b"" | b"." => continue,
            b".." => {
                way.truncate((way.len() - 1).max(1));
                continue;
            }
            _ => {}
        }
        let dir = *way.last().expect("the root stays");
        let ino = fs.lookup(dir, &name)?;
        let is_last = rest.iter().all(Vec::is_empty);
        if is_last && last == Last::Keep || fs.attr(ino)?.kind != FileKind::Symlink {
            way.push(ino);
            continue;
        }
        links += 1;
        let target = fs.read_link(ino)?;
        let length: usize = rest.iter().map(|name| name.len() + 1).sum();
        if links > MOST_LINKS || target.len() + length > MOST_BYTES {
            let message = "too many symbolic links";
            return Err(FsError::new(FsErrorKind::TooManySymlinks, message));
        }
        if target.starts_with(b"/") {
            way.truncate(1);
        }
        push(&mut rest, &target);
    }
    Ok(*way.last().expect("the root stays"))
}

fn push(rest: &mut Vec<Vec<u8>>, path: &[u8]) {
    rest.extend(path.rsplit(|byte| *byte == b'/').map(<[u8]>::to_vec));
}
