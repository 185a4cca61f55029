//! Plays scripts of operations and lists trees by the content of their files.

use eraseblock_vfs_testkit::scripted::{BLOCK, Listed, ListedContent, Step, blocks, content};
use rustix::fs::{CWD, Mode, OFlags, openat};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where a mark is written on the control disk.
const MARK_AT: u64 = 8192;
/// Memory for a direct write: a sector in it is aligned.
const ALIGNMENT: usize = 4096;

/// Performs the steps of a script below a directory. Marks are written to the control disk past all
/// caches.
pub(crate) fn play(dir: &Path, script: &Path, control: &Path) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::SYNC;
    let control = File::from(openat(CWD, control, flags, Mode::empty())?);
    for line in fs::read_to_string(script)?.lines() {
        let step: Step = line.parse().map_err(io::Error::other)?;
        let done = perform(dir, &step, &control);
        done.map_err(|error| io::Error::other(format!("{line}: {error}")))?;
    }
    Ok(())
}

fn perform(dir: &Path, step: &Step, control: &File) -> io::Result<()> {
    match step {
        Step::MakeDir(name) => fs::create_dir(dir.join(name)),
        Step::Write(name, seed, len) => fs::write(dir.join(name), content(*seed, *len)),
        Step::Rename(from, to) => fs::rename(dir.join(from), dir.join(to)),
        Step::Remove(name) => fs::remove_file(dir.join(name)),
        Step::Sync(name) => File::open(dir.join(name))?.sync_all(),
        Step::SyncAll => {
            rustix::fs::sync();
            Ok(())
        }
        Step::Mark(number) => mark(control, *number),
    }
}

fn mark(control: &File, number: u32) -> io::Result<()> {
    let memory = vec![0_u8; 2 * ALIGNMENT];
    let begin = memory.as_ptr().align_offset(ALIGNMENT);
    let mut memory = memory;
    let sector = &mut memory[begin..begin + 512];
    writeln!(&mut sector[..], "mark {number}")?;
    control.write_all_at(sector, MARK_AT)
}

/// Prints every entry below a directory with the values of its blocks. What cannot be read is an
/// entry, too.
pub(crate) fn list(top: &Path, out: &mut impl Write) -> io::Result<()> {
    let mut pending = vec![String::new()];
    while let Some(path) = pending.pop() {
        let place = top.join(&path);
        let content = match read(&place) {
            Ok(content) => content,
            Err(error) => ListedContent::Error(error.to_string()),
        };
        let is_dir = content == ListedContent::Directory;
        writeln!(out, "{}", Listed { path: path.clone(), content })?;
        if !is_dir {
            continue;
        }
        match names(&place) {
            Ok(names) => pending.extend(
                names
                    .into_iter()
                    .map(|name| if path.is_empty() { name } else { format!("{path}/{name}") }),
            ),
            Err(error) => {
                let content = ListedContent::Error(error.to_string());
                writeln!(out, "{}", Listed { path, content })?;
            }
        }
    }
    Ok(())
}

fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().replace(' ', "_"));
    }
    names.sort();
    names.reverse();
    Ok(names)
}

fn read(place: &Path) -> io::Result<ListedContent> {
    let meta = fs::symlink_metadata(place)?;
    if meta.is_dir() {
        return Ok(ListedContent::Directory);
    }
    // A damaged size must not become memory.
    if meta.len() > (BLOCK as u64) << 12 {
        return Ok(ListedContent::Error(format!("a file of {} bytes", meta.len())));
    }
    let bytes = fs::read(place)?;
    Ok(ListedContent::File(meta.len(), blocks(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_listed_with_the_content_of_its_files() {
        let dir = std::env::temp_dir().join(format!("oracle-play-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("d")).unwrap();
        fs::write(dir.join("d/a"), content(3, 5000)).unwrap();
        fs::write(dir.join("b"), "").unwrap();
        let mut listed = Vec::new();
        list(&dir, &mut listed).unwrap();
        let expected = ListedContent::File(5000, blocks(&content(3, 5000)));
        let lines: Vec<Listed> =
            String::from_utf8(listed).unwrap().lines().map(|line| line.parse().unwrap()).collect();
        let paths: Vec<&str> = lines.iter().map(|line| line.path.as_str()).collect();
        assert_eq!(paths, ["", "b", "d", "d/a"]);
        assert_eq!(lines[3].content, expected);
        fs::remove_dir_all(dir).unwrap();
    }
}
