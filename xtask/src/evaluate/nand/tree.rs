//! The content of the file systems: a tree of programs, libraries, texts and compressed files, the
//! same in every run. It stands for the root file system of the published runs, which is lost.

use crate::bench::ubifs_rw::Entry;
use anyhow::Result;
use eraseblock_base::random::SplitMix64;
use eraseblock_vfs::source::{NodeId, SourceKind, SourceNode};
use eraseblock_vfs::{SourceTree, Timestamp};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

/// Files in a directory.
const PER_DIR: u64 = 24;
/// The smallest file is 2^8 bytes, the largest one 2^18.
const SMALLEST: u64 = 8;
const DOUBLINGS: u64 = 10;
/// Words of machine code that a file repeats.
const PHRASES: usize = 512;
const WORDS: [&str; 32] = [
    "the", "option", "file", "system", "value", "default", "path", "device", "name", "if", "then",
    "return", "config", "library", "version", "start", "stop", "mount", "network", "address",
    "user", "group", "false", "true", "depends", "package", "section", "install", "size", "block",
    "memory", "error",
];

/// Returns files of `bytes` bytes in all, in directories. Trees of different seeds have the same
/// names and sizes, and different content.
pub(super) fn tree(bytes: u64, seed: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    files(bytes, seed, &mut entries);
    entries
}

/// Returns `count` trees of `bytes` bytes, each in a directory of its own.
pub(super) fn copies(bytes: u64, count: u64) -> Vec<Entry> {
    let mut entries = Vec::new();
    for copy in 0..count {
        entries.push(Entry::Dir(format!("copy{copy}").into_bytes()));
        files(bytes, copy, &mut entries);
        entries.push(Entry::End);
    }
    entries
}

fn files(bytes: u64, seed: u64, entries: &mut Vec<Entry>) {
    let (mut sizes, mut chance) = (SplitMix64::new(1), SplitMix64::new(seed ^ 0x5EED));
    let (mut rest, mut number) = (bytes, 0);
    while rest > 0 {
        if number % PER_DIR == 0 {
            entries.extend((number > 0).then_some(Entry::End));
            entries.push(Entry::Dir(format!("dir{}", number / PER_DIR).into_bytes()));
        }
        let half = 1 << (SMALLEST + sizes.below(DOUBLINGS));
        let len = (half + sizes.below(half)).min(rest);
        rest -= len;
        let content = content(number, usize::try_from(len).unwrap_or(0), &mut chance);
        let name = format!("file{number}").into_bytes();
        if number % PER_DIR == 1 {
            entries.push(Entry::Link(format!("link{number}").into_bytes(), name.clone()));
        }
        entries.push(Entry::File(name, content));
        number += 1;
    }
    entries.push(Entry::End);
}

/// One file in 20 is compressed already, one in 4 is a text, the rest is machine code.
fn content(number: u64, len: usize, chance: &mut SplitMix64) -> Vec<u8> {
    match number % 20 {
        19 => noise(chance, len),
        3 | 7 | 11 | 15 | 18 => text(chance, len),
        _ => code(chance, len),
    }
}

/// Returns bytes that no compressor makes shorter.
pub(in crate::evaluate) fn noise(chance: &mut SplitMix64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(chance.next_u64().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Returns words that compress to about half.
pub(in crate::evaluate) fn text(chance: &mut SplitMix64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 16);
    while bytes.len() < len {
        bytes.extend(WORDS[chance.index(WORDS.len())].bytes());
        let end = if chance.below(8) == 0 { b'\n' } else { b' ' };
        bytes.push(end);
    }
    bytes.truncate(len);
    bytes
}

/// Instructions of 4 bytes: runs that occur elsewhere in the file, and single ones whose operands
/// are new.
fn code(chance: &mut SplitMix64, len: usize) -> Vec<u8> {
    let operations = [0xE1A0_0000_u32, 0xE590_0000, 0xE580_0000, 0xEB00_0000, 0xE280_0000];
    let word = |chance: &mut SplitMix64| {
        let [low, high, ..] = chance.next_u64().to_le_bytes();
        operations[chance.index(operations.len())] | u32::from(low) | u32::from(high) << 12
    };
    let phrases: Vec<u32> = (0..PHRASES).map(|_| word(chance)).collect();
    let mut bytes = Vec::with_capacity(len + 32);
    while bytes.len() < len {
        if chance.below(5) < 2 {
            // The first phrases are the most frequent ones.
            let start = chance.index(PHRASES - 8);
            let start = chance.index(start + 1);
            let run = 2 + chance.index(6);
            phrases[start..start + run].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        } else {
            bytes.extend(word(chance).to_le_bytes());
        }
    }
    bytes.truncate(len);
    bytes
}

/// Returns the contents of files, without end: those of trees of 1 MiB.
pub(super) fn contents() -> impl Iterator<Item = Vec<u8>> {
    (0..).flat_map(|seed| tree(1 << 20, seed)).filter_map(|entry| match entry {
        Entry::File(_, content) => Some(content),
        _ => None,
    })
}

/// Returns the number of bytes of all files.
pub(super) fn content_bytes(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| entry.len() as u64).sum()
}

/// Returns the entries as the source of an image.
pub(super) fn source(entries: &[Entry]) -> Result<SourceTree> {
    let time = Timestamp::from_seconds(1_700_000_000);
    let node = |kind| {
        let mut node = SourceNode::new(kind, 0o755);
        (node.atime, node.mtime, node.ctime) = (time, time, time);
        node
    };
    let dir = || node(SourceKind::Directory(BTreeMap::new()));
    let mut tree = SourceTree::new(dir());
    let mut dirs = vec![NodeId::ROOT];
    for entry in entries {
        let parent = dirs.last().copied().unwrap_or(NodeId::ROOT);
        match entry {
            Entry::Dir(name) => dirs.push(tree.add(parent, name, dir())?),
            Entry::End => drop(dirs.pop()),
            Entry::Link(name, target) => {
                tree.add(parent, name, node(SourceKind::Symlink(target.clone())))?;
            }
            Entry::File(name, content) => {
                let kind = SourceKind::Regular(Arc::new(content.clone()));
                tree.add(parent, name, node(kind))?;
            }
        }
    }
    Ok(tree)
}

/// Writes the entries into a directory of the host.
pub(super) fn to_host(entries: &[Entry], dir: &Path) -> Result<()> {
    let mut at = dir.to_owned();
    for entry in entries {
        let path = |name: &[u8]| at.join(String::from_utf8_lossy(name).as_ref());
        match entry {
            Entry::Dir(name) => {
                at = path(name);
                fs::create_dir_all(&at)?;
            }
            Entry::End => drop(at.pop()),
            Entry::Link(name, target) => {
                symlink(String::from_utf8_lossy(target).as_ref(), path(name))?;
            }
            Entry::File(name, content) => fs::write(path(name), content)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_have_the_wanted_size_and_are_the_same_in_every_run() {
        for bytes in [0, 1, 100_000, 3 << 20] {
            assert_eq!(content_bytes(&tree(bytes, 1)), bytes);
            assert_eq!(content_bytes(&copies(bytes, 3)), 3 * bytes);
        }
        let text = |seed| format!("{:?}", tree(100_000, seed));
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }
}
