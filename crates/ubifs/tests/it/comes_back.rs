//! LEBs that were unmapped get their old content back if the power goes off, or the device is
//! closed, before their blocks are erased: a recovery must not rely on their staying empty.

use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{Lebs, StrictLeb, Torn};
use eraseblock_ubifs::UbifsMount;
use eraseblock_vfs::{Caller, FsError, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
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
fn come_back(before: &Lebs, after: Lebs) -> (Lebs, usize) {
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
