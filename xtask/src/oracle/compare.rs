//! Comparing manifests path by path.

use std::collections::BTreeMap;

/// Fields in which two manifests may differ.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ignore {
    /// None: both are of the same file system.
    Nothing,
    /// Values that every file system computes in its own way: sizes and link counts of directories,
    /// and sizes of device nodes (UBIFS counts their device number).
    OwnSizes,
}

/// Describes the differences; empty if the manifests agree.
pub(crate) fn differences(expected: &str, found: &str, ignore: Ignore) -> Vec<String> {
    let (expected, found) = (by_path(expected), by_path(found));
    let mut differences = Vec::new();
    for (path, line) in &expected {
        match found.get(path) {
            None => differences.push(format!("{path}: missing")),
            Some(other) => {
                let fields = differing_fields(line, other, ignore);
                if !fields.is_empty() {
                    differences.push(format!("{path}: {}", fields.join(", ")));
                }
            }
        }
    }
    let surplus = found.keys().filter(|path| !expected.contains_key(*path));
    differences.extend(surplus.map(|path| format!("{path}: should not be there")));
    differences
}

/// Returns the first few differences in one line, for a message.
pub(crate) fn summary(differences: &[String]) -> String {
    let shown: Vec<String> = differences.iter().take(5).map(|text| shortened(text)).collect();
    format!("{} paths differ: {}", differences.len(), shown.join("; "))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(300) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

fn by_path(manifest: &str) -> BTreeMap<&str, Vec<&str>> {
    let lines = manifest.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    lines.filter_map(|fields| Some((*fields.first()?, fields))).collect()
}

fn differing_fields(expected: &[&str], found: &[&str], ignore: Ignore) -> Vec<String> {
    if expected.len() != found.len() {
        return vec![format!("{} fields, expected {}", found.len(), expected.len())];
    }
    let own: &[&str] = match (ignore, expected.get(1).copied()) {
        (Ignore::OwnSizes, Some("d")) => &["size=", "nlink="],
        (Ignore::OwnSizes, Some("b" | "c")) => &["size="],
        _ => &[],
    };
    let ignored = |field: &str| own.iter().any(|start| field.starts_with(start));
    let pairs = expected.iter().zip(found).filter(|(want, have)| want != have && !ignored(want));
    pairs.map(|(want, have)| format!("found {have}, expected {want}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "a - 0644 0:0 nlink=1 mtime=1 size=3 dev=- group=- content=sha256:00 xattrs=-";

    #[test]
    fn differences_are_named() {
        let changed = LINE.replace("0644", "0600").replace("sha256:00", "sha256:01");
        assert_eq!(
            differences(LINE, &changed, Ignore::Nothing),
            ["a: found 0600, expected 0644, found content=sha256:01, expected content=sha256:00"]
        );
        assert_eq!(differences(LINE, "", Ignore::Nothing), ["a: missing"]);
        assert_eq!(differences("", LINE, Ignore::Nothing), ["a: should not be there"]);
        assert_eq!(differences(LINE, LINE, Ignore::Nothing), [""; 0]);
    }

    #[test]
    fn sizes_of_directories_and_devices_may_be_ignored() {
        let dir = LINE.replace("a -", "a d");
        let larger = dir.replace("size=3", "size=4096");
        assert_eq!(differences(&dir, &larger, Ignore::OwnSizes), [""; 0]);
        assert_eq!(differences(&dir, &larger, Ignore::Nothing).len(), 1);
        let device = LINE.replace("a -", "a c");
        let counted = device.replace("size=3", "size=4");
        assert_eq!(differences(&device, &counted, Ignore::OwnSizes), [""; 0]);
        let file = LINE.replace("size=3", "size=4");
        assert_eq!(differences(LINE, &file, Ignore::OwnSizes).len(), 1);
    }
}
