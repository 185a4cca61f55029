//! Undo files after crashes, damage and mistakes.

use super::*;

fn file(folder: &Path, name: &str, content: &[u8]) -> File {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    File::options().read(true).write(true).open(path).unwrap()
}

/// Some 40 KB, and the same with changes in several places.
fn contents() -> (Vec<u8>, Vec<u8>) {
    let before: Vec<u8> = (0..40_000_u32).map(|n| ((n * n) >> 3) as u8).collect();
    let mut after = before.clone();
    after[100] ^= 1;
    after[9000..12_000].fill(7);
    after[39_999] ^= 1;
    (before, after)
}

#[test]
fn a_change_is_undone_wherever_it_was_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let (before, mut after) = contents();
    after.extend([1; 5000]);
    let target = file(folder.path(), "target", &before);
    let new = file(folder.path(), "after", &after);
    let path = folder.path().join("undo");
    let report = replace(&target, &new, &path).unwrap();
    assert!(report.places >= 4, "{report:?}");
    assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), after);
    // An undo file is never replaced.
    assert!(replace(&target, &new, &path).is_err());
    let open = || File::open(&path).unwrap();
    assert_eq!(undo(&open(), &target, Run::Dry).unwrap().places, report.places);
    assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), after);
    // A cut leaves any sectors in their new state, and the size is one or the other.
    for seed in 0..40_u64 {
        let mut torn = if seed % 2 == 0 { before.clone() } else { after.clone() };
        if seed % 4 == 2 {
            torn.resize(after.len(), 0);
        }
        for (index, sector) in torn.chunks_mut(SECTOR).enumerate() {
            let is_new = seed.wrapping_mul(0x9E37_79B9).rotate_left(index as u32) & 1 == 1;
            let start = index * SECTOR;
            let source = if is_new { &after } else { &before };
            if let Some(bytes) = source.get(start..start + sector.len()) {
                sector.copy_from_slice(bytes);
            }
        }
        let torn_file = file(folder.path(), "torn", &torn);
        undo(&open(), &torn_file, Run::Real).unwrap();
        assert_eq!(std::fs::read(folder.path().join("torn")).unwrap(), before, "seed {seed}");
        // It can be repeated.
        assert_eq!(undo(&open(), &torn_file, Run::Real).unwrap().places, 0);
    }
}

#[test]
fn what_is_not_the_target_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = contents();
    let target = file(folder.path(), "target", &before);
    let new = file(folder.path(), "after", &after);
    let path = folder.path().join("undo");
    replace(&target, &new, &path).unwrap();
    let refused = |content: &[u8]| {
        let other = file(folder.path(), "other", content);
        let error = undo(&File::open(&path).unwrap(), &other, Run::Real).unwrap_err().to_string();
        assert_eq!(std::fs::read(folder.path().join("other")).unwrap(), content);
        error
    };
    assert!(refused(&before[..30_000]).contains("30000 bytes"));
    let mut changed = after.clone();
    changed[101] = 0xEE;
    assert!(refused(&changed).contains("byte 0 of the target"));
    // A change elsewhere is noticed at the end.
    let mut changed = after.clone();
    changed[20_000] ^= 1;
    let other = file(folder.path(), "other", &changed);
    let error = undo(&File::open(&path).unwrap(), &other, Run::Real).unwrap_err();
    assert!(error.to_string().contains("changed elsewhere"), "{error}");
}

#[test]
fn a_damaged_undo_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = contents();
    let target = file(folder.path(), "target", &before);
    let new = file(folder.path(), "after", &after);
    let path = folder.path().join("undo");
    replace(&target, &new, &path).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let trailer = 8 + 32 + 4;
    for at in (0..whole.len() - trailer).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x40;
        let damaged = file(folder.path(), "damaged", &bytes);
        assert!(undo(&damaged, &target, Run::Real).is_err(), "byte {at}");
        let cut = file(folder.path(), "cut", &whole[..at]);
        assert!(undo(&cut, &target, Run::Real).is_err(), "byte {at}");
    }
    assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), after);
    // The trailer only says that the change was complete.
    let cut = file(folder.path(), "cut", &whole[..whole.len() - trailer]);
    undo(&cut, &target, Run::Real).unwrap();
    assert_eq!(std::fs::read(folder.path().join("target")).unwrap(), before);
}
