//! Versions of a JFFS2 against the states that a model knows.

use crate::model::Random;
use eraseblock_base::{Geometry, MediumKind};
use eraseblock_history::content::Contents;
use eraseblock_history::{Class, History, Version};
use eraseblock_jffs2::{Jffs2, Jffs2Rw, OpenOptions, RwOptions, Source};
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::{
    Caller, FsError, FsErrorKind, NewInode, NewKind, RenameMode, SetAttr, Timestamp,
    WritableFileSystem,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

const BLOCK: u32 = 16 << 10;
const PAGE: u64 = 4096;

/// A JFFS2, and its states.
struct Known {
    mtd: Arc<Chip>,
    /// Names and inodes at the end.
    names: BTreeMap<Vec<u8>, u32>,
    now: HashMap<u32, Vec<u8>>,
    /// Every content that an inode number had after an operation.
    ever: HashMap<u32, Vec<Vec<u8>>>,
    /// Names that were removed.
    removed: Vec<Vec<u8>>,
    time: i64,
}

impl Known {
    /// Runs `count` operations, each of which writes one node, on a flash of `blocks` eraseblocks.
    fn new(seed: u64, kind: MediumKind, blocks: u32, count: u64) -> Self {
        let (page, subpage) = if kind == MediumKind::Nor { (1, 1) } else { (512, 512) };
        let oob = if kind == MediumKind::Nor { 0 } else { 16 };
        let geometry = Geometry::new(kind, BLOCK, blocks, page, subpage, oob).unwrap();
        let mtd = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
        let (names, now, ever, removed) = Default::default();
        let mut known = Self { mtd, names, now, ever, removed, time: 1_000_000 };
        let mut random = Random(seed);
        let mut fs = known.mount();
        for _ in 0..count {
            match known.operation(&fs, &mut random) {
                Ok(()) => {}
                Err(error) if error.kind() == FsErrorKind::NoSpace => {}
                Err(error) => panic!("seed {seed}: {error}"),
            }
            // Where nodes are marked obsolete, numbers may be used again after a new mount.
            if random.below(40) == 0 {
                fs.unmount().unwrap();
                fs = known.mount();
            }
        }
        fs.unmount().unwrap();
        known
    }

    fn mount(&self) -> Jffs2Rw {
        Jffs2Rw::mount(Arc::clone(&self.mtd) as Arc<dyn Mtd>, &RwOptions::default()).unwrap().0
    }

    fn operation(&mut self, fs: &Jffs2Rw, random: &mut Random) -> Result<(), FsError> {
        self.time += 60;
        let by = &Caller::owner(Timestamp::from_seconds(self.time));
        let name = format!("file-{}", random.below(9)).into_bytes();
        let Some(ino) = self.names.get(&name).copied() else {
            let inode = NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 1, gid: 2 };
            let ino = u32::try_from(fs.create(1, &name, &inode, by)?).unwrap();
            self.names.insert(name, ino);
            self.note(ino, Vec::new());
            return Ok(());
        };
        let mut content = self.now[&ino].clone();
        let len = content.len() as u64;
        match random.below(9) {
            0 => {
                fs.unlink(1, &name, by)?;
                self.forget(&name);
            }
            1 => {
                let other = format!("file-{}", random.below(9)).into_bytes();
                if other != name {
                    fs.rename((1, &name), (1, &other), RenameMode::Replace, by)?;
                    self.forget(&other);
                    self.names.remove(&name);
                    self.removed.push(name);
                    self.names.insert(other, ino);
                }
            }
            2 => {
                let size = random.below(len + 1);
                let changes = SetAttr { size: Some(size), ..SetAttr::default() };
                fs.set_attr(ino.into(), &changes, by)?;
                content.truncate(size as usize);
                self.note(ino, content);
            }
            _ => {
                // Within a page, and without a gap: one node.
                let offset = random.below(len.min(20_000) + 1);
                let most = PAGE - offset % PAGE;
                let word = random.next();
                let data: Vec<u8> = (0..=random.below(most))
                    .take(most as usize)
                    .map(|at| Random(word ^ (at / 3)).next().to_le_bytes()[0])
                    .collect();
                fs.write(ino.into(), offset, &data, by)?;
                let start = offset as usize;
                content.resize(content.len().max(start + data.len()), 0);
                content[start..start + data.len()].copy_from_slice(&data);
                self.note(ino, content);
            }
        }
        Ok(())
    }

    fn note(&mut self, ino: u32, content: Vec<u8>) {
        self.ever.entry(ino).or_default().push(content.clone());
        self.now.insert(ino, content);
    }

    fn forget(&mut self, name: &[u8]) {
        if let Some(ino) = self.names.remove(name) {
            self.now.remove(&ino);
            self.removed.push(name.to_vec());
        }
    }
}

/// How many versions of each class there are, and how many of them the file never was.
type Counts = BTreeMap<&'static str, (u64, u64)>;

fn compare(known: &Known, counts: &mut Counts) -> Result<u64, String> {
    let source = Source::Device(Arc::clone(&known.mtd) as _);
    let (fs, findings) = Jffs2::open(source, &OpenOptions::default()).unwrap();
    let (history, nodes) = History::read_flash(Arc::new(fs), findings).unwrap();
    let mut contents = Contents::of_flash(nodes);
    let mut read = |version: &Version| {
        let content = contents.open(version).unwrap();
        let mut bytes = vec![0; content.size() as usize];
        content.read(0, &mut bytes).map(|()| bytes)
    };
    let mut live = 0;
    for version in history.all().filter(|version| version.ino != 1) {
        let what = || format!("inode {}, version {}", version.ino, version.newest);
        let bytes = read(version).map_err(|error| format!("{}: {error}", what()))?;
        let ever = known.ever.get(&version.ino);
        let is_right = ever.is_some_and(|all| all.contains(&bytes));
        let (all, wrong) = counts.entry(version.class.name()).or_default();
        *all += 1;
        *wrong += u64::from(!is_right);
        let is_sure = matches!(version.class, Class::Proven | Class::Consistent);
        if is_sure && !is_right {
            let all = history.versions(version.ino).iter();
            let all = all.map(|it| (it.newest, it.class, it.attributes.map(|it| it.ctime.seconds)));
            let all: Vec<_> = all.collect();
            let sizes = ever.map(|all| all.iter().map(Vec::len).collect::<Vec<_>>());
            return Err(format!("{}: the file never was that: {all:?}, {sizes:?}", what()));
        }
        if version.class == Class::Live {
            live += 1;
            if known.now.get(&version.ino) != Some(&bytes) {
                return Err(format!("{}: the file is something else", what()));
            }
            let named: Vec<&Vec<u8>> = version.paths.iter().collect();
            let names = known.names.iter().filter(|(_, ino)| **ino == version.ino);
            if named != names.map(|(name, _)| name).collect::<Vec<_>>() {
                return Err(format!("{}: it has other names", what()));
            }
        }
    }
    if live != known.now.len() {
        return Err(format!("{live} files are there, expected {}", known.now.len()));
    }
    for it in history.deleted() {
        if !known.removed.contains(&it.path) {
            return Err(format!("{}: it was never removed", String::from_utf8_lossy(&it.path)));
        }
    }
    Ok(history.deleted().len() as u64)
}

/// With ERASEBLOCK_HISTORY=NUMBER, so many flashes instead of forty.
#[test]
fn proven_versions_of_a_jffs2_are_what_the_files_were() {
    let flashes = std::env::var("ERASEBLOCK_HISTORY").ok().and_then(|text| text.parse().ok());
    let (mut counts, mut deleted) = (Counts::new(), 0);
    for seed in 0..flashes.unwrap_or(40) {
        let kind = if seed % 2 == 0 { MediumKind::Nor } else { MediumKind::Nand };
        let blocks = 12 + 4 * (seed as u32 % 6);
        let known = Known::new(seed, kind, blocks, 100 + 90 * (seed % 5));
        let found = compare(&known, &mut counts);
        deleted += found.unwrap_or_else(|wrong| panic!("seed {seed}, {kind:?}: {wrong}"));
    }
    println!("{counts:#?}, {deleted} deleted");
    assert!(counts["proven"].0 > 1000 && counts["likely"].0 > 100, "{counts:?}");
    assert!(counts["consistent"].0 > 100, "{counts:?}");
    assert!(counts["partial"].0 > 100 && deleted > 100, "{counts:?}, {deleted}");
}
