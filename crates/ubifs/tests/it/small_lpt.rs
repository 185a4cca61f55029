//! An LPT of the small model, part of which does not change for long.

use crate::rw::{checked, file, mount};
use crate::strict_leb::StrictLeb;
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{Caller, SourceTree, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
/// More than the LEBs of the first leaf, of 15,872 bytes each.
const STILL: u32 = 8 * 15_872;

/// When space runs short, a commit moves all leaves. It left the first one where it was, if that had
/// not changed: its LEB stayed in use, until there was none for the next commit.
#[test]
fn a_leaf_that_never_changes_moves_with_the_others() {
    let volume = StrictLeb::new(15_872, 512, 512, 64);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let options = MkfsOptions::new(15_872, 512, 64);
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    let fs = mount(&Arc::new(volume)).unwrap();
    let still = fs.create(1, b"still", &file(), NOW).unwrap();
    fs.write(still, 0, &data_of(1, 0, STILL, Texture::Random), NOW).unwrap();
    let moving = fs.create(1, b"moving", &file(), NOW).unwrap();
    for number in 0..300_u32 {
        let content = data_of(number.into(), 0, 3000, Texture::Random);
        fs.write(moving, 0, &content, NOW).unwrap();
        fs.sync().unwrap_or_else(|error| panic!("commit {number}: {error}"));
    }
    checked(&fs).unwrap();
}
