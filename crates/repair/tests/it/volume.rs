//! A volume in memory, ways to fill and damage it, and what must hold after its repair.

use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use eraseblock_repair::{Level, Repair, RepairError, examine};
use eraseblock_ubifs::mkfs::{self, Compressor, DeviceSink, MkfsOptions, NoProgress};
use eraseblock_ubifs::{MountOptions, OpenOptions, Ubifs, UbifsMount};
use eraseblock_vfs::source::{SourceKind, SourceNode};
use eraseblock_vfs::{
    Caller, FileKind, FileSystem, NewInode, NewKind, SourceTree, Timestamp, WritableFileSystem,
    XattrMode,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

pub(crate) const LEB: usize = 15_872;
pub(crate) const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// A volume in memory; `None` is an unmapped LEB.
#[derive(Debug)]
pub(crate) struct Memory(Mutex<Vec<Option<Vec<u8>>>>);

impl Memory {
    fn new(lebs: u32) -> Self {
        Self(Mutex::new(vec![None; lebs as usize]))
    }
}

impl LebDevice for Memory {
    fn leb_size(&self) -> u32 {
        LEB as u32
    }

    fn min_io(&self) -> u32 {
        512
    }

    fn max_write(&self) -> u32 {
        2048
    }

    fn leb_count(&self) -> u32 {
        self.0.lock().unwrap().len() as u32
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        buf.fill(0xFF);
        let lebs = self.0.lock().unwrap();
        let stored = lebs[leb.index()].as_deref().unwrap_or_default();
        let stored = stored.get(offset as usize..).unwrap_or_default();
        let len = stored.len().min(buf.len());
        buf[..len].copy_from_slice(&stored[..len]);
        Ok(ReadOutcome::CLEAN)
    }

    fn is_mapped(&self, leb: Leb) -> Result<bool, MtdError> {
        Ok(self.0.lock().unwrap()[leb.index()].is_some())
    }

    fn write(&self, leb: Leb, offset: u32, data: &[u8]) -> Result<(), MtdError> {
        let mut lebs = self.0.lock().unwrap();
        let stored = lebs[leb.index()].get_or_insert_with(Vec::new);
        assert!(stored.len() <= offset as usize, "{}", Location::Leb(leb, offset));
        stored.resize(offset as usize, 0xFF);
        stored.extend_from_slice(data);
        Ok(())
    }

    fn change(&self, leb: Leb, data: &[u8]) -> Result<(), MtdError> {
        assert!(data.len() <= LEB && data.len().is_multiple_of(512), "{leb}");
        self.0.lock().unwrap()[leb.index()] = Some(data.to_vec());
        Ok(())
    }

    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.0.lock().unwrap()[leb.index()].get_or_insert_with(Vec::new);
        Ok(())
    }

    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.0.lock().unwrap()[leb.index()] = None;
        Ok(())
    }

    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

/// A volume with an empty file system.
pub(crate) fn empty(lebs: u32) -> Arc<Memory> {
    let volume = Memory::new(lebs);
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let options =
        MkfsOptions { compressor: Compressor::Lzo, ..MkfsOptions::new(LEB as u32, 512, lebs) };
    mkfs::build(&SourceTree::new(root), &options, &mut DeviceSink(&volume), &NoProgress).unwrap();
    Arc::new(volume)
}

pub(crate) fn mount(volume: &Arc<Memory>) -> UbifsMount {
    UbifsMount::mount(Arc::clone(volume) as _, MountOptions::default()).unwrap().0
}

pub(crate) fn file() -> NewInode<'static> {
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 1, gid: 2 }
}

pub(crate) fn folder() -> NewInode<'static> {
    NewInode { kind: NewKind::Directory, permissions: 0o750, uid: 3, gid: 4 }
}

/// Content that no other file has, and that compression cannot shrink much.
pub(crate) fn content(seed: u32, len: u32) -> Vec<u8> {
    (0..len)
        .map(|at| ((at ^ seed.wrapping_mul(77)).wrapping_mul(0x9E37_79B1) >> 13) as u8)
        .collect()
}

/// A tree with every kind of leaf: `dir/sub/deep`, `file` (5 blocks), `also-file` (a link), `link`, `dev`,
/// an xattr of `file`.
pub(crate) fn sample() -> Arc<Memory> {
    let volume = empty(60);
    let fs = mount(&volume);
    let dir = fs.create(1, b"dir", &folder(), NOW).unwrap();
    let sub = fs.create(dir, b"sub", &folder(), NOW).unwrap();
    let deep = fs.create(sub, b"deep", &file(), NOW).unwrap();
    fs.write(deep, 0, &content(1, 3000), NOW).unwrap();
    let ino = fs.create(1, b"file", &file(), NOW).unwrap();
    fs.write(ino, 0, &content(2, 20_000), NOW).unwrap();
    fs.link(ino, 1, b"also-file", NOW).unwrap();
    fs.set_xattr(ino, b"user.name", b"value", XattrMode::Either, NOW).unwrap();
    let link = NewInode { kind: NewKind::Symlink(b"file"), permissions: 0o777, uid: 0, gid: 0 };
    fs.create(1, b"link", &link, NOW).unwrap();
    let dev = NewInode { kind: NewKind::CharDevice(5, 1), permissions: 0o600, uid: 0, gid: 0 };
    fs.create(1, b"dev", &dev, NOW).unwrap();
    fs.sync().unwrap();
    fs.unmount().unwrap();
    volume
}

/// What a tree holds: path, and what is there.
pub(crate) type Tree = BTreeMap<Vec<u8>, String>;

/// Reads everything that can be read.
pub(crate) fn tree(fs: &dyn FileSystem) -> Tree {
    let mut tree = Tree::new();
    let mut open = vec![(fs.root(), Vec::new())];
    while let Some((dir, path)) = open.pop() {
        for entry in fs.entries(dir).unwrap_or_default() {
            let mut path: Vec<u8> = path.clone();
            path.extend_from_slice(b"/");
            path.extend_from_slice(&entry.name);
            let Ok(attr) = fs.attr(entry.ino) else { continue };
            let held = match attr.kind {
                FileKind::Directory => {
                    open.push((entry.ino, path.clone()));
                    String::new()
                }
                FileKind::Symlink => format!("{:?}", fs.read_link(entry.ino).unwrap()),
                FileKind::Regular => {
                    let mut bytes = vec![0; attr.size as usize];
                    let read = fs.read(entry.ino, 0, &mut bytes);
                    format!("{} bytes {:08x} {}", attr.size, crc32(&bytes), read.is_ok())
                }
                _ => format!("{:?}", attr.rdev),
            };
            let xattrs: Vec<_> = fs
                .list_xattrs(entry.ino)
                .unwrap_or_default()
                .into_iter()
                .map(|name| (fs.xattr(entry.ino, &name).unwrap_or_default(), name))
                .collect();
            let line = format!("{:o} {} {} {held} {xattrs:?}", attr.mode(), attr.uid, attr.gid);
            tree.insert(path, line);
        }
    }
    tree
}

pub(crate) fn opened(volume: &Arc<Memory>) -> Ubifs {
    Ubifs::open(Arc::clone(volume) as _, &OpenOptions { strict: false }).unwrap().0
}

pub(crate) fn tree_of(volume: &Arc<Memory>) -> Tree {
    tree(&opened(volume))
}

pub(crate) fn examined(volume: &Arc<Memory>) -> Result<Repair, RepairError> {
    let device: Arc<dyn LebDevice> = Arc::clone(volume) as _;
    examine(&device)
}

/// Repairs the volume, and checks everything that must hold afterwards. Returns the plan's lines.
pub(crate) fn repaired(volume: &Arc<Memory>) -> (Repair, Vec<String>) {
    let repair = examined(volume).unwrap_or_else(|error| panic!("{error}"));
    let again = examined(volume).unwrap();
    assert_eq!(repair.plan(), again.plan(), "the plan is deterministic");
    repair.apply(&**volume).unwrap();
    let lines: Vec<String> =
        repair.plan().actions().iter().map(eraseblock_repair::Action::line).collect();
    let second = examined(volume).unwrap_or_else(|error| panic!("{error}\n{lines:#?}"));
    assert!(second.plan().is_empty(), "{:?}", second.plan());
    // The file system can be used.
    let fs = mount(volume);
    assert!(fs.check().unwrap().iter().next().is_none(), "{:?}", fs.check());
    let ino = fs.create(1, b"new", &file(), NOW).unwrap();
    fs.write(ino, 0, &content(9, 9000), NOW).unwrap();
    fs.sync().unwrap();
    assert!(fs.check().unwrap().iter().next().is_none(), "{:?}", fs.check());
    fs.unlink(1, b"new", NOW).unwrap();
    fs.unmount().unwrap();
    (repair, lines)
}

pub(crate) fn level(repair: &Repair) -> Option<Level> {
    repair.plan().level()
}

/// A node on flash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) leb: usize,
    pub(crate) at: usize,
    pub(crate) kind: u8,
    pub(crate) sqnum: u64,
    pub(crate) len: usize,
}

impl Memory {
    pub(crate) fn bytes(&self, leb: usize) -> Vec<u8> {
        let mut bytes = self.0.lock().unwrap()[leb].clone().unwrap_or_default();
        bytes.resize(LEB, 0xFF);
        bytes
    }

    /// Every node with a good CRC.
    pub(crate) fn nodes(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for leb in 0..self.leb_count() as usize {
            let bytes = self.bytes(leb);
            let mut at = 0;
            while at + 24 <= LEB {
                let len = u32::from_le_bytes(bytes[at + 16..at + 20].try_into().unwrap()) as usize;
                let starts = bytes[at..].starts_with(&0x0610_1831_u32.to_le_bytes());
                let is_node = starts && len >= 24 && at + len <= LEB;
                let sum = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap());
                if is_node && crc32(&bytes[at + 8..at + len]) == sum {
                    let sqnum = u64::from_le_bytes(bytes[at + 8..at + 16].try_into().unwrap());
                    found.push(Found { leb, at, kind: bytes[at + 20], sqnum, len });
                    at += len.next_multiple_of(8);
                } else {
                    at += 8;
                }
            }
        }
        found
    }

    /// The newest node of a type for which something holds.
    pub(crate) fn find(&self, kind: u8, holds: impl Fn(&[u8]) -> bool) -> Found {
        let nodes = self.nodes().into_iter().filter(|node| node.kind == kind);
        let held = nodes.filter(|node| holds(&self.bytes(node.leb)[node.at..node.at + node.len]));
        held.max_by_key(|node| node.sqnum).expect("a node to damage")
    }

    pub(crate) fn entry(&self, name: &[u8]) -> Found {
        self.find(2, |node| node[56..] == *[name, &[0]].concat())
    }

    pub(crate) fn inode(&self, ino: u64) -> Found {
        self.find(0, |node| node[24..28] == (ino as u32).to_le_bytes())
    }

    pub(crate) fn ino(&self, name: &[u8]) -> u64 {
        let entry = self.entry(name);
        let bytes = self.bytes(entry.leb);
        u64::from_le_bytes(bytes[entry.at + 40..entry.at + 48].try_into().unwrap())
    }

    pub(crate) fn block(&self, ino: u64, block: u32) -> Found {
        let word = 1_u32 << 29 | block;
        self.find(1, |node| {
            node[24..28] == (ino as u32).to_le_bytes() && node[28..32] == word.to_le_bytes()
        })
    }

    /// Every version of the content of an inode.
    pub(crate) fn blocks(&self, ino: u64) -> Vec<Found> {
        let is_its = |node: &Found| {
            node.kind == 1
                && self.bytes(node.leb)[node.at + 24..][..4] == (ino as u32).to_le_bytes()
        };
        self.nodes().into_iter().filter(is_its).collect()
    }

    /// Puts bytes into a LEB.
    pub(crate) fn put(&self, leb: usize, at: usize, bytes: &[u8]) {
        let mut lebs = self.0.lock().unwrap();
        let stored = lebs[leb].get_or_insert_with(Vec::new);
        let end = (at + bytes.len()).next_multiple_of(512).max(stored.len());
        stored.resize(end, 0xFF);
        stored[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Changes bytes of a node, and leaves its CRC wrong.
    pub(crate) fn tear(&self, node: Found, offset: usize) {
        let byte = self.bytes(node.leb)[node.at + offset] ^ 0x10;
        self.put(node.leb, node.at + offset, &[byte]);
    }

    /// Changes bytes of a node, and makes its CRC right again.
    pub(crate) fn set(&self, node: Found, offset: usize, bytes: &[u8]) {
        self.put(node.leb, node.at + offset, bytes);
        self.seal(node);
    }

    pub(crate) fn seal(&self, node: Found) {
        let bytes = self.bytes(node.leb);
        let sum = crc32(&bytes[node.at + 8..node.at + node.len]);
        self.put(node.leb, node.at + 4, &sum.to_le_bytes());
    }

    /// Makes padding of a node, as if garbage collection had dropped it.
    pub(crate) fn blank(&self, node: Found) {
        let len = node.len.next_multiple_of(8);
        let mut padding = vec![0; len];
        padding[..4].copy_from_slice(&self.bytes(node.leb)[node.at..node.at + 4]);
        padding[16] = 28;
        padding[20] = 5;
        padding[24..28].copy_from_slice(&(len as u32 - 28).to_le_bytes());
        self.put(node.leb, node.at, &padding);
        self.seal(Found { len: 28, ..node });
    }

    /// Tears every index node, so that no witness is left.
    pub(crate) fn tear_index(&self) {
        for node in self.nodes().into_iter().filter(|node| node.kind == 9) {
            self.tear(node, 30);
        }
    }

    pub(crate) fn erase(&self, leb: usize) {
        self.0.lock().unwrap()[leb] = None;
    }

    pub(crate) fn masters(&self) -> [Found; 2] {
        [1, 2].map(|leb| {
            let nodes = self.nodes().into_iter().filter(|node| node.leb == leb && node.kind == 7);
            nodes.max_by_key(|node| node.sqnum).unwrap()
        })
    }

    pub(crate) fn in_master(&self, offset: usize) -> u32 {
        let [one, _] = self.masters();
        let bytes = self.bytes(one.leb);
        u32::from_le_bytes(bytes[one.at + offset..one.at + offset + 4].try_into().unwrap())
    }

    pub(crate) fn snapshot(&self) -> Vec<Option<Vec<u8>>> {
        self.0.lock().unwrap().clone()
    }

    /// All LEBs, one after the other.
    pub(crate) fn image(&self) -> Vec<u8> {
        (0..self.leb_count() as usize).flat_map(|leb| self.bytes(leb)).collect()
    }

    pub(crate) fn of(lebs: Vec<Option<Vec<u8>>>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(lebs)))
    }
}

/// Unmounts some file systems, leaves others as a power cut would, and mounts some of these once more,
/// which commits all of the journal. Returns whether that was done.
pub(crate) fn leave(fs: UbifsMount, seed: u64, mount: impl Fn() -> UbifsMount) -> bool {
    let is_committed = seed % 3 == 1;
    if seed % 3 == 2 {
        fs.unmount().unwrap();
    } else {
        fs.sync().unwrap();
        drop(fs);
    }
    if is_committed {
        mount().unmount().unwrap();
    }
    is_committed
}
