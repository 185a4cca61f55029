//! Ways to fill a file system until no space is left, and to empty it again: deleting must free
//! space for the same data once more.

use crate::ops::{Texture, data_of};
use eraseblock_vfs::Caller;
use eraseblock_vfs::attr::{FileKind, Timestamp};
use eraseblock_vfs::error::{FsError, FsErrorKind};
use eraseblock_vfs::fs::Ino;
use eraseblock_vfs::write::{
    NewInode, NewKind, RenameMode, SetAttr, WritableFileSystem, XattrMode,
};

/// Performs step `number`, counted from 0, of a way to fill a file system.
pub type Fill = fn(&dyn WritableFileSystem, u64, &Caller) -> Result<(), FsError>;

/// Number of steps after which a file system that is not full is considered never to become full.
const STEPS: u64 = 100_000;

/// The owner of the medium, always at the same time.
pub const OWNER: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// Ways that every writable file system supports, with their names. All create names in the root
/// directory.
pub const WAYS: [(&str, Fill); 9] = [
    ("one file", |fs, number, by| {
        fs.write(shared(fs, by)?, number * 8192, &random(number, 8192), by)
    }),
    ("small files", |fs, number, by| {
        let ino = make(fs, &name(number), NewKind::Regular, by)?;
        fs.write(ino, 0, &random(number, 700), by)
    }),
    ("directories", |fs, number, by| make(fs, &name(number), NewKind::Directory, by).map(drop)),
    ("symbolic links", |fs, number, by| {
        make(fs, &name(number), NewKind::Symlink(&[b'x'; 250]), by).map(drop)
    }),
    ("hard links", |fs, number, by| {
        fs.link(shared(fs, by)?, fs.root(), &[&name(number)[..], &[b'l'; 240]].concat(), by)
    }),
    ("attributes", |fs, number, by| {
        let ino = make(fs, &name(number), NewKind::Regular, by)?;
        fs.set_xattr(ino, b"user.a", &random(number, 1500), XattrMode::Either, by)
    }),
    ("renames", |fs, number, by| {
        let (from, to) = (name(number), [&name(number)[..], &[b'r'; 200]].concat());
        let made = make(fs, &from, NewKind::Regular, by)?;
        fs.write(made, 0, &random(number, 300), by)?;
        fs.rename((fs.root(), &from), (fs.root(), &to), RenameMode::Replace, by)
    }),
    ("pieces in the middle", |fs, number, by| {
        let ino = shared(fs, by)?;
        fs.write(ino, number * 5000, &random(number, 1000), by)?;
        fs.sync_file(ino)
    }),
    ("cut and grown", |fs, number, by| {
        let ino = make(fs, &name(number), NewKind::Regular, by)?;
        fs.write(ino, 0, &random(number, 9000), by)?;
        fs.set_attr(ino, &SetAttr { size: Some(5000), ..SetAttr::default() }, by)?;
        fs.set_attr(ino, &SetAttr { size: Some(20_000), ..SetAttr::default() }, by)
    }),
];

/// Performs steps until no space is left; returns how many succeeded.
///
/// # Errors
///
/// Fails with a description at any other error, or if the file system never becomes full.
pub fn fill(fs: &dyn WritableFileSystem, by: &Caller, step: Fill) -> Result<u64, String> {
    for number in 0..STEPS {
        match step(fs, number, by) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::NoSpace => return Ok(number),
            Err(error) => return Err(format!("step {number}: {error}")),
        }
    }
    Err("never full".to_owned())
}

/// Writes a new file of `len` bytes at once, as far as there is space, and checks the result;
/// returns the number of bytes written.
///
/// # Errors
///
/// Fails with a description if the write or its result is wrong.
pub fn fill_at_once(fs: &dyn WritableFileSystem, len: u32) -> Result<usize, String> {
    let message = |error: FsError| error.to_string();
    let data = random(0, len);
    let ino = shared(fs, OWNER).map_err(message)?;
    let done = fs.write_some(ino, 0, &data, OWNER).map_err(message)?;
    let size = fs.attr(ino).map_err(message)?.size;
    if size != done as u64 {
        return Err(format!("{done} bytes are said to be written, the file has {size}"));
    }
    let mut found = vec![0; done];
    fs.read(ino, 0, &mut found).map_err(message)?;
    if found != data[..done] {
        return Err("the content is not what was written".to_owned());
    }
    match fs.write_some(ino, size, &data[done..], OWNER) {
        Err(error) if error.kind() == FsErrorKind::NoSpace => Ok(done),
        Err(error) => Err(message(error)),
        Ok(more) => Err(format!("{more} bytes more fit after all")),
    }
}

/// Removes everything in the root directory, whose directories must be empty.
///
/// # Errors
///
/// Fails with a description if an entry cannot be removed.
pub fn clear(fs: &dyn WritableFileSystem, by: &Caller) -> Result<(), String> {
    let refused = |error: FsError| format!("deletion was refused: {error}");
    for entry in fs.entries(fs.root()).map_err(refused)? {
        let removed = match entry.kind {
            FileKind::Directory => fs.remove_dir(fs.root(), &entry.name, by),
            _ => fs.unlink(fs.root(), &entry.name, by),
        };
        removed.map_err(refused)?;
    }
    Ok(())
}

fn name(number: u64) -> Vec<u8> {
    format!("{number:06}").into_bytes()
}

fn random(number: u64, len: u32) -> Vec<u8> {
    data_of(number, 0, len, Texture::Random)
}

fn make(
    fs: &dyn WritableFileSystem,
    name: &[u8],
    kind: NewKind<'_>,
    by: &Caller,
) -> Result<Ino, FsError> {
    fs.create(fs.root(), name, &NewInode { kind, permissions: 0o755, uid: 0, gid: 0 }, by)
}

/// Returns the file that many steps use.
fn shared(fs: &dyn WritableFileSystem, by: &Caller) -> Result<Ino, FsError> {
    match fs.lookup(fs.root(), b"shared") {
        Err(error) if error.kind() == FsErrorKind::NotFound => {
            make(fs, b"shared", NewKind::Regular, by)
        }
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelFs;
    use eraseblock_vfs::fs::FileSystem;

    #[test]
    fn every_way_can_be_gone_again_after_everything_is_removed() {
        for (way, step) in WAYS {
            let fs = ModelFs::default();
            for _ in 0..2 {
                for number in 0..5 {
                    step(&fs, number, OWNER)
                        .unwrap_or_else(|error| panic!("{way}, {number}: {error}"));
                }
                assert!(!fs.entries(fs.root()).unwrap().is_empty(), "{way}");
                clear(&fs, OWNER).unwrap();
                assert!(fs.entries(fs.root()).unwrap().is_empty(), "{way}");
            }
        }
    }

    #[test]
    fn what_is_never_full_and_what_is_refused_are_told() {
        let fs = ModelFs::default();
        assert_eq!(fill(&fs, OWNER, |_, _, _| Ok(())), Err("never full".to_owned()));
        let full = |_: &dyn WritableFileSystem, number, _: &Caller| match number {
            7 => Err(FsError::new(FsErrorKind::NoSpace, "full")),
            _ => Ok(()),
        };
        assert_eq!(fill(&fs, OWNER, full), Ok(7));
        let broken = |_: &dyn WritableFileSystem, _, _: &Caller| {
            Err(FsError::new(FsErrorKind::Io, "broken"))
        };
        assert_eq!(fill(&fs, OWNER, broken), Err("step 0: broken".to_owned()));
    }
}
