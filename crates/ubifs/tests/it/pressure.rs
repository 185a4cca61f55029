//! Freeing space for an operation writes back data of earlier ones, even of the same inode; the
//! change of the operation itself must not be lost.

use crate::rw::{checked, empty, file, mount};
use eraseblock_ubifs::UbifsMount;
use eraseblock_vfs::{Caller, FileSystem, FsError, RenameMode, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::sync::Arc;

const BEFORE: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
const LATER: &Caller = &Caller::owner(Timestamp::from_seconds(2_000_000));

/// Returns a file that grew in memory, next to this many KiB of others.
fn grown(fs: &UbifsMount, kib: usize) -> Result<u64, FsError> {
    let content = data_of(1, 0, 4096, Texture::Random);
    let others = content.iter().copied().cycle().take(1024 * kib).collect::<Vec<u8>>();
    for (number, content) in others.chunks(4096).enumerate() {
        let ino = fs.create(1, format!("{number}").as_bytes(), &file(), BEFORE)?;
        fs.write(ino, 0, content, BEFORE)?;
        fs.sync_file(ino)?;
    }
    let ino = fs.create(1, b"grows", &file(), BEFORE)?;
    for block in 0..3 {
        fs.write(ino, block * 4096, &content, BEFORE)?;
    }
    Ok(ino)
}

/// Returns how often `change` was done, with an increasingly full volume.
fn kept(change: impl Fn(&UbifsMount, u64) -> Result<(), FsError>) -> usize {
    let start = empty(30);
    let mut done = 0;
    for kib in 40.. {
        let volume = Arc::new(start.with(start.lebs()));
        let fs = mount(&volume).unwrap();
        let Ok(ino) = grown(&fs, kib) else { break };
        if change(&fs, ino).is_err() {
            continue;
        }
        let before = fs.attr(ino).unwrap();
        fs.unmount().unwrap();
        let fs = mount(&volume).unwrap();
        assert_eq!(fs.attr(ino).unwrap(), before, "with {kib} KiB");
        checked(&fs).unwrap();
        done += 1;
    }
    done
}

#[test]
fn a_write_that_has_the_file_written_back_keeps_its_times_and_its_size() {
    let content = data_of(2, 0, 4096, Texture::Random);
    for offset in [100, 12_000, 12_288, 20_000] {
        let done = kept(|fs, ino| fs.write(ino, offset, &content, LATER).map(drop));
        assert!(done > 20, "{done} writes at {offset}");
    }
}

#[test]
fn a_rename_that_has_the_file_written_back_keeps_its_time() {
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        let to: &[u8] = if mode == RenameMode::Exchange { b"0" } else { b"moved" };
        let done = kept(|fs, _| fs.rename((1, b"grows"), (1, to), mode, LATER));
        assert!(done > 20, "{done} renames");
    }
}
