//! LEBs that were unmapped get their old content back if the power goes off, or the device is
//! closed, before their blocks are erased: a recovery must not rely on their staying empty.

use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{Lebs, StrictLeb, Torn};
use eraseblock_ubifs::UbifsMount;
use eraseblock_ubifs::mkfs::{self, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{Caller, FsError, SourceTree, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::collections::BTreeMap;
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// Opens one LEB of the journal after the other.
fn write(fs: &UbifsMount, what: &str) -> Result<(), FsError> {
    for number in 0..24_u64 {
        let ino = fs.create(1, format!("{what} {number}").as_bytes(), &file(), NOW)?;
        fs.write(ino, 0, &data_of(number, 0, 3000, Texture::Random), NOW)?;
        fs.sync_file(ino)?;
    }
    Ok(())
}

/// Returns the state when everything that was unmapped since comes back.
pub(crate) fn come_back(before: &Lebs, after: Lebs) -> (Lebs, usize) {
    let mut count = 0;
    let lebs = before.iter().zip(after).map(|(old, new)| {
        count += usize::from(new.is_none() && old.is_some());
        new.or_else(|| old.clone())
    });
    let lebs = lebs.collect();
    (lebs, count)
}

#[test]
fn what_a_recovery_unmapped_may_come_back() {
    let (mut recovered, mut came_back) = (0, 0);
    for torn in [Torn::Garbage, Torn::Half, Torn::Before] {
        for cut in 0.. {
            let volume = empty(40);
            let fs = mount(&volume).unwrap();
            volume.cut_after(cut, torn);
            let is_done = write(&fs, "before").is_ok();
            drop(fs);
            let before = volume.lebs();
            let judge = || -> Result<usize, String> {
                let volume: Arc<StrictLeb> = Arc::new(volume.with(before.clone()));
                let fs = mount(&volume)?;
                checked(&fs)?;
                fs.unmount().map_err(|error| error.to_string())?;
                let (lebs, count) = come_back(&before, volume.lebs());
                let fs = mount(&Arc::new(volume.with(lebs)))?;
                checked(&fs)?;
                write(&fs, "after").map_err(|error| error.to_string())?;
                checked(&fs)?;
                Ok(count)
            };
            match judge() {
                Ok(count) => came_back += count,
                Err(why) => panic!("cut {torn:?} operation {cut}: {why}"),
            }
            recovered += 1;
            if is_done {
                break;
            }
        }
    }
    assert!(recovered > 150 && came_back > 150, "{recovered} cuts, {came_back} LEBs came back");
}

/// LEBs of the log that commits dropped get their old references back. When the log reaches one of
/// them, these may neither be in the way of new ones nor be replayed.
#[test]
fn what_the_log_dropped_may_come_back() {
    const LOG: std::ops::Range<usize> = 3..9;
    // A LEB of the log has space for 8 references, and a commit comes after 19 LEBs of the journal.
    let volume = StrictLeb::new(16_384, 2048, 2048, 200);
    let mut options = MkfsOptions::new(16_384, 2048, 200);
    (options.layout.journal_bytes, options.layout.log_lebs) = (Some(24 * 16_384), Some(6));
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    let volume = Arc::new(volume);
    let fs = mount(&volume).unwrap();
    let mut dropped = volume.lebs();
    for round in 0.. {
        write(&fs, &format!("before {round}")).unwrap();
        let now = volume.lebs();
        LOG.filter(|leb| now[*leb].is_some()).for_each(|leb| dropped[leb].clone_from(&now[leb]));
        if fs.activity().log_wraps > 1 {
            break;
        }
    }
    drop(fs);
    let mut lebs = volume.lebs();
    let back: Vec<usize> = LOG.filter(|leb| lebs[*leb].is_none()).collect();
    assert!(back.len() > 2, "{back:?} come back");
    for leb in back {
        lebs[leb].clone_from(&dropped[leb]);
    }
    let volume = Arc::new(volume.with(lebs));
    for round in 0..8 {
        let fs = mount(&volume).unwrap();
        checked(&fs).unwrap();
        let commits = fs.activity().commits;
        write(&fs, &format!("after {round}")).unwrap();
        let done = fs.activity();
        assert!(done.commits == commits && done.buds > 8, "{done:?}");
        // The power goes off.
    }
    checked(&mount(&volume).unwrap()).unwrap();
}
