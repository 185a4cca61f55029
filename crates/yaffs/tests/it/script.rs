//! The operations that made images of the reference, run by our writer on a simulated chip, end in
//! the tree of the reference.

use crate::manifest::{self, MTIME};
use crate::store::Store;
use eraseblock_base::{ByteOrder, Geometry, MediumKind};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::{
    Caller, FileSystem, FsError, Ino, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem, XattrMode,
};
use eraseblock_yaffs::{
    DataEcc, Layout, OpenOptions, RwOptions, Source, TagsPlace, Version, Yaffs, YaffsRw,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// When the first line runs.
const START: i64 = 1_700_000_000;

fn options() -> RwOptions {
    let places = DataEcc::usual_places(2048, 64).remove(0);
    let layout = Layout {
        version: Version::Yaffs2,
        page: 2048,
        spare: 64,
        pages_per_block: 64,
        order: ByteOrder::Little,
        place: TagsPlace::spare(2, true),
        tags_ecc: true,
        data_ecc: DataEcc::Hamming { places, is_swapped: false },
    };
    let open = OpenOptions { layout: Some(layout), ..OpenOptions::default() };
    RwOptions { open, ..RwOptions::default() }
}

struct Player {
    chip: Arc<Chip>,
    fs: YaffsRw,
    handles: BTreeMap<String, Ino>,
    now: Timestamp,
    /// Files whose last change was a truncation, which here as in Linux sets the mtime; the core of
    /// the reference alone does not.
    truncated: BTreeSet<String>,
}

fn mounted(chip: &Arc<Chip>) -> YaffsRw {
    YaffsRw::mount(Arc::clone(chip) as _, &options()).unwrap().0
}

/// Byte `i` of a content is byte `i % 16` of a line with the seed and `i / 16`.
fn content(seed: &str, start: u64, len: u64) -> Vec<u8> {
    let seed: u32 = seed.parse().unwrap();
    let byte = |at: u64| format!("{seed:06x}:{:08x}\n", at / 16).as_bytes()[(at % 16) as usize];
    (start..start + len).map(byte).collect()
}

fn number(word: &str) -> u64 {
    word.parse().unwrap()
}

fn octal(word: &str) -> u32 {
    u32::from_str_radix(word, 8).unwrap()
}

impl Player {
    /// The directory and the last name of a path.
    fn split<'p>(&self, path: &'p str) -> Result<(Ino, &'p [u8]), FsError> {
        let (dir, name) = path.rsplit_once('/').unwrap();
        Ok((self.fs.resolve(dir.as_bytes())?, name.as_bytes()))
    }

    fn make(&self, path: &str, kind: NewKind<'_>, rest: &[&str]) -> Result<(), FsError> {
        let (dir, name) = self.split(path)?;
        let owner = |index: usize| rest.get(index).map_or(0, |word| word.parse().unwrap());
        let permissions = rest.first().map_or(0o777, |mode| octal(mode));
        let inode = NewInode { kind, permissions, uid: owner(1), gid: owner(2) };
        self.fs.create(dir, name, &inode, &self.by()).map(drop)
    }

    fn by(&self) -> Caller {
        Caller::owner(self.now)
    }

    fn write(&self, ino: Ino, offset: u64, data: &[u8]) -> Result<(), FsError> {
        self.fs.write(ino, offset, data, &self.by())
    }

    fn change(&self, path: &str, changes: SetAttr) -> Result<(), FsError> {
        self.fs.set_attr(self.fs.resolve(path.as_bytes())?, &changes, &self.by())
    }

    fn run(&mut self, words: &[&str]) -> Result<(), FsError> {
        match words {
            ["truncate", path, ..] => drop(self.truncated.insert(format!(".{path}"))),
            ["write", path, ..] => drop(self.truncated.remove(&format!(".{path}"))),
            _ => {}
        }
        let ino = |fs: &YaffsRw, path: &str| fs.resolve(path.as_bytes());
        let time = |word: &str| Some(Timestamp::from_seconds(word.parse().unwrap()));
        match words {
            ["mount", ..] | ["syncfiles" | "sync"] => Ok(()),
            ["umount"] => self.fs.unmount(),
            ["poweroff" | "remount"] => {
                self.handles.clear();
                self.fs = mounted(&self.chip);
                Ok(())
            }
            ["mkdir", path, rest @ ..] => self.make(path, NewKind::Directory, rest),
            ["create", path, rest @ ..] => self.make(path, NewKind::Regular, rest),
            ["symlink", target, path] => self.make(path, NewKind::Symlink(target.as_bytes()), &[]),
            ["mknod", path, kind, mode, rest @ ..] => {
                let part = |index: usize| rest.get(index).map_or(0, |it| it.parse().unwrap());
                let kind = match *kind {
                    "c" => NewKind::CharDevice(part(0), part(1)),
                    "b" => NewKind::BlockDevice(part(0), part(1)),
                    "p" => NewKind::Fifo,
                    _ => NewKind::Socket,
                };
                self.make(path, kind, &[mode])
            }
            ["link", old, new] => {
                let (dir, name) = self.split(new)?;
                self.fs.link(ino(&self.fs, old)?, dir, name, &self.by())
            }
            ["write" | "pwrite", path, offset, len, seed] => {
                let offset = number(offset);
                self.write(ino(&self.fs, path)?, offset, &content(seed, offset, number(len)))
            }
            ["append", path, len, seed] => {
                let ino = ino(&self.fs, path)?;
                let size = self.fs.attr(ino)?.size;
                self.write(ino, size, &content(seed, size, number(len)))
            }
            ["zeros", path, offset, len] => {
                self.write(ino(&self.fs, path)?, number(offset), &vec![0; number(len) as usize])
            }
            ["truncate", path, size] => {
                self.change(path, SetAttr { size: Some(number(size)), ..SetAttr::default() })
            }
            ["rename", old, new] => {
                let (from, to) = (self.split(old)?, self.split(new)?);
                self.fs.rename(from, to, RenameMode::Replace, &self.by())
            }
            ["unlink", path] => {
                let (dir, name) = self.split(path)?;
                self.fs.unlink(dir, name, &self.by())
            }
            ["rmdir", path] => {
                let (dir, name) = self.split(path)?;
                self.fs.remove_dir(dir, name, &self.by())
            }
            ["chmod", path, mode] => {
                self.change(path, SetAttr { permissions: Some(octal(mode)), ..SetAttr::default() })
            }
            ["chown", path, uid, gid] => {
                let (uid, gid) = (uid.parse().ok(), gid.parse().ok());
                self.change(path, SetAttr { uid, gid, ..SetAttr::default() })
            }
            ["utime", path, atime, mtime] => {
                let (atime, mtime) = (time(atime), time(mtime));
                self.change(path, SetAttr { atime, mtime, ..SetAttr::default() })
            }
            ["setxattr", path, name, value] => {
                let ino = ino(&self.fs, path)?;
                let value = value_of(value);
                self.fs.set_xattr(ino, name.as_bytes(), &value, XattrMode::Either, &self.by())
            }
            ["rmxattr", path, name] => {
                self.fs.remove_xattr(ino(&self.fs, path)?, name.as_bytes(), &self.by())
            }
            ["open", handle, path] => {
                let ino = ino(&self.fs, path)?;
                self.handles.insert((*handle).to_owned(), ino);
                self.fs.open(ino)
            }
            ["hwrite", handle, offset, len, seed] => {
                let offset = number(offset);
                self.write(self.handles[*handle], offset, &content(seed, offset, number(len)))
            }
            ["fsync", path] => self.fs.sync_file(ino(&self.fs, path)?),
            ["close", handle] => self.fs.release(self.handles.remove(*handle).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

fn value_of(word: &str) -> Vec<u8> {
    if let Some(hex) = word.strip_prefix("0x") {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        return (0..hex.len() / 2 * 2).step_by(2).map(byte).collect();
    }
    word.as_bytes().to_vec()
}

/// Runs a script, and returns what differs from the tree of the reference.
fn play(store: &Store, name: &str) -> Vec<String> {
    let geometry = Geometry::new(MediumKind::Nand, 128 << 10, 64, 2048, 2048, 64).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let (fs, now) = (mounted(&chip), Timestamp::from_seconds(START));
    let mut player = Player {
        chip: Arc::clone(&chip),
        fs,
        handles: BTreeMap::new(),
        now,
        truncated: BTreeSet::new(),
    };
    for line in store.script(name).lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((first, rest)) = words.split_first().filter(|(first, _)| **first != "#") else {
            continue;
        };
        let fails = first.starts_with('!');
        let first = first.trim_start_matches(['!', '?', '*']);
        if first.is_empty() || first.starts_with('#') {
            continue;
        }
        player.now.seconds += 1;
        let done = player.run(&[&[first], rest].concat());
        assert_eq!(done.is_err(), fails, "{name}: {line}: {done:?}");
    }
    assert!(chip.violations().is_empty(), "{:?}", chip.violations());
    let source = Source::Device(chip);
    let (reader, findings) = Yaffs::open(source, &OpenOptions::default()).unwrap();
    assert!(findings.iter().all(|it| it.code == "unlinked-file"), "{:?}", findings.iter().next());
    let mut expected = manifest::parse(&store.manifest(name));
    let found = manifest::of(&reader);
    for path in &player.truncated {
        if let (Some(line), Some(found)) = (expected.get_mut(path), found.get(path)) {
            line[MTIME].clone_from(&found[MTIME]);
        }
    }
    manifest::differences(&expected, &found)
}

#[test]
fn scripts_end_in_the_trees_of_the_reference() {
    let store = Store::selection();
    for name in ["basic-checkpoint", "links", "rename-over", "holes", "truncate-up", "deleted"] {
        let differences = play(&store, name);
        assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    }
}
