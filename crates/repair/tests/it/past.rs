//! The past of a file system: what was written to it, and what is left of that.

use crate::random::Dice;
use crate::volume::{NOW, content, file, folder};
use eraseblock_repair::Loss;
use eraseblock_vfs::{FileKind, FileSystem, SetAttr, WritableFileSystem};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a block.
const BLOCK: usize = 4096;

/// Every version of every block that a file ever had, and the names that it had.
#[derive(Clone, Default)]
pub(crate) struct Past {
    blocks: BTreeMap<(u64, usize), BTreeSet<Vec<u8>>>,
    names: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// The files at the end: their inodes, names and content.
    last: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
}

/// How much of a block is one version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grain {
    /// All of it.
    Block,
    /// A part: the end of an eraseblock divides a block into two nodes.
    Node,
}

impl Past {
    /// Files written, cut and deleted, with everything on flash in between.
    pub(crate) fn of(fs: &dyn WritableFileSystem, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let mut past = Self::default();
        let dirs: Vec<_> = (0..3)
            .map(|number| {
                let name = format!("d{number}");
                let ino = fs.create(1, name.as_bytes(), &folder(), NOW).unwrap();
                past.named(format!("/{name}").as_bytes(), ino);
                (ino, format!("/{name}"))
            })
            .collect();
        let mut files: Vec<(u64, usize, String)> = Vec::new();
        for step in 0..60_u32 {
            match dice.roll(8) {
                0..4 => {
                    let dir = dice.roll(dirs.len());
                    let name = format!("f{step}");
                    let ino = fs.create(dirs[dir].0, name.as_bytes(), &file(), NOW).unwrap();
                    let bytes = content(step, (dice.roll(20_000) + 1) as u32);
                    fs.write(ino, 0, &bytes, NOW).unwrap();
                    past.wrote(ino, &bytes);
                    let path = format!("{}/{name}", dirs[dir].1).into_bytes();
                    past.named(&path, ino);
                    past.last.insert(ino, (path, bytes));
                    files.push((ino, dir, name));
                }
                4 if !files.is_empty() => {
                    let at = dice.roll(files.len());
                    let (ino, _, _) = files[at];
                    let bytes = content(step, 9000);
                    let size = SetAttr { size: Some(0), ..SetAttr::default() };
                    fs.set_attr(ino, &size, NOW).unwrap();
                    fs.write(ino, 0, &bytes, NOW).unwrap();
                    past.wrote(ino, &bytes);
                    past.last.entry(ino).and_modify(|(_, held)| *held = bytes);
                }
                5 if !files.is_empty() => {
                    let (ino, dir, name) = files.remove(dice.roll(files.len()));
                    past.last.remove(&ino);
                    fs.unlink(dirs[dir].0, name.as_bytes(), NOW).unwrap();
                }
                6 => fs.sync().unwrap(),
                _ => {}
            }
        }
        past
    }

    fn wrote(&mut self, ino: u64, content: &[u8]) {
        for (number, block) in content.chunks(BLOCK).enumerate() {
            let mut block = block.to_vec();
            block.resize(BLOCK, 0);
            self.blocks.entry((ino, number)).or_default().insert(block);
        }
    }

    fn named(&mut self, path: &[u8], ino: u64) {
        self.names.entry(path.to_vec()).or_default().insert(ino);
    }

    /// Returns the files that the file system delivers as they were at the end, under any name.
    pub(crate) fn whole(&self, fs: &dyn FileSystem) -> BTreeSet<u64> {
        let reached = reached(fs);
        let is_whole = |(ino, (_, content)): &(&u64, &(Vec<u8>, Vec<u8>))| {
            let mut held = vec![0; content.len()];
            reached.contains(ino)
                && fs.attr(**ino).is_ok_and(|attr| attr.size == content.len() as u64)
                && fs.read(**ino, 0, &mut held).is_ok()
                && held == *content
        };
        self.last.iter().filter(is_whole).map(|(ino, _)| *ino).collect()
    }

    /// Returns all files of the end.
    pub(crate) fn files(&self) -> BTreeSet<u64> {
        self.last.keys().copied().collect()
    }

    /// Returns one of these files that is gone or not whole although no loss of it is named.
    pub(crate) fn unnamed_loss(
        &self,
        files: &BTreeSet<u64>,
        fs: &dyn FileSystem,
        losses: &[&Loss],
    ) -> Option<String> {
        let whole = self.whole(fs);
        let is_named = |ino: u64, path: &[u8]| {
            let is_it = |loss: &&Loss| {
                u64::from(loss.ino) == ino || loss.path.as_deref() == path.strip_prefix(b"/")
            };
            losses.iter().copied().any(|loss| is_it(&loss))
        };
        let ino = files.difference(&whole).find(|ino| !is_named(**ino, &self.last[*ino].0))?;
        let (path, content) = &self.last[ino];
        Some(format!(
            "inode {ino}, {}, is not whole (size {:?}, expected {}), and no loss of it is named",
            path.escape_ascii(),
            fs.attr(*ino).map(|attr| attr.size),
            content.len()
        ))
    }

    /// Every block is zeros or a version that was written; every name is one that was given.
    pub(crate) fn explains(&self, fs: &dyn FileSystem, grain: Grain) -> Result<(), String> {
        let mut open = vec![(fs.root(), Vec::new())];
        while let Some((dir, path)) = open.pop() {
            for entry in fs.entries(dir).map_err(|error| error.to_string())? {
                let path = [&path[..], b"/", &entry.name].concat();
                let attr = fs.attr(entry.ino).map_err(|error| error.to_string())?;
                let is_found = path.starts_with(b"/lost+found");
                let is_known = self.names.get(&path).is_some_and(|inos| inos.contains(&entry.ino));
                if !is_known && !is_found {
                    return Err(format!("{} never was inode {}", path.escape_ascii(), entry.ino));
                }
                if attr.kind == FileKind::Directory {
                    open.push((entry.ino, path));
                    continue;
                }
                let mut bytes = vec![0; attr.size as usize];
                fs.read(entry.ino, 0, &mut bytes).map_err(|error| error.to_string())?;
                for (number, block) in bytes.chunks(BLOCK).enumerate() {
                    if !self.knows(entry.ino, number, block, grain) {
                        return Err(format!("{} block {number}", path.escape_ascii()));
                    }
                }
            }
        }
        Ok(())
    }

    fn knows(&self, ino: u64, number: usize, block: &[u8], grain: Grain) -> bool {
        if block.iter().all(|byte| *byte == 0) {
            return true;
        }
        let Some(versions) = self.blocks.get(&(ino, number)) else { return false };
        match grain {
            Grain::Block => versions.iter().any(|one| one.starts_with(block)),
            Grain::Node => block.iter().enumerate().all(|(at, byte)| {
                *byte == 0 || versions.iter().any(|version| version[at] == *byte)
            }),
        }
    }
}

/// The numbers of everything that has a name.
fn reached(fs: &dyn FileSystem) -> BTreeSet<u64> {
    let mut reached = BTreeSet::from([fs.root()]);
    let mut open = vec![fs.root()];
    while let Some(dir) = open.pop() {
        for entry in fs.entries(dir).unwrap_or_default() {
            if reached.insert(entry.ino) {
                open.push(entry.ino);
            }
        }
    }
    reached
}
