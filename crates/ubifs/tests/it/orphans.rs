//! Files without a name that were open when the power went off, and cuts in the mounts after it.

use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_vfs::{Timestamp, WritableFileSystem, XattrMode};
use std::sync::Arc;

const NOW: Timestamp = Timestamp::from_seconds(1_000_000);

/// Committed, with LEBs in which nothing is needed but the inode of a file without a name and the
/// entries of its attributes.
fn alone() -> Arc<StrictLeb> {
    let volume = empty(40);
    let fs = mount(&volume).unwrap();
    let ino = fs.create(1, b"gone", &file(), NOW).unwrap();
    fs.open(ino).unwrap();
    let fill = |what: &str, count: u32| {
        for number in 0..count {
            let name = format!("{what} {number}");
            fs.create(1, name.as_bytes(), &file(), NOW).unwrap();
        }
        for number in 0..count {
            fs.unlink(1, format!("{what} {number}").as_bytes(), NOW).unwrap();
        }
    };
    for number in 0..3_u8 {
        fill(&format!("{number}"), 60);
        let name = [b"user.", &[b'a' + number][..]].concat();
        fs.set_xattr(ino, &name, &[number; 100], XattrMode::Create, NOW).unwrap();
    }
    fill("before", 60);
    fs.unlink(1, b"gone", NOW).unwrap();
    fill("after", 60);
    fs.sync().unwrap();
    drop(fs);
    volume
}

#[test]
fn a_mount_that_is_cut_leaves_what_the_next_must_read_of_orphans() {
    let start = alone();
    let mut cuts = 0;
    'cuts: for cut in 0.. {
        for torn in [Torn::Before, Torn::Half, Torn::Garbage, Torn::After] {
            let volume = Arc::new(start.with(start.lebs()));
            volume.cut_after(cut, torn);
            let is_whole = mount(&volume).is_ok();
            let after = Arc::new(volume.with(volume.lebs()));
            let judged = mount(&after).and_then(|fs| checked(&fs));
            judged.unwrap_or_else(|why| panic!("cut {torn:?} operation {cut}: {why}"));
            cuts += 1;
            if is_whole {
                break 'cuts;
            }
        }
    }
    assert!(cuts > 20, "{cuts} cuts");
}
