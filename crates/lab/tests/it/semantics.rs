//! Every promise in docs/SEMANTICS.md names tests that exist: in a crate, or in the patches of
//! `planted/`.

use std::path::{Path, PathBuf};

/// All Rust sources and patches of them below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "rs" || extension == "patch")
        {
            found.push(path);
        }
    }
}

#[test]
fn every_promise_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/SEMANTICS.md")).unwrap();
    let mut promises = 0;
    let mut ids = Vec::new();
    for line in text.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let named = |cell: &&str| cell.starts_with('`') && cell.contains(": ");
        let [id, _, tests] = cells.as_slice() else { continue };
        let is_id = id.ends_with(|last: char| last.is_ascii_digit())
            && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if !is_id {
            continue;
        }
        assert!(named(tests), "{id}: no test is named");
        assert!(!ids.contains(id), "{id} is there twice");
        ids.push(*id);
        for test in tests.split(", ") {
            let (room, function) = test.trim_matches('`').split_once(": ").unwrap();
            let mut files = Vec::new();
            let folder =
                if room == "planted" { root.join(room) } else { root.join("crates").join(room) };
            sources(&folder, &mut files);
            // Some tests of different file systems have one name.
            let (module, function) = function
                .rsplit_once("::")
                .map_or((None, function), |(module, function)| (Some(module), function));
            let wanted = format!("fn {function}(");
            let is_in = |file: &PathBuf| {
                module.is_none_or(|module| file.file_stem().is_some_and(|stem| stem == module))
            };
            let exists = |file: &PathBuf| {
                is_in(file) && std::fs::read_to_string(file).unwrap().contains(&wanted)
            };
            assert!(files.iter().any(exists), "{id}: no test {test}");
        }
        promises += 1;
    }
    assert!(promises >= 25, "{promises} promises");
}
