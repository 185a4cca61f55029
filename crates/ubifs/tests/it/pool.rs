//! The reserved pool: space for its owner, its group and root.

use crate::rw::{checked, file, mount};
use crate::strict_leb::StrictLeb;
use eraseblock_ubifs::UbifsMount;
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_vfs::{
    Caller, FileSystem, FsError, FsErrorKind, SourceKind, SourceNode, SourceTree, Timestamp,
    WritableFileSystem,
};
use eraseblock_vfs_testkit::fill::{self, WAYS, clear, fill};
use std::collections::BTreeMap;
use std::sync::Arc;

const POOL: u64 = 300_000;
const OWNER: u32 = 7;
const GROUP: u32 = 8;
const STRANGER: Caller = Caller { uid: 1000, gid: 1000, now: Timestamp::from_seconds(1_000_000) };

/// Returns a volume with a pool for this user and group.
fn volume(uid: u32, gid: u32) -> Arc<StrictLeb> {
    let volume = StrictLeb::new(15_872, 512, 2048, 96);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut options = MkfsOptions::new(15_872, 512, 96);
    options.layout.reserved = POOL;
    (options.reserved_uid, options.reserved_gid) = (uid, gid);
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    Arc::new(volume)
}

/// Writes a small file on behalf of a user.
fn write(fs: &UbifsMount, by: Caller, name: &str) -> Result<(), FsError> {
    let ino = fs.create(1, name.as_bytes(), &file(), &by)?;
    fs.write(ino, 0, &[1; 4096], &by)
}

fn is_full(result: Result<(), FsError>) -> bool {
    result.is_err_and(|error| error.kind() == FsErrorKind::NoSpace)
}

#[test]
fn the_pool_is_for_its_owner_its_group_and_the_superuser() {
    let volume = volume(OWNER, GROUP);
    let fs = mount(&volume).unwrap();
    let (_, step) = WAYS[1];
    let written = fill(&fs, &STRANGER, step).unwrap();
    fs.sync().unwrap();
    assert!(is_full(write(&fs, STRANGER, "a stranger's")));
    let left = fs.stat_fs().unwrap();
    let kept = left.blocks_free * u64::from(left.block_size);
    assert!(kept > POOL / 2 && left.blocks_available < 16, "{left:?}");
    let (root, owner) = (Caller { uid: 0, ..STRANGER }, Caller { uid: OWNER, ..STRANGER });
    let member = Caller { gid: GROUP, ..STRANGER };
    for (name, caller) in [("root's", root), ("its owner's", owner), ("a member's", member)] {
        write(&fs, caller, name).unwrap();
    }
    // A user without access to the pool can still delete, and use the freed space.
    clear(&fs, &STRANGER).unwrap();
    let again = fill(&fs, &STRANGER, step).unwrap();
    assert!(again * 10 >= written * 9, "{again} files, {written} at first");
    checked(&fs).unwrap();
    // The owner of the medium has all of it.
    let more = fill(&fs, fill::OWNER, |fs, number, by| {
        let ino = fs.create(1, format!("more {number}").as_bytes(), &file(), by)?;
        fs.write(ino, 0, &[2; 4096], by)
    });
    assert!(more.unwrap() > 0);
    checked(&fs).unwrap();
    fs.unmount().unwrap();
}

#[test]
fn no_pool_is_for_the_group_of_the_superuser() {
    let volume = volume(0, 0);
    let fs = mount(&volume).unwrap();
    fill(&fs, &STRANGER, WAYS[1].1).unwrap();
    assert!(is_full(write(&fs, Caller { gid: 0, ..STRANGER }, "a stranger's")));
    write(&fs, Caller { uid: 0, gid: 0, ..STRANGER }, "root's").unwrap();
}
