//! Compares the views of a UBI device by Linux and by us, line by line: one for the device, one for
//! each volume, one for each LEB that is not all 0xFF.

use crate::subject;
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the view that `ubi_view` of the guest left in a directory.
pub(crate) fn of_linux(dir: &Path) -> Result<String> {
    let lines = fs::read_to_string(dir.join("lines"))?;
    let mut view = String::new();
    for line in lines.lines() {
        view += line;
        view.push('\n');
        let mut words = line.split(' ');
        let Some(id) = words.next().filter(|word| *word == "volume").and(words.next()) else {
            continue;
        };
        let usable: usize =
            words.find_map(|word| word.strip_prefix("usable=")).context("no LEB size")?.parse()?;
        if line.ends_with("upd=1") {
            continue;
        }
        let content = fs::read(dir.join(id))?;
        for (leb, chunk) in (0..).zip(content.chunks(usable)) {
            let mut whole = chunk.to_vec();
            whole.resize(usable, 0xFF);
            view += &subject::leb_line(id.parse()?, leb, &whole);
        }
    }
    Ok(view)
}

/// Compares two views. Linux erases blocks as soon as it is attached, so its highest erase counter
/// may have grown by one.
pub(crate) fn compare(linux: &str, ours: &str) -> Result<()> {
    let (linux, linux_max) = split(linux);
    let (ours, our_max) = split(ours);
    let missing: Vec<&str> = linux.difference(&ours).copied().take(4).collect();
    let surplus: Vec<&str> = ours.difference(&linux).copied().take(4).collect();
    ensure!(missing.is_empty() && surplus.is_empty(), "Linux: {missing:?}, here: {surplus:?}");
    let fits = matches!((linux_max, our_max), (Some(a), Some(b)) if a.abs_diff(b) <= 1);
    ensure!(fits, "highest erase counter: Linux {linux_max:?}, here {our_max:?}");
    Ok(())
}

/// Returns the lines, and the highest erase counter taken out of them.
fn split(view: &str) -> (BTreeSet<&str>, Option<u32>) {
    let mut max = None;
    let mut lines = BTreeSet::new();
    for line in view.lines() {
        match line.split_once(" max_ec=") {
            Some((rest, counter)) => {
                max = counter.parse().ok();
                lines.insert(rest);
            }
            None => {
                lines.insert(line);
            }
        }
    }
    (lines, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_differ_in_lines_and_in_wear() {
        let view = "device pebs=4 max_ec=7\nvolume 0 name=a\nleb 0 1 ab\n";
        compare(view, view).unwrap();
        compare(view, &view.replace("max_ec=7", "max_ec=6")).unwrap();
        assert!(compare(view, &view.replace("max_ec=7", "max_ec=5")).is_err());
        assert!(compare(view, &view.replace("name=a", "name=b")).is_err());
        assert!(compare(view, &view.replace("leb 0 1 ab\n", "")).is_err());
        assert!(compare("", "").is_err());
    }
}
