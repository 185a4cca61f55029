//! Commits that find no empty LEB for the index and write it into the gaps of its own LEBs.

use crate::rw::{checked, empty, file};
use crate::strict_leb::{StrictLeb, Torn};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_vfs::{Caller, FileSystem, FsErrorKind, Timestamp, WritableFileSystem};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
/// Names and contents.
pub(crate) type Files = Vec<(Vec<u8>, Vec<u8>)>;
/// Number of commits to examine.
const WANTED: usize = 3;

pub(crate) fn mount(volume: &Arc<StrictLeb>) -> Result<UbifsMount, String> {
    let mounted = UbifsMount::mount(Arc::clone(volume) as _, MountOptions::default());
    mounted.map(|(fs, _)| fs).map_err(|error| error.to_string())
}

/// Returns a volume full of small files, and their contents.
pub(crate) fn full() -> (Arc<StrictLeb>, Files) {
    let volume = empty(30);
    let fs = mount(&volume).unwrap();
    let mut files = Vec::new();
    for number in 0_u64.. {
        let name = format!("{number:05}").into_bytes();
        let content = data_of(number, 0, 40, Texture::Random);
        let made = fs.create(1, &name, &file(), NOW);
        let written = made.and_then(|ino| fs.write(ino, 0, &content, NOW));
        match written.and_then(|()| if number % 50 == 0 { fs.sync() } else { Ok(()) }) {
            Ok(()) => files.push((name, content)),
            Err(error) if error.kind() == FsErrorKind::NoSpace => break,
            Err(error) => panic!("{error}"),
        }
    }
    let _ = fs.unlink(1, format!("{:05}", files.len()).as_bytes(), NOW);
    fs.unmount().unwrap();
    (volume, files)
}

/// Works until some commits have filled gaps. Returns the flash before each of them.
fn gap_commits(volume: &Arc<StrictLeb>, files: &Files) -> Vec<Arc<StrictLeb>> {
    let fs = mount(volume).unwrap();
    let mut found = Vec::new();
    for (turn, (name, content)) in files.iter().cycle().step_by(7).enumerate() {
        let ino = fs.lookup(1, name).unwrap();
        // The same content again, so that only its place changes.
        match fs.write(ino, 0, content, NOW).and_then(|()| fs.sync_file(ino)) {
            Ok(()) => {}
            Err(error) if error.kind() == FsErrorKind::NoSpace => {}
            Err(error) => panic!("{turn}: {error}"),
        }
        if turn % 5 != 4 {
            continue;
        }
        let before = Arc::new(volume.with(volume.lebs()));
        let gaps = fs.activity().gaps_filled;
        fs.sync().unwrap();
        if fs.activity().gaps_filled > gaps {
            found.push(before);
        }
        if found.len() == WANTED || turn > 4000 {
            break;
        }
    }
    found
}

/// Returns the problem with a volume after a cut, if any.
pub(crate) fn judge(volume: &Arc<StrictLeb>, files: &Files) -> Result<(), String> {
    let fs = mount(volume)?;
    checked(&fs)?;
    for (name, content) in files {
        let mut back = vec![0; content.len() + 1];
        let ino = fs.lookup(1, name).map_err(|error| error.to_string())?;
        let len = fs.read(ino, 0, &mut back).map_err(|error| error.to_string())?;
        if back[..len] != content[..] {
            return Err(format!("{}: other content", String::from_utf8_lossy(name)));
        }
    }
    Ok(())
}

/// Cuts the first commit after a mount of each volume at every operation.
fn cut_everywhere(commits: &[Arc<StrictLeb>], files: &Files) -> (u64, Result<(), String>) {
    let mut gaps = 0;
    for before in commits {
        for (cut, torn) in (0..).flat_map(|cut| [(cut, Torn::Before), (cut, Torn::After)]) {
            let volume = Arc::new(before.with(before.lebs()));
            let fs = mount(&volume).unwrap();
            let (name, content) = &files[files.len() / 2];
            let ino = fs.lookup(1, name).unwrap();
            let _ = fs.write(ino, 0, content, NOW);
            let before_commit = fs.activity().gaps_filled;
            volume.cut_after(cut, torn);
            let is_done = fs.sync().is_ok();
            gaps += fs.activity().gaps_filled - before_commit;
            drop(fs);
            let after = Arc::new(volume.with(volume.lebs()));
            if let Err(why) = judge(&after, files) {
                return (gaps, Err(format!("cut {torn:?} operation {cut}: {why}")));
            }
            if is_done {
                break;
            }
        }
    }
    (gaps, Ok(()))
}

#[test]
fn an_index_that_goes_into_gaps_survives_cuts() {
    let (volume, files) = full();
    let commits = gap_commits(&volume, &files);
    assert_eq!(commits.len(), WANTED, "commits that filled gaps");
    judge(&Arc::new(volume.with(volume.lebs())), &files).unwrap();
    let (gaps, survived) = cut_everywhere(&commits, &files);
    survived.unwrap();
    assert!(gaps > 0, "a cut commit has filled gaps");
}

/// A commit that was cut may leave more index nodes in a LEB with gaps than the committed
/// properties state, but nothing else, and nothing after the index head.
#[test]
fn nodes_may_follow_in_an_index_leb_with_gaps() {
    let (volume, files) = full();
    let _ = gap_commits(&volume, &files);
    let lebs = volume.lebs();
    let master = lebs[1].as_ref().unwrap().chunks(512).rfind(|slot| slot[20] == 7).unwrap();
    let head = u32::from_le_bytes(master[64..68].try_into().unwrap()) as usize;
    let is_index = |leb: &Arc<Vec<u8>>| leb.len() < 15_872 && leb.get(20) == Some(&9);
    let is_short = |number: &usize| lebs[*number].as_ref().is_some_and(is_index);
    let short: Vec<usize> = (0..lebs.len()).filter(is_short).collect();
    assert!(!short.is_empty());
    for number in short {
        let first = &lebs[number].as_ref().unwrap()[..1024];
        let len = u32::from_le_bytes(first[16..20].try_into().unwrap()) as usize;
        for (tail, is_right) in [(&first[..len], number != head), (&[0xA5; 300], false)] {
            let mut lebs = lebs.clone();
            Arc::make_mut(lebs[number].as_mut().unwrap()).extend_from_slice(tail);
            let options = MountOptions { read_only: true, ..MountOptions::default() };
            let mounted = UbifsMount::mount(Arc::new(volume.with(lebs)) as _, options);
            let found = checked(&mounted.unwrap().0);
            assert_eq!(found.is_ok(), is_right, "leb {number}: {found:?}");
        }
    }
}
