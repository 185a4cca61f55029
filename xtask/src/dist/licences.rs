//! The licences of everything of others that is compiled into the command, as their authors want them
//! to go with it.

use super::sbom;
use super::source::THIRD_PARTY;
use crate::command::output;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How names of files with a licence begin, in capitals.
const NAMES: [&str; 5] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE"];

/// Returns the texts of all licences, each with the packages that it belongs to. `sources` has the
/// packages of others in a folder of their own.
pub(super) fn text(sources: &Path, target: &str) -> Result<String> {
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut silent = BTreeSet::new();
    for package in sbom::built(target)? {
        let Some(folder) = folder(sources, &package) else { continue };
        let found = licences(&folder)?;
        if found.is_empty() {
            silent.insert(package.clone());
        }
        for text in found {
            texts.entry(text).or_default().insert(package.clone());
        }
    }
    let mut all = String::from("What others wrote of this program, and on what terms.\n");
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by_key(|(_, packages)| packages.first().cloned());
    for (text, packages) in texts {
        let packages: Vec<String> = packages.into_iter().collect();
        let _ = write!(all, "\n{}\n{}:\n\n{text}\n", "-".repeat(80), packages.join(", "));
    }
    if !silent.is_empty() {
        let silent: Vec<String> = silent.into_iter().collect();
        let line = "-".repeat(80);
        let what = "These name their licences only in their descriptions, which the SBOM repeats";
        let _ = write!(all, "\n{line}\n{what}:\n{}\n", silent.join(", "));
    }
    Ok(all)
}

/// Where a package such as `serde v1.0.0` lies; nothing for one of our own.
fn folder(sources: &Path, package: &str) -> Option<PathBuf> {
    let (name, version) = package.split_once(" v")?;
    let ours = name.strip_prefix("eraseblock-").map(|name| name.replace('-', "_"));
    let place = match ours {
        Some(name) => sources.join("vendor").join(name),
        None => sources.join(THIRD_PARTY).join(format!("{name}-{version}")),
    };
    place.is_dir().then_some(place)
}

/// The licences in a folder and those below it.
fn licences(folder: &Path) -> Result<BTreeSet<String>> {
    let mut find = Command::new("find");
    let listed = output(find.arg(folder).args(["-type", "f"]))?;
    let mut texts = BTreeSet::new();
    for path in listed.lines().map(Path::new) {
        let name = path.file_name().context("a file")?.to_string_lossy().to_uppercase();
        let is_source = path.extension().is_some_and(|kind| kind == "rs" || kind == "json");
        if is_source || !NAMES.iter().any(|begin| name.starts_with(begin)) {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(path)?).replace("\r\n", "\n");
        // Its authors offer other terms as well, and those are the ones that are used.
        if !text.contains("GNU GENERAL PUBLIC LICENSE") {
            texts.insert(text.trim().to_owned());
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_found_at_any_depth_and_once() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("c/lib")).unwrap();
        for (name, text) in [
            ("LICENSE-MIT", "terms\r\n"),
            ("c/COPYING", "terms\n"),
            ("c/lib/license.txt", "others\n"),
            ("c/lib/COPYING", "GNU GENERAL PUBLIC LICENSE\n"),
            ("licence.rs", "fn\n"),
        ] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let expected = ["others", "terms"].map(str::to_owned);
        assert_eq!(licences(folder.path()).unwrap(), BTreeSet::from(expected));
    }
}
