//! Power cuts in one commit after the other: each leaves a commit start in the log, until the log is
//! full and a mount rewrites it.

use crate::comes_back::come_back;
use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_ubifs::{OpenOptions, Ubifs, UbifsMount};
use eraseblock_vfs::{Caller, FileSystem, Timestamp, WritableFileSystem};
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
const FILES: u8 = 12;

/// Returns a volume whose journal has several LEBs.
fn start() -> Arc<StrictLeb> {
    let volume = empty(64);
    let fs = mount(&volume).unwrap();
    for number in 0..FILES {
        let ino = fs.create(1, &[b'a' + number], &file(), NOW).unwrap();
        fs.write(ino, 0, &[number; 9000], NOW).unwrap();
        fs.sync_file(ino).unwrap();
    }
    drop(fs);
    copy(&volume)
}

fn copy(volume: &StrictLeb) -> Arc<StrictLeb> {
    Arc::new(volume.with(volume.lebs()))
}

/// Returns the number of the last commit.
fn commit(volume: &Arc<StrictLeb>) -> u64 {
    let (fs, _) = Ubifs::open(copy(volume) as _, &OpenOptions { strict: true }).unwrap();
    fs.master().unwrap().cmt_no
}

/// Returns the number of LEBs in which the log has something.
fn log_lebs_in_use(volume: &Arc<StrictLeb>) -> u32 {
    let (fs, _) = Ubifs::open(copy(volume) as _, &OpenOptions { strict: true }).unwrap();
    let lebs = volume.lebs();
    let log = 3..=fs.superblock().log_last();
    log.filter(|leb| lebs[*leb as usize].as_ref().is_some_and(|leb| !leb.is_empty())).count() as u32
}

/// Returns the volume after a mount that was cut just before its commit was complete.
fn with_a_failed_commit(volume: &Arc<StrictLeb>) -> Arc<StrictLeb> {
    let mut last = copy(volume);
    for cut in 0.. {
        let next = copy(volume);
        next.cut_after(cut, Torn::Before);
        let is_whole = mount(&next).is_ok();
        let next = copy(&next);
        if is_whole || commit(&next) != commit(volume) {
            break;
        }
        last = next;
    }
    last
}

/// Fails if the content of a file is not its number plus `change`.
fn compare(fs: &UbifsMount, change: u8) -> Result<(), String> {
    for number in 0..FILES {
        let mut back = [0; 9001];
        let read = fs.lookup(1, &[b'a' + number]).and_then(|ino| fs.read(ino, 0, &mut back));
        let len = read.map_err(|error| error.to_string())?;
        if len != 9000 || back[..9000] != [number + change; 9000] {
            return Err(format!("file {number} has other content, {change} expected"));
        }
    }
    Ok(())
}

/// Fails if a mount, or one after changes and another cut, finds something else than was written.
fn judge(volume: &Arc<StrictLeb>) -> Result<(), String> {
    let fs = mount(volume)?;
    compare(&fs, 0)?;
    checked(&fs)?;
    for change in 100..104 {
        for number in 0..FILES {
            let ino = fs.lookup(1, &[b'a' + number]).map_err(|error| error.to_string())?;
            let done = fs.write(ino, 0, &[number + change; 9000], NOW);
            done.and_then(|()| fs.sync_file(ino)).map_err(|error| error.to_string())?;
        }
        let again = mount(&copy(volume))?;
        compare(&again, change)?;
        checked(&again)?;
    }
    Ok(())
}

/// A cut while the LEBs after the rewritten log were unmapped, the first one first, left some after an
/// empty one, and those that were unmapped could come back. The next mount did not find them. Another
/// cut, in the commit start before them, made a volume that was refused.
#[test]
fn a_full_log_is_rewritten_and_survives_cuts() {
    let mut volume = start();
    let log_lebs = {
        let (fs, _) = Ubifs::open(copy(&volume) as _, &OpenOptions::default()).unwrap();
        fs.superblock().log_lebs
    };
    let mut used = Vec::new();
    let mut rewritten = 0;
    for number in 0..3 * log_lebs {
        let next = with_a_failed_commit(&volume);
        used.push(log_lebs_in_use(&next));
        if used.ends_with(&[log_lebs]) {
            rewritten += 1;
            'cuts: for cut in 0.. {
                for torn in [Torn::Before, Torn::Half, Torn::Garbage, Torn::After] {
                    let cut_again = copy(&next);
                    cut_again.cut_after(cut, torn);
                    let is_whole = mount(&cut_again).is_ok();
                    let (back, _) = come_back(&next.lebs(), cut_again.lebs());
                    for lebs in [cut_again.lebs(), back] {
                        if let Err(why) = judge(&Arc::new(volume.with(lebs))) {
                            panic!("commit {number}, {torn:?} operation {cut}: {why}");
                        }
                    }
                    if is_whole {
                        break 'cuts;
                    }
                }
            }
        }
        volume = next;
    }
    // Rewritten, it has space for the next commits.
    let is_full = |pair: &[u32]| pair[0] == log_lebs;
    let freed = used.windows(2).filter(|pair| is_full(pair)).all(|pair| pair[1] == 2);
    assert!(rewritten > 1 && freed, "{used:?} of {log_lebs} LEBs in use");
}
