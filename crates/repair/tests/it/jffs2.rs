//! One JFFS2 for each rule: what is damaged, the level that it takes, and what is lost.

use crate::volume::{Tree, content, file, folder, tree};
use eraseblock_base::{ByteOrder, Geometry, MediumKind};
use eraseblock_jffs2::{Jffs2, Jffs2Rw, OpenOptions, RwOptions, Source};
use eraseblock_jffs2_format::{Dirent, encode};
use eraseblock_mtd::MemoryMtd;
use eraseblock_repair::jffs2::examine;
use eraseblock_repair::ubi::FlashRepair;
use eraseblock_repair::{Action, Level, Loss, RepairError};
use eraseblock_vfs::{FileSystem, WritableFileSystem, XattrMode};
use std::sync::Arc;

pub(crate) const BLOCK: usize = 16 << 10;
const NOW: &eraseblock_vfs::Caller = crate::volume::NOW;

/// An image in memory.
#[derive(Clone)]
pub(crate) struct Image(pub(crate) Vec<u8>);

/// A node on flash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) at: usize,
    kind: u16,
    pub(crate) len: usize,
}

const DIRENT: u16 = 0xE001;
const INODE: u16 = 0xE002;
const XATTR: u16 = 0xE008;
const SUMMARY: u16 = 0x2006;

impl Image {
    /// `dir/deep`, `file` with an xattr, `kept`; written by the run time.
    pub(crate) fn new() -> Self {
        let geometry = Geometry::new(MediumKind::Nor, BLOCK as u32, 12, 1, 1, 0).unwrap();
        let mtd = Arc::new(MemoryMtd::new(geometry));
        let (fs, _) = Jffs2Rw::mount(Arc::clone(&mtd) as _, &RwOptions::default()).unwrap();
        let dir = fs.create(1, b"dir", &folder(), NOW).unwrap();
        let deep = fs.create(dir, b"deep", &file(), NOW).unwrap();
        fs.write(deep, 0, &content(1, 3000), NOW).unwrap();
        let ino = fs.create(1, b"file", &file(), NOW).unwrap();
        fs.write(ino, 0, &content(2, 12_000), NOW).unwrap();
        fs.set_xattr(ino, b"user.name", b"value", XattrMode::Either, NOW).unwrap();
        let kept = fs.create(1, b"kept", &file(), NOW).unwrap();
        fs.write(kept, 0, &content(3, 20_000), NOW).unwrap();
        fs.sync().unwrap();
        fs.unmount().unwrap();
        Self(mtd.to_bytes())
    }

    /// The image after the run time mounted it and did something.
    fn used(&self, work: impl FnOnce(&Jffs2Rw)) -> Self {
        let count = (self.0.len() / BLOCK) as u32;
        let geometry = Geometry::new(MediumKind::Nor, BLOCK as u32, count, 1, 1, 0).unwrap();
        let mtd = Arc::new(MemoryMtd::with_bytes(geometry, self.0.clone()));
        let (fs, _) = Jffs2Rw::mount(Arc::clone(&mtd) as _, &RwOptions::default()).unwrap();
        work(&fs);
        fs.unmount().unwrap();
        Self(mtd.to_bytes())
    }

    fn source(&self) -> Source {
        Source::Image(Arc::new(self.0.clone()))
    }

    pub(crate) fn options() -> OpenOptions {
        // A first block that was erased does not belong to something else.
        OpenOptions { start: Some(0), erase_size: Some(BLOCK as u32), ..OpenOptions::default() }
    }

    pub(crate) fn examined(&self) -> Result<FlashRepair, RepairError> {
        examine(&self.source(), &Self::options())
    }

    fn repaired(&self) -> (FlashRepair, Self) {
        let repair = self.examined().unwrap_or_else(|error| panic!("{error}"));
        // A line has its place once.
        for action in repair.plan().actions() {
            assert!(!action.why.contains(&action.at.to_string()), "{}", action.line());
        }
        let after = self.with(&repair);
        let again = after.examined().unwrap();
        assert!(again.plan().is_empty(), "{:#?}", lines(&again));
        after.is_used();
        (repair, after)
    }

    /// The image after a repair.
    pub(crate) fn with(&self, repair: &FlashRepair) -> Self {
        let mut after = self.clone();
        for (peb, bytes) in repair.blocks() {
            let start = *peb as usize * BLOCK;
            let end = after.0.len().max(start + BLOCK);
            after.0.resize(end, 0xFF);
            after.0[start..start + BLOCK].fill(0xFF);
            after.0[start..start + bytes.len()].copy_from_slice(bytes);
        }
        after
    }

    /// The run time mounts it, and can write.
    pub(crate) fn is_used(&self) {
        let count = (self.0.len() / BLOCK) as u32 + 4;
        let geometry = Geometry::new(MediumKind::Nor, BLOCK as u32, count, 1, 1, 0).unwrap();
        let mtd = Arc::new(MemoryMtd::with_bytes(geometry, self.0.clone()));
        let (fs, report) = Jffs2Rw::mount(mtd, &RwOptions::default()).unwrap();
        assert!(!report.findings.has_problems(), "{:?}", report.findings);
        let ino = fs.create(1, b"new", &file(), NOW).unwrap();
        fs.write(ino, 0, &content(9, 9000), NOW).unwrap();
        fs.check().unwrap();
        fs.unmount().unwrap();
    }

    pub(crate) fn fs(&self) -> Jffs2 {
        Jffs2::open(self.source(), &Self::options()).unwrap().0
    }

    fn tree(&self) -> Tree {
        tree(&self.fs())
    }

    fn ino(&self, name: &[u8]) -> u32 {
        let fs = self.fs();
        let mut ino = fs.root();
        for part in name.split(|byte| *byte == b'/') {
            ino = fs.lookup(ino, part).unwrap();
        }
        u32::try_from(ino).unwrap()
    }

    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    /// The nodes of a type for which something holds.
    fn nodes(&self, kind: u16, holds: impl Fn(&[u8]) -> bool) -> Vec<Found> {
        let is_it = |node: &Found| node.kind == kind && holds(&self.0[node.at..][..node.len]);
        self.all().into_iter().filter(is_it).collect()
    }

    /// Everything that looks like a node.
    pub(crate) fn all(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for at in (0..self.0.len() - 12).step_by(4) {
            let len = self.word(at + 4) as usize;
            let is_node = self.0[at..].starts_with(&[0x85, 0x19]) && self.0[at + 3] & 0x20 != 0;
            if is_node && len >= 12 && len <= self.0.len() - at {
                let kind = u16::from_le_bytes([self.0[at + 2], self.0[at + 3]]);
                found.push(Found { at, kind, len });
            }
        }
        found
    }

    fn of_inode(&self, ino: u32) -> Vec<Found> {
        self.nodes(INODE, |node| node[12..16] == ino.to_le_bytes())
    }

    fn entry(&self, name: &[u8]) -> Found {
        self.nodes(DIRENT, |node| node[40..].starts_with(name))[0]
    }

    /// Damages the entry of a name.
    pub(crate) fn tear_entry(&mut self, name: &[u8]) {
        let node = self.entry(name);
        self.tear(node, 41);
    }

    /// Blanks all summaries.
    fn without_summaries(&mut self) {
        for node in self.nodes(SUMMARY, |_| true) {
            let end = (node.at / BLOCK + 1) * BLOCK;
            self.0[node.at..end].fill(0);
        }
    }

    pub(crate) fn tear(&mut self, node: Found, offset: usize) {
        assert!(offset < node.len && node.kind != 0);
        self.0[node.at + offset] ^= 0x10;
    }
}

fn lines(repair: &FlashRepair) -> Vec<String> {
    repair.plan().actions().iter().map(Action::line).collect()
}

fn losses(repair: &FlashRepair) -> Vec<String> {
    repair.plan().losses().map(Loss::describe).collect()
}

/// Damages the sample and repairs it.
fn case(damage: impl FnOnce(&mut Image), level: Level, code: &str) -> (FlashRepair, Image) {
    let mut image = Image::new();
    damage(&mut image);
    let (repair, after) = image.repaired();
    assert_eq!(repair.plan().level(), Some(level), "{:#?}", lines(&repair));
    let named = repair.plan().actions().iter().any(|action| action.code == code);
    assert!(named, "{code}: {:#?}", lines(&repair));
    (repair, after)
}

fn without(mut tree: Tree, path: &str) -> Tree {
    tree.remove(path.as_bytes()).unwrap_or_else(|| panic!("{path}: {tree:?}"));
    tree
}

#[test]
fn the_sample_has_nothing_to_repair() {
    let image = Image::new();
    let repair = image.examined().unwrap();
    assert!(repair.plan().is_empty() && repair.left().is_empty(), "{:#?}", lines(&repair));
    assert_eq!(image.tree().len(), 4);
}

#[test]
fn a_damaged_piece_becomes_a_hole() {
    let before = Image::new();
    let ino = before.ino(b"file");
    let damage = |image: &mut Image| {
        let nodes = image.of_inode(ino);
        let holds =
            |node: &&Found| image.word(node.at + 44) == 4096 && image.word(node.at + 52) > 0;
        let node = *nodes.iter().find(holds).unwrap();
        image.tear(node, 80);
    };
    let (repair, after) = case(damage, Level::Drop, "data-lost");
    assert_eq!(losses(&repair), ["file: bytes 4096 to 8191 of the content"]);
    assert_eq!(repair.quarantine().len(), 1);
    let mut expected = content(2, 12_000);
    expected[4096..8192].fill(0);
    let mut found = vec![0; 12_000];
    after.fs().read(ino.into(), 0, &mut found).unwrap();
    assert!(found == expected);
    assert_eq!(without(after.tree(), "/file"), without(before.tree(), "/file"));
}

/// Content that was replaced does not come back because its replacement is damaged: the hole is newer
/// than all that was written before.
#[test]
fn a_hole_covers_older_content() {
    let before = Image::new();
    let ino = before.ino(b"file");
    let mut image = before.used(|fs| {
        fs.write(ino.into(), 0, &content(7, 4096), NOW).unwrap();
        fs.sync().unwrap();
        fs.create(1, b"later", &file(), NOW).unwrap();
    });
    let version = |image: &Image, node: &Found| image.word(node.at + 16);
    let newest = image.of_inode(ino).into_iter().max_by_key(|node| version(&image, node)).unwrap();
    image.tear(newest, 80);
    let highest = version(&image, &newest);
    let (repair, after) = image.repaired();
    assert_eq!(losses(&repair), ["file: bytes 0 to 4095 of the content"]);
    let mut expected = content(2, 12_000);
    expected[..4096].fill(0);
    let mut found = vec![1; 12_000];
    after.fs().read(ino.into(), 0, &mut found).unwrap();
    assert!(found == expected, "{:#?}", lines(&repair));
    let newest = after.of_inode(ino).iter().map(|node| version(&after, node)).max();
    assert_eq!(newest, Some(highest + 1));
}

#[test]
fn the_end_of_a_file() {
    let ino = Image::new().ino(b"file");
    let damage = |image: &mut Image| {
        let nodes = image.of_inode(ino);
        let holds =
            |node: &&Found| image.word(node.at + 44) == 8192 && image.word(node.at + 52) > 0;
        let node = *nodes.iter().find(holds).unwrap();
        image.tear(node, 80);
    };
    let (repair, after) = case(damage, Level::Drop, "node-damaged");
    assert_eq!(losses(&repair), ["file: bytes 8192 to 11999 of the content"]);
    let attr = after.fs().attr(ino.into()).unwrap();
    assert!(attr.size == 8192 || attr.size == 12_000, "{}", attr.size);
}

#[test]
fn a_name_without_an_inode() {
    let before = Image::new();
    let ino = before.ino(b"dir/deep");
    let damage = |image: &mut Image| {
        for node in image.of_inode(ino) {
            image.tear(node, 20);
        }
    };
    let (repair, after) = case(damage, Level::Drop, "dangling-name");
    assert_eq!(losses(&repair), ["dir/deep: the name"]);
    assert_eq!(after.tree(), without(before.tree(), "/dir/deep"));
}

#[test]
fn an_inode_that_lost_its_name() {
    let before = Image::new();
    let ino = before.ino(b"file");
    let damage = |image: &mut Image| {
        let node = image.entry(b"file");
        image.tear(node, 41);
    };
    // With a summary, the name is left there.
    let damage = |image: &mut Image| {
        image.without_summaries();
        damage(image);
    };
    let (repair, after) = case(damage, Level::Safe, "name-lost");
    assert_eq!(losses(&repair), [""; 0]);
    let found = format!("/lost+found/INO_{ino}_0");
    assert_eq!(after.tree()[found.as_bytes()], before.tree()[&b"/file"[..]]);
}

#[test]
fn a_name_that_linux_does_not_allow() {
    let before = Image::new();
    let ino = before.ino(b"kept");
    let damage = |image: &mut Image| {
        let at = image.entry(b"kept").at;
        let mut node = Vec::new();
        let entry = Dirent {
            pino: 1,
            version: image.word(at + 16),
            ino,
            mctime: image.word(at + 24),
            file_type: 8,
            name: b"k/pt",
        };
        encode::dirent(ByteOrder::Little, &entry, &mut node);
        image.0[at..at + node.len()].copy_from_slice(&node);
    };
    let (_, after) = case(damage, Level::Safe, "name-not-allowed");
    let name = format!("/INO_{ino}_0");
    assert_eq!(after.tree()[name.as_bytes()], before.tree()[&b"/kept"[..]]);
}

#[test]
fn a_directory_with_two_names() {
    let before = Image::new();
    let dir = before.ino(b"dir");
    let damage = |image: &mut Image| {
        let mut node = Vec::new();
        let mctime = 2_000_000;
        let entry =
            Dirent { pino: 1, version: 900, ino: dir, mctime, file_type: 4, name: b"other" };
        encode::dirent(ByteOrder::Little, &entry, &mut node);
        image.0.resize(image.0.len() + BLOCK, 0xFF);
        let at = image.0.len() - BLOCK;
        image.0[at..at + node.len()].copy_from_slice(&node);
    };
    let (repair, after) = case(damage, Level::Drop, "directory-named-twice");
    assert_eq!(losses(&repair), ["dir: the name"]);
    assert!(after.tree().contains_key(&b"/other/deep"[..]), "{:?}", after.tree());
}

#[test]
fn bytes_that_are_no_node() {
    let before = Image::new();
    let damage = |image: &mut Image| {
        let at = image.0.len() - BLOCK + 400;
        image.0[at..at + 100].fill(0x5A);
        let at = image.0.len() - BLOCK;
        let mut node = Vec::new();
        encode::padding(ByteOrder::Little, 400, &mut node);
        image.0[at..at + 400].copy_from_slice(&node);
        let mut entry = Vec::new();
        let dirent = Dirent { pino: 1, version: 0, ino: 0, mctime: 0, file_type: 0, name: b"none" };
        encode::dirent(ByteOrder::Little, &dirent, &mut entry);
        image.0[at + 500..at + 500 + entry.len()].copy_from_slice(&entry);
    };
    let (repair, after) = case(damage, Level::Safe, "no-node");
    assert_eq!(losses(&repair), [""; 0]);
    assert_eq!(after.tree(), before.tree());
}

#[test]
fn a_damaged_xattr() {
    let before = Image::new();
    let damage = |image: &mut Image| {
        let node = image.nodes(XATTR, |_| true)[0];
        image.tear(node, 34);
    };
    let (repair, after) = case(damage, Level::Drop, "node-damaged");
    assert_eq!(losses(&repair), ["file: an xattr"]);
    assert_eq!(without(after.tree(), "/file"), without(before.tree(), "/file"));
}

#[test]
fn a_damaged_summary() {
    let before = Image::new();
    let mut image = before.clone();
    let summary = image.nodes(SUMMARY, |_| true).first().copied();
    let summary = summary.expect("the run time fills a block and ends it with a summary");
    image.tear(summary, 34);
    let (repair, after) = image.repaired();
    assert_eq!(repair.plan().level(), Some(Level::Safe), "{:#?}", lines(&repair));
    assert_eq!(repair.plan().actions()[0].code, "summary-damaged");
    assert_eq!(after.tree(), before.tree());
}

/// The root directory after all names of its first summarised block were blanked; `blanked` also changes
/// what the summary lists.
fn without_listed_names(blanked: impl Fn(&mut Image, &[Found])) -> (Image, Image) {
    let before = Image::new();
    let mut image = before.clone();
    let summary = image.nodes(SUMMARY, |_| true)[0];
    let block = summary.at / BLOCK * BLOCK..summary.at;
    let names: Vec<Found> =
        image.nodes(DIRENT, |_| true).into_iter().filter(|node| block.contains(&node.at)).collect();
    assert!(!names.is_empty());
    blanked(&mut image, &names);
    (before, image)
}

/// Damage number 21,508 of the campaign blanked the entry of a directory, and nothing but it: the block's
/// summary still listed it, so that the run time counted a name that it did not find. Summaries were
/// compared with the nodes that are there only.
#[test]
fn names_that_only_a_summary_lists() {
    let (before, image) = without_listed_names(|image, names| {
        for node in names {
            image.0[node.at..][..node.len].fill(0xFF);
        }
    });
    let (repair, after) = image.repaired();
    assert_eq!(repair.plan().level(), Some(Level::Safe), "{:#?}", lines(&repair));
    assert_eq!(after.tree(), before.tree());
}

#[test]
fn a_damaged_name_that_a_summary_lists_keeps_its_place() {
    let (before, image) = without_listed_names(|image, names| {
        for node in names {
            image.tear(*node, 41);
        }
    });
    let (repair, after) = image.repaired();
    assert_eq!(repair.plan().level(), Some(Level::Safe), "{:#?}", lines(&repair));
    assert_eq!(after.tree(), before.tree());
}

/// An older entry is still there, as on NAND, where nothing is marked as obsolete.
#[test]
fn a_deletion_that_only_a_summary_lists() {
    let mut image = Image::new().used(|fs| {
        fs.unlink(1, b"kept", NOW).unwrap();
        let ino = fs.create(1, b"later", &file(), NOW).unwrap();
        fs.write(ino, 0, &content(4, 40_000), NOW).unwrap();
    });
    let before = image.tree();
    let is_kept = |node: &[u8]| node[40..].starts_with(b"kept");
    let is_older = |node: &[u8]| is_kept(node) && node[20..24] != [0; 4];
    assert_eq!(image.nodes(DIRENT, is_older).len(), 1);
    let deletion = image.nodes(DIRENT, |node| is_kept(node) && node[20..24] == [0; 4])[0];
    image.0[deletion.at..][..deletion.len].fill(0xFF);
    let (repair, after) = image.repaired();
    assert_eq!(losses(&repair), ["kept: the name"], "{:#?}", lines(&repair));
    assert_eq!(after.tree(), before);
}

/// A reader cannot look at what has no name: its damage is repaired in a second round.
#[test]
fn damage_of_a_file_that_lost_its_name() {
    let before = Image::new();
    let (dir, deep) = (before.ino(b"dir"), before.ino(b"dir/deep"));
    let damage = |image: &mut Image| {
        image.without_summaries();
        image.tear_entry(b"dir");
        let node = *image.of_inode(deep).iter().find(|node| node.len > 100).unwrap();
        image.tear(node, 80);
    };
    let (repair, after) = case(damage, Level::Drop, "name-lost");
    let lost = format!("lost+found/INO_{dir}_0/deep: bytes 0 to 2999 of the content");
    assert_eq!(losses(&repair), [lost]);
    assert_eq!(after.ino(format!("lost+found/INO_{dir}_0/deep").as_bytes()), deep);
}

#[test]
fn a_file_without_a_free_block_grows() {
    let before = Image::new();
    let used = before.0.iter().rposition(|byte| *byte != 0xFF).unwrap();
    let mut image = before.clone();
    image.without_summaries();
    image.0.truncate((used + 1).next_multiple_of(4));
    let node = image.entry(b"file");
    image.tear(node, 41);
    let (_, after) = image.repaired();
    assert_eq!(after.tree().len(), 5, "{:?}", after.tree());
}

/// What follows the file system in its file is none of its business.
#[test]
fn other_data_behind_it_stays() {
    let mut image = Image::new();
    let end = image.0.len();
    image.0.resize(end + 2 * BLOCK, 0x3C);
    image.0.resize(end + 3 * BLOCK, 0xFF);
    let node = image.entry(b"file");
    image.tear(node, 41);
    let repair = image.examined().unwrap();
    let last = repair.blocks().last_key_value().unwrap();
    assert!((*last.0 as usize) < end / BLOCK, "{last:?}");
    // Without a free block before it, there is no room.
    for block in 0..end / BLOCK {
        let bytes = &mut image.0[block * BLOCK..][..BLOCK];
        if bytes[12..].iter().all(|byte| *byte == 0xFF) {
            bytes.fill(0x3C);
        }
    }
    let refused = image.examined().unwrap_err();
    assert!(matches!(refused, RepairError::NoBlock), "{refused}");
}
