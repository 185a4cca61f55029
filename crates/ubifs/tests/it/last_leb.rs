//! Power cuts on a full volume after the LEB reserved for garbage collection has become its head.

use crate::gaps::{Files, full, judge, mount};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_ubifs::UbifsMount;
use eraseblock_vfs::{Caller, FileSystem, Timestamp, WritableFileSystem};
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
/// Number of cuts after which no LEB was empty.
const WANTED: usize = 2;

/// Writes one more time what a file holds, so that only its place changes.
fn rewrite(fs: &UbifsMount, files: &Files, number: usize) -> bool {
    let (name, content) = &files[number * 7 % files.len()];
    let ino = fs.lookup(1, name).unwrap();
    fs.write(ino, 0, content, NOW).and_then(|()| fs.sync_file(ino)).is_ok()
}

/// Returns how many cuts of one rewrite left no empty LEB, all of which the next mount must survive.
fn cut_everywhere(start: &StrictLeb, files: &Files, number: usize) -> usize {
    let mut found = 0;
    for cut in 0.. {
        let volume = Arc::new(start.with(start.lebs()));
        let fs = mount(&volume).unwrap();
        volume.cut_after(cut, Torn::Before);
        let is_done = rewrite(&fs, files, number);
        drop(fs);
        let after = Arc::new(volume.with(volume.lebs()));
        let fs = mount(&after).unwrap_or_else(|why| panic!("rewrite {number}, cut {cut}: {why}"));
        found += usize::from(fs.activity().leaf_lebs_collected > 0);
        drop(fs);
        judge(&Arc::new(after.with(after.lebs())), files).unwrap();
        if is_done {
            break;
        }
    }
    found
}

/// The mount has no empty LEB for the next collection, and makes one with the space left in the
/// head.
#[test]
fn a_mount_finds_a_leb_for_garbage_collection_if_none_is_empty() {
    let (volume, files) = full();
    let mut found = 0;
    for number in 0..400 {
        let before = volume.with(volume.lebs());
        let fs = mount(&volume).unwrap();
        rewrite(&fs, &files, number);
        let has_collected = fs.activity().leaf_lebs_collected > 0;
        drop(fs);
        if has_collected {
            found += cut_everywhere(&before, &files, number);
        }
        if found >= WANTED {
            return;
        }
    }
    panic!("{found} cuts left no empty LEB");
}
