//! The pages of the repository, and the files that they link to.

use crate::command::output;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Folders whose pages are not for readers of the site.
const LEFT_OUT: [&str; 5] = ["crates/", "fuzz/", "python/", "vendor/", "xtask/"];

/// The one page of a crate that is.
const LIBRARY: &str = "crates/eraseblock/README.md";

/// The folder whose pages have a list of their own.
const FORMATS: &str = "docs/format";

/// That list.
pub(super) const LIST: &str = "docs/format/index.md";

/// Copies all pages of the repository `root` to `to`, and what they link to.
pub(super) fn copy(root: &Path, to: &Path) -> Result<()> {
    let listed = output(Command::new("git").arg("ls-files").current_dir(root))?;
    let files: Vec<&str> = listed.lines().collect();
    for place in files.iter().filter(|place| is_page(place)) {
        let text = fs::read_to_string(root.join(place))?;
        for target in links(&text).filter_map(|link| resolved(place, link)) {
            if files.contains(&target.as_str()) && !is_markdown(&target) {
                write(&to.join(&target), &fs::read(root.join(&target))?)?;
            }
        }
        let name = if *place == "README.md" { "index.md" } else { place };
        write(&to.join(name), changed(&text).as_bytes())?;
    }
    for place in ["docs/site/site.css", "docs/site/site.js"] {
        write(&to.join(place), &fs::read(root.join(place))?)?;
    }
    let mut list = String::from("# Formats\n\nThe specifications of what is on the flash:\n\n");
    for (place, title) in formats(root)? {
        let name = place.rsplit('/').next().context("a name")?;
        let _ = writeln!(list, "- [{title}]({name})");
    }
    write(&to.join(LIST), list.as_bytes())
}

fn is_page(place: &str) -> bool {
    let is_left_out = LEFT_OUT.iter().any(|folder| place.starts_with(folder));
    is_markdown(place) && (!is_left_out || place == LIBRARY)
}

fn is_markdown(place: &str) -> bool {
    Path::new(place).extension().is_some_and(|kind| kind == "md")
}

/// The specifications, by name, with their titles.
pub(super) fn formats(root: &Path) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(FORMATS))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path)?;
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).context("no title")?;
        let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
        found.push((format!("{FORMATS}/{name}"), title.to_owned()));
    }
    found.sort();
    Ok(found)
}

/// Writes a file, and the folders above it.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file")?)?;
    Ok(fs::write(path, bytes)?)
}

/// The text of a page for the site. The generator knows blocks by one word only, and wants the front
/// page and the list of a folder by their names.
fn changed(text: &str) -> String {
    let mut page = String::new();
    let mut is_inside = false;
    for line in text.lines() {
        if let Some(info) = line.strip_prefix("```") {
            is_inside = !is_inside && !info.ends_with("```");
            let word = info.split([' ', ',']).next().unwrap_or_default();
            let _ = writeln!(page, "```{word}");
        } else if is_inside {
            let _ = writeln!(page, "{line}");
        } else {
            let line = line.replace("(../README.md", "(../index.md");
            let line = line.replace("(docs/format)", "(docs/format/index.md)");
            let _ = writeln!(page, "{}", line.replace("(format)", "(format/index.md)"));
        }
    }
    page
}

/// The targets of the links of a page, without the fragment.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next())
}

/// Where a link of the page at `place` leads in the repository.
fn resolved(place: &str, link: &str) -> Option<String> {
    if link.is_empty() || link.contains(':') {
        return None;
    }
    let mut parts: Vec<&str> = place.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()?),
            "." => {}
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_do_in_the_repository() {
        let text = "See [a](b.md#c), [d](../e/f.h)\nand [g](https://h.example/i), [j](#k).";
        let found: Vec<&str> = links(text).collect();
        assert_eq!(found, ["b.md", "../e/f.h", "https://h.example/i", ""]);
        let places: Vec<_> = found.into_iter().map(|link| resolved("docs/x.md", link)).collect();
        let expected = [Some("docs/b.md".to_owned()), Some("e/f.h".to_owned()), None, None];
        assert_eq!(places, expected);
        assert_eq!(resolved("x.md", "../../y"), None);
    }

    #[test]
    fn blocks_keep_their_text_and_have_one_word() {
        let text = "[a](format)\n```console long\n$ cat [x](format)\n```\n[b](../README.md#c)\n";
        let expected =
            "[a](format/index.md)\n```console\n$ cat [x](format)\n```\n[b](../index.md#c)\n";
        assert_eq!(changed(text), expected);
    }
}
