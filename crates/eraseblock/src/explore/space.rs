//! How much space files and directories take.

use super::index::Index;
use super::{ROWS, answered};
use crate::text;
use eraseblock_census::State;
use eraseblock_explore::Refusal;
use eraseblock_vfs::walk::MAX_DEPTH;
use eraseblock_vfs::{FileKind, FileSystem, Ino};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Directories whose children are listed together at most.
const LEVELS: usize = 2;

/// Bytes of the live nodes of each inode.
type Stored = BTreeMap<u32, u64>;

/// The sizes of a whole tree.
#[derive(Debug)]
pub(super) struct Sizes {
    directories: BTreeMap<Ino, Directory>,
}

#[derive(Debug, Default)]
struct Directory {
    children: Vec<Child>,
}

#[derive(Debug)]
struct Child {
    name: Box<[u8]>,
    ino: Ino,
    is_directory: bool,
    size: u64,
    stored: u64,
    files: u64,
}

#[derive(Serialize)]
struct Row {
    name: String,
    ino: Ino,
    is_directory: bool,
    /// Bytes of the contents below.
    size: u64,
    /// Bytes of the nodes on the flash.
    stored: u64,
    files: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<Row>,
}

#[derive(Serialize)]
struct Document {
    ino: Ino,
    children: Vec<Row>,
}

impl Sizes {
    /// Returns the bytes of the live nodes of each inode of a volume.
    pub(super) fn stored(index: &Index, volume: u32) -> Stored {
        let mut stored = Stored::new();
        let live = index.nodes.iter().filter(|node| node.state == State::Live && node.ino > 0);
        for node in live.filter(|node| index.volume_of(node.at) == volume) {
            *stored.entry(node.ino).or_default() += u64::from(node.len);
        }
        stored
    }

    /// Walks the whole tree. What cannot be read has no size; a file with several names counts once.
    pub(super) fn of(fs: &dyn FileSystem, stored: &Stored) -> Self {
        let mut order = Vec::new();
        let mut directories: BTreeMap<Ino, Directory> = BTreeMap::new();
        let mut counted = BTreeSet::new();
        let mut waiting = vec![(fs.root(), 0)];
        while let Some((ino, depth)) = waiting.pop() {
            if directories.contains_key(&ino) || depth > MAX_DEPTH {
                continue;
            }
            let mut children = Vec::new();
            for entry in fs.entries(ino).unwrap_or_default() {
                let is_directory = entry.kind == FileKind::Directory;
                let is_first = is_directory || counted.insert(entry.ino);
                let attr = fs.attr(entry.ino).ok().filter(|_| is_first && !is_directory);
                let own = u32::try_from(entry.ino).ok().and_then(|ino| stored.get(&ino));
                children.push(Child {
                    name: entry.name.into(),
                    ino: entry.ino,
                    is_directory,
                    size: attr.map_or(0, |attr| attr.size),
                    stored: own.copied().filter(|_| is_first).unwrap_or(0),
                    files: u64::from(is_first && !is_directory),
                });
                if is_directory {
                    waiting.push((entry.ino, depth + 1));
                }
            }
            order.push(ino);
            directories.insert(ino, Directory { children });
        }
        // Those below come after those above them.
        let mut sums: BTreeMap<Ino, (u64, u64, u64)> = BTreeMap::new();
        for ino in order.into_iter().rev() {
            let Some(directory) = directories.get_mut(&ino) else { continue };
            let mut sum = (0, 0, 0);
            for child in &mut directory.children {
                if let Some(below) = sums.get(&child.ino).filter(|_| child.is_directory) {
                    child.size = below.0;
                    child.stored += below.1;
                    child.files = below.2;
                }
                sum = (sum.0 + child.size, sum.1 + child.stored, sum.2 + child.files);
            }
            sums.insert(ino, sum);
        }
        Self { directories }
    }

    /// Answers with what is in a directory, and in the directories in it.
    pub(super) fn document(&self, ino: Ino) -> Result<Vec<u8>, Refusal> {
        let mut room = ROWS;
        let missing = || Refusal::missing(format!("inode {ino} is no directory"));
        self.directories.get(&ino).ok_or_else(missing)?;
        answered(&Document { ino, children: self.rows(ino, LEVELS, &mut room) })
    }

    fn rows(&self, ino: Ino, levels: usize, room: &mut usize) -> Vec<Row> {
        let Some(directory) = self.directories.get(&ino).filter(|_| levels > 0) else {
            return Vec::new();
        };
        let mut largest: Vec<&Child> = directory.children.iter().collect();
        largest.sort_by_key(|child| std::cmp::Reverse((child.stored, child.size)));
        largest.truncate(*room);
        *room -= largest.len();
        let row = |child: &Child| Row {
            name: text::name(&child.name),
            ino: child.ino,
            is_directory: child.is_directory,
            size: child.size,
            stored: child.stored,
            files: child.files,
            children: if child.is_directory {
                self.rows(child.ino, levels - 1, room)
            } else {
                Vec::new()
            },
        };
        largest.into_iter().map(row).collect()
    }
}
