//! Versions against the states that a model knows.

use crate::model::{Counts, Known, compare};
use eraseblock_history::History;
use eraseblock_ubifs::Ubifs;
use eraseblock_vfs::{FileSystem, FsErrorKind};
use std::sync::Arc;

/// With ERASEBLOCK_HISTORY=NUMBER, so many volumes instead of twenty.
#[test]
fn proven_versions_are_what_the_files_were() {
    let volumes = std::env::var("ERASEBLOCK_HISTORY").ok().and_then(|text| text.parse().ok());
    let mut all = Counts::default();
    for seed in 0..volumes.unwrap_or(20) {
        let known = Known::new(seed, 30 + 5 * (seed as u32 % 9), 150 + 60 * (seed % 5));
        let counts = compare(&known).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
        all.add(&counts);
    }
    println!("{all:#?}");
    assert!(all.proven > 100 && all.likely > 50 && all.deleted > 50, "{all:?}");
    assert!(all.whole_commits > 12, "{all:?}");
    assert!(all.consistent > 4 && all.consistent_wrong * 1000 <= all.consistent, "{all:?}");
}

#[test]
fn a_past_commit_is_read_as_it_was() {
    let mut whole = 0;
    for seed in 7..11 {
        let known = Known::new(seed, 200, 90);
        let history = History::read(&known.device, &mut |_| {}).unwrap();
        for commit in history.commits().iter().filter(|commit| commit.is_whole()) {
            let number = commit.commit.number;
            let Some(state) = known.commits.get(&number) else { continue };
            let (fs, findings) = Ubifs::open_commit(Arc::clone(&known.device), number).unwrap();
            assert_eq!(findings.iter().count(), 0);
            let mut names = 0;
            for (ino, (content, _)) in state {
                let mut bytes = vec![0; content.len() + 1];
                let len = fs.read((*ino).into(), 0, &mut bytes).unwrap();
                assert_eq!(bytes[..len], content[..], "commit {number}, inode {ino}");
            }
            for entry in fs.entries(1).unwrap() {
                let (_, known) = &state[&u32::try_from(entry.ino).unwrap()];
                assert!(known.contains(&entry.name), "commit {number}");
                names += 1;
            }
            assert_eq!(names, state.values().map(|(_, names)| names.len()).sum::<usize>());
            whole += 1;
        }
    }
    assert!(whole > 0, "{whole}");
}

#[test]
fn what_a_past_commit_lost_is_an_error_and_no_hole() {
    // So full that garbage collection takes nodes of the past away.
    let mut lost = 0;
    for seed in 20..26 {
        let known = Known::new(seed, 26, 500);
        for (number, state) in &known.commits {
            let opened = Ubifs::open_commit(Arc::clone(&known.device), *number);
            let Ok((fs, _)) = opened else { continue };
            for (ino, (content, _)) in state {
                let mut bytes = vec![0; content.len() + 1];
                match fs.read((*ino).into(), 0, &mut bytes) {
                    Ok(len) => assert_eq!(bytes[..len], content[..], "commit {number}, {ino}"),
                    Err(error) => {
                        assert_eq!(error.kind(), FsErrorKind::Corrupted, "{error}");
                        lost += 1;
                    }
                }
            }
        }
    }
    assert!(lost > 10, "{lost}");
}
