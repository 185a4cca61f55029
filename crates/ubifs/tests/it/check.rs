//! One damaged image for each row of the specification's section 21: `check` names it.

use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::{Lebs, StrictLeb};
use eraseblock_base::crc::crc32;
use eraseblock_base::{Leb, Location};
use eraseblock_ubifs::{MountOptions, UbifsMount};
use eraseblock_ubifs_format::lpt::{LebProps, LptGeometry, Nnode, NnodeBranch, Pnode};
use eraseblock_ubifs_format::{Limits, Superblock, decode};
use eraseblock_vfs::{Caller, NewInode, NewKind, Timestamp, WritableFileSystem, XattrMode};
use std::collections::BTreeSet;
use std::sync::Arc;

const LEB: usize = 15_872;
const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));

/// A node on flash: its place, its type, its sequence number.
#[derive(Clone, Copy, Debug)]
struct Found {
    at: usize,
    kind: u8,
    sqnum: u64,
}

/// A whole volume as one sequence of bytes.
#[derive(Clone)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    pub(crate) fn of(volume: &StrictLeb) -> Self {
        let mut bytes = Vec::new();
        for leb in volume.lebs() {
            let mut content = leb.map(|leb| leb.to_vec()).unwrap_or_default();
            content.resize(LEB, 0xFF);
            bytes.extend(content);
        }
        Self(bytes)
    }

    pub(crate) fn volume(&self) -> Arc<StrictLeb> {
        let unmapped = |leb: &[u8]| leb.iter().all(|byte| *byte == 0xFF);
        let used = |leb: &[u8]| leb.iter().rposition(|byte| *byte != 0xFF).map_or(0, |at| at + 1);
        let content = |leb: &[u8]| leb[..used(leb).next_multiple_of(512)].to_vec();
        let lebs: Lebs = self
            .0
            .chunks(LEB)
            .map(|leb| (!unmapped(leb)).then(|| Arc::new(content(leb))))
            .collect();
        Arc::new(StrictLeb::new(LEB as u32, 512, 512, 0).with(lebs))
    }

    fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.0[at..at + 4].try_into().unwrap())
    }

    fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    /// Returns every node with a good CRC.
    fn nodes(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let mut at = 0;
        while at + 24 <= self.0.len() {
            let len = self.u32(at + 16) as usize;
            let fits = self.u32(at) == 0x0610_1831 && len >= 24 && at + len <= self.0.len();
            if fits && crc32(&self.0[at + 8..at + len]) == self.u32(at + 4) {
                found.push(Found { at, kind: self.0[at + 20], sqnum: self.u64(at + 8) });
                at += len.next_multiple_of(8);
            } else {
                at += 8;
            }
        }
        found
    }

    /// Returns the newest node of a type for which something holds.
    fn find(&self, kind: u8, holds: impl Fn(&Self, usize) -> bool) -> usize {
        let nodes = self.nodes();
        let nodes = nodes.iter().filter(|node| node.kind == kind && holds(self, node.at));
        nodes.max_by_key(|node| node.sqnum).expect("a node to damage").at
    }

    /// Returns the entry of a name.
    fn entry(&self, name: &[u8]) -> usize {
        self.find(2, |bytes, at| bytes.0[at + 56..].starts_with(&[name, &[0]].concat()))
    }

    /// Returns the inode node of a name.
    fn inode(&self, name: &[u8]) -> usize {
        let ino = self.u32(self.entry(name) + 40);
        self.inode_of(ino)
    }

    /// Returns the first block of the file.
    fn content(&self) -> usize {
        let ino = self.u32(self.entry(b"file") + 40);
        self.find(1, |bytes, at| bytes.u32(at + 24) == ino && bytes.u32(at + 28) << 3 == 0)
    }

    fn inode_of(&self, ino: u32) -> usize {
        self.find(0, |bytes, at| bytes.u32(at + 24) == ino)
    }

    fn seal(&mut self, at: usize) {
        let len = self.u32(at + 16) as usize;
        let crc = crc32(&self.0[at + 8..at + len]);
        self.put(at + 4, &crc.to_le_bytes());
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Changes bytes of a node and makes its CRC right again.
    fn set(&mut self, node: usize, offset: usize, bytes: &[u8]) {
        self.put(node + offset, bytes);
        self.seal(node);
    }

    /// Changes both copies of the current master.
    fn master(&mut self, offset: usize, bytes: &[u8]) {
        for leb in [1, 2] {
            let at = self.current_master(leb);
            self.set(at, offset, bytes);
        }
    }

    fn current_master(&self, leb: usize) -> usize {
        self.find(7, |_, at| at / LEB == leb)
    }

    fn in_master(&self, offset: usize) -> u32 {
        self.u32(self.current_master(1) + offset)
    }

    fn root(&self) -> usize {
        self.in_master(48) as usize * LEB + self.in_master(52) as usize
    }

    /// Returns the child of the root in a slot.
    fn child(&self, slot: usize) -> usize {
        let branch = self.root() + 28 + slot * 20;
        self.u32(branch) as usize * LEB + self.u32(branch + 4) as usize
    }

    /// Exchanges the entries of the first two branches of the root that have one key.
    pub(crate) fn swap_twins(&mut self) {
        let (root, place, key) = (self.root(), 12, 8);
        let count = usize::from(self.0[root + 24]);
        let at = |slot: usize| root + 28 + slot * (place + key);
        let key_of = |slot: usize| &self.0[at(slot) + place..at(slot) + place + key];
        let twin = (1..count).find(|slot| key_of(slot - 1) == key_of(*slot)).expect("twins");
        let (first, second) = (at(twin - 1), at(twin));
        for byte in 0..place {
            self.0.swap(first + byte, second + byte);
        }
        self.seal(root);
    }

    /// Changes the version of the format in the superblock to one with double hashes.
    pub(crate) fn set_format(&mut self, version: u32) {
        self.0[28] |= 0x08;
        self.0[80..84].copy_from_slice(&version.to_le_bytes());
        self.seal(0);
    }

    fn log(&self) -> usize {
        self.in_master(44) as usize * LEB
    }

    fn superblock(&self) -> Superblock {
        let limits = Limits::unknown(LEB as u32);
        decode::node(&self.0, &limits, Location::Whole).unwrap().superblock().unwrap()
    }

    fn geometry(&self) -> LptGeometry {
        LptGeometry::new(self.superblock().lpt_inputs())
    }

    fn lpt_leb(&self) -> usize {
        self.in_master(120) as usize * LEB
    }

    /// Returns the leaf of the LPT with this number. A leaf that was never written is created in
    /// free space.
    fn pnode(&mut self, number: u32) -> usize {
        let geometry = self.geometry();
        let place = Location::Whole;
        let mut at = self.lpt_leb() + self.in_master(124) as usize;
        for level in (1..=geometry.height).rev() {
            let node = geometry.nnode_number(level, number >> (2 * level));
            let mut nnode = Nnode::unpack(&self.0[at..], &geometry, node, level, place).unwrap();
            let slot = (number >> (2 * (level - 1))) as usize & 3;
            let leb = Leb::new((self.lpt_leb() / LEB) as u32);
            let made = NnodeBranch { leb, offset: 14_000 + 100 * level };
            let branch = *nnode.branches[slot].get_or_insert(made);
            self.put(at, &nnode.pack(&geometry));
            at = branch.leb.index() * LEB + branch.offset as usize;
            if branch == made && level == 1 {
                let lebs = [LebProps::empty(LEB as u32); 4];
                self.put(at, &Pnode { number, lebs }.pack(&geometry));
            } else if branch == made {
                let below = geometry.nnode_number(level - 1, number >> (2 * (level - 1)));
                let nnode = Nnode { number: below, branches: [None; 4] };
                self.put(at, &nnode.pack(&geometry));
            }
        }
        at
    }

    /// Changes the properties of a slot, which may be after the last LEB.
    fn props(&mut self, slot: u32, change: impl FnOnce(&mut LebProps)) {
        let geometry = self.geometry();
        let at = self.pnode(slot / 4);
        let mut pnode = Pnode::unpack(&self.0[at..], &geometry, slot / 4, Location::Whole).unwrap();
        change(&mut pnode.lebs[slot as usize % 4]);
        self.put(at, &pnode.pack(&geometry));
    }

    /// Returns the slot in the LPT of the LEB a node is in.
    fn slot_of(&self, at: usize) -> u32 {
        (at / LEB) as u32 - self.superblock().main_first()
    }

    fn orphan_area(&self) -> usize {
        self.superblock().orph_first() as usize * LEB
    }

    /// Marks the file system as in use, with possible orphans.
    fn dirty(&mut self) {
        self.master(40, &1_u32.to_le_bytes());
    }

    fn orphans(&mut self, at: usize, cmt_no: u64, inos: &[u64]) {
        self.put(at, &crate::image::node(11, 40, 0, &orphan_body(cmt_no, inos)));
    }
}

fn orphan_body(cmt_no: u64, inos: &[u64]) -> Vec<u8> {
    let mut body = cmt_no.to_le_bytes().to_vec();
    body.extend(inos.iter().flat_map(|ino| ino.to_le_bytes()));
    body
}

fn new(kind: NewKind<'_>) -> NewInode<'_> {
    NewInode { kind, permissions: 0o644, uid: 1, gid: 2 }
}

/// Returns a volume with one thing of every kind, whose names hash to their first four bytes.
fn populated() -> Arc<StrictLeb> {
    let mut bytes = Bytes::of(&empty(63));
    bytes.set(0, 26, &[1]);
    let volume = bytes.volume();
    let fs = mount(&volume).unwrap();
    let dir = fs.create(1, b"dir", &new(NewKind::Directory), NOW).unwrap();
    fs.create(dir, b"sub", &new(NewKind::Directory), NOW).unwrap();
    fs.create(1, b"link", &new(NewKind::Symlink(b"target")), NOW).unwrap();
    fs.create(1, b"pipe", &new(NewKind::Fifo), NOW).unwrap();
    fs.create(1, b"null", &new(NewKind::CharDevice(1, 3)), NOW).unwrap();
    for name in [b"file", b"gone"] {
        let ino = fs.create(1, name, &file(), NOW).unwrap();
        let text = b"a text that can be compressed ".repeat(300);
        fs.write(ino, 0, &text, NOW).unwrap();
        fs.set_xattr(ino, b"user.one", b"value", XattrMode::Either, NOW).unwrap();
    }
    for name in [b"twin-1", b"twin-2"] {
        fs.create(1, name, &file(), NOW).unwrap();
    }
    fs.sync().unwrap();
    fs.unlink(1, b"gone", NOW).unwrap();
    fs.unmount().unwrap();
    checked(&fs).unwrap();
    volume
}

/// Returns the ids of the findings, or the refusal of the mount.
fn verdict(bytes: &Bytes) -> Result<Vec<String>, String> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let fs = UbifsMount::mount(bytes.volume() as _, options).map_err(|error| error.to_string())?.0;
    let findings = fs.check().map_err(|error| error.to_string())?;
    for finding in &findings {
        let place = format!("{}: ", finding.at);
        assert!(!finding.message.starts_with(&place), "{finding}: the place occurs twice");
    }
    Ok(findings.iter().map(ToString::to_string).collect())
}

/// A row: the expected finding, or `refused`, and the damage.
type Row = (&'static str, fn(&mut Bytes));

/// Superblock, masters and log.
fn area_rows() -> Vec<Row> {
    vec![
        ("refused", |b| b.put(0, &[0])),
        ("refused", |b| b.set(0, 28, &7_u32.to_le_bytes())),
        ("refused", |b| {
            // M1
            let at = b.current_master(2);
            b.set(at, 24, &99_u64.to_le_bytes());
        }),
        ("M2", |b| b.put(2 * LEB - 512, &[0x55; 100])),
        ("refused", |b| b.master(112, &(1_u64 << 60).to_le_bytes())),
        ("refused", |b| {
            // M4
            let root = b.root();
            b.put(root + 24, &[0xAA; 4]);
        }),
        ("refused", |b| b.master(140, &8_u32.to_le_bytes())),
        ("M6", |b| {
            let offset = b.in_master(68) + 512;
            b.master(68, &offset.to_le_bytes());
        }),
        ("M7", |b| {
            let used = (b.content() / LEB) as u32;
            b.master(60, &used.to_le_bytes());
        }),
        ("M8", |b| b.master(24, &64_u64.to_le_bytes())),
        ("refused", |b| {
            // M9
            let log = b.log();
            b.set(log, 24, &99_u64.to_le_bytes());
        }),
        ("X6", |b| {
            // M10, O2: a read-only mount removes the listed orphans and finds the others.
            let at = b.inode(b"pipe");
            b.set(at, 92, &[0; 4]);
            let entry = b.entry(b"pipe");
            let other = b.u64(b.entry(b"twin-1") + 40);
            b.set(entry, 40, &other.to_le_bytes());
        }),
        ("L1", |b| {
            let log = b.log();
            b.put(log + LEB - 512, &[0x55; 100]);
        }),
        ("refused", |b| {
            // L2
            let at = b.find(8, |b, at| at / LEB == b.log() / LEB);
            b.set(at, 8, &1_u64.to_le_bytes());
        }),
        ("refused", |b| {
            // L3
            let at = b.find(8, |b, at| at / LEB == b.log() / LEB);
            b.set(at, 24, &2_u32.to_le_bytes());
        }),
        ("L5", |b| {
            let at = b.find(8, |b, at| at / LEB == b.log() / LEB && b.u32(at + 28) > 0);
            let offset = b.u32(at + 28) + 512;
            b.set(at, 28, &offset.to_le_bytes());
        }),
        ("L8", |b| {
            let leb = if b.log() == 3 * LEB { 4 } else { 3 } * LEB;
            b.put(leb, &vec![0xFF; LEB]);
            b.put(leb, &crate::image::node(10, 1, 0, &[0; 8]));
            b.put(leb + 32, &crate::image::node(10, 1 << 30, 0, &[0; 8]));
            b.put(leb + 64, &crate::image::padding(512 - 64));
        }),
    ]
}

/// Returns the index.
fn index_rows() -> Vec<Row> {
    vec![
        ("I1", |b| {
            let child = b.child(1);
            b.put(child + 24, &[0xAA; 4]);
        }),
        ("refused", |b| {
            // I2
            let root = b.root();
            let level = b.0[root + 26] + 1;
            b.set(root, 26, &[level]);
        }),
        ("I3", |b| {
            let root = b.root();
            let value = b.u32(root + 28 + 20 + 12 + 4) + 1;
            b.set(root, 28 + 20 + 12 + 4, &value.to_le_bytes());
        }),
        ("I4", |b| {
            let (one, two) = (b.entry(b"twin-1"), b.entry(b"twin-2"));
            b.set(one, 56, b"twin-2");
            b.set(two, 56, b"twin-1");
        }),
        ("X12", |b| {
            let two = b.entry(b"twin-2");
            b.set(two, 56, b"twin-1");
        }),
        ("I5", |b| {
            let child = b.child(0);
            b.set(child, 8, &(1_u64 << 40).to_le_bytes());
        }),
        ("I6", |b| {
            let size = u64::from(b.in_master(72)) + 8;
            b.master(72, &size.to_le_bytes());
        }),
        ("I7", |b| {
            let root = b.root();
            let first = b.0[root + 28..root + 36].to_vec();
            b.set(root, 48, &first);
        }),
        ("I8", |b| {
            let slot = b.slot_of(b.inode(b"file"));
            b.props(slot, |leb| leb.index = true);
        }),
        ("I10", |b| {
            let slot = b.slot_of(b.inode(b"file"));
            b.props(slot, |leb| {
                leb.free = LEB as u32;
                leb.dirty = 0;
            });
        }),
    ]
}

/// Nodes by themselves.
fn node_rows() -> Vec<Row> {
    vec![
        ("N1", |b| {
            let at = b.inode(b"file");
            b.put(at + 60, &[0xAA]);
        }),
        ("N2", |b| {
            let at = b.inode(b"file");
            b.set(at, 40, &(1_u64 << 40).to_le_bytes());
        }),
        ("N3", |b| {
            let at = b.inode(b"file");
            b.set(at, 104, &0o644_u32.to_le_bytes());
        }),
        ("N4", |b| {
            let at = b.inode(b"null");
            b.set(at, 112, &[0; 4]);
        }),
        ("N5", |b| {
            let at = b.inode(b"file");
            b.set(at, 108, &0x41_u32.to_le_bytes());
        }),
        ("N6", |b| {
            let at = b.entry(b"file");
            b.set(at, 56, b"f/le");
        }),
        ("N7", |b| {
            let at = b.entry(b"file");
            b.set(at, 56, b"fill");
        }),
        ("N8", |b| {
            let at = b.content();
            b.set(at, 48, &[0xFF; 12]);
        }),
        ("N8", |b| {
            let at = b.content();
            b.set(at, 44, &[9]);
        }),
        ("refused", |b| {
            // X1
            let at = b.inode_of(1);
            b.set(at, 104, &0o100_644_u32.to_le_bytes());
        }),
    ]
}

/// Nodes together.
fn tree_rows() -> Vec<Row> {
    vec![
        ("X1", |b| {
            let at = b.entry(b"sub");
            b.set(at, 40, &1_u64.to_le_bytes());
        }),
        ("X2", |b| {
            let at = b.inode(b"file");
            b.set(at, 104, &0o010_644_u32.to_le_bytes());
        }),
        ("X3", |b| {
            let at = b.entry(b"pipe");
            b.set(at, 40, &9999_u64.to_le_bytes());
        }),
        ("X4", |b| {
            let at = b.entry(b"pipe");
            b.set(at, 49, &[6]);
        }),
        ("X4", |b| {
            let at = b.entry(b"file");
            b.set(at, 49, &[2]);
        }),
        ("X5", |b| {
            let at = b.find(3, |b, at| b.u32(at + 24) == b.u32(b.entry(b"file") + 40));
            let other = b.u64(b.entry(b"twin-1") + 40);
            b.set(at, 40, &other.to_le_bytes());
        }),
        ("X7", |b| {
            let at = b.inode(b"file");
            b.set(at, 92, &77_u32.to_le_bytes());
        }),
        ("X8", |b| {
            let (dir, sub) = (b.entry(b"dir"), b.entry(b"sub"));
            let (one, two) = (b.u64(dir + 40), b.u64(sub + 40));
            b.set(dir, 40, &two.to_le_bytes());
            b.set(sub, 40, &one.to_le_bytes());
        }),
        ("X9", |b| {
            let at = b.inode(b"link");
            b.set(at, 48, &3_u64.to_le_bytes());
        }),
        ("X9", |b| {
            let at = b.inode(b"link");
            b.set(at, 162, &[0]);
        }),
        ("X9", |b| {
            let at = b.inode(b"dir");
            b.set(at, 48, &1000_u64.to_le_bytes());
        }),
        ("X10", |b| {
            let at = b.inode(b"file");
            b.set(at, 116, &9_u32.to_le_bytes());
        }),
        ("X10", |b| {
            let at = b.inode(b"file");
            b.set(at, 120, &5555_u32.to_le_bytes());
        }),
        ("X10", |b| {
            let at = b.inode(b"file");
            b.set(at, 128, &3_u32.to_le_bytes());
        }),
        ("X11", |b| {
            let at = b.inode(b"file");
            b.set(at, 48, &4000_u64.to_le_bytes());
        }),
    ]
}

/// LPT, LEBs, orphans and sequence numbers.
fn space_rows() -> Vec<Row> {
    vec![
        ("refused", |b| {
            // P1: the leaf of a LEB that the mount needs.
            let at = b.pnode(0);
            b.put(at + 3, &[0xAA]);
        }),
        ("refused", |b| {
            // P1
            let last = b.geometry().pnode_cnt - 1;
            let at = b.pnode(last);
            b.put(at + 3, &[0xAA]);
        }),
        ("P2", |b| {
            let behind = b.superblock().main_lebs();
            assert!(!behind.is_multiple_of(4), "a slot after the last LEB");
            b.props(behind, |leb| {
                leb.free -= 512;
                leb.dirty = 8;
            });
        }),
        ("P3", |b| {
            let at = b.lpt_leb() + 12_288;
            b.put(at, &[0; 10]);
        }),
        ("P4", |b| {
            let at = b.in_master(128) as usize * LEB + b.in_master(132) as usize - 1;
            assert_eq!(b.0[at], 0xFF, "padding after the last LPT node");
            b.put(at, &[0]);
        }),
        ("P5", |b| {
            let offset = b.in_master(132) + 512;
            b.master(132, &offset.to_le_bytes());
        }),
        ("P8", |b| {
            let slot = b.slot_of(b.inode(b"file"));
            b.props(slot, |leb| leb.dirty += 8);
        }),
        ("P8", |b| {
            let leb = b.root() / LEB;
            b.put(leb * LEB + LEB - 512, &[0x55; 100]);
        }),
        ("P9", |b| {
            // A dead node, of the file that is gone.
            let dead = b
                .nodes()
                .into_iter()
                .find(|node| node.kind == 1 && b.u32(node.at + 24) != b.u32(b.entry(b"file") + 40));
            let dead = dead.expect("content of the file that is gone").at;
            b.set(dead, 20, &[11]);
        }),
        ("P10", |b| {
            let last = b.superblock().main_lebs() - 1;
            b.props(last, |leb| leb.index = true);
        }),
        ("E1", |b| b.master(104, &8_u64.to_le_bytes())),
        ("E2", |b| {
            let used = u64::from(b.in_master(96)) + 8;
            b.master(96, &used.to_le_bytes());
        }),
        ("E3", |b| {
            let size = u64::from(b.in_master(72)) + 8;
            b.master(72, &size.to_le_bytes());
        }),
        ("O1", |b| {
            let at = b.orphan_area() + 10_240;
            b.put(at, &[0x55; 100]);
        }),
        ("O1", |b| {
            let at = b.orphan_area();
            b.put(at, &crate::image::node(10, 1, 0, &[0; 8]));
            b.put(at + 32, &crate::image::padding(512 - 32));
        }),
        ("Q1", |b| {
            let at = b.inode(b"file");
            b.set(at, 8, &(1_u64 << 40).to_le_bytes());
        }),
        ("Q2", |b| {
            let at = b.inode(b"file");
            let master = b.u64(b.current_master(1) + 8);
            b.set(at, 8, &master.to_le_bytes());
        }),
        ("Q2", |b| {
            let root = b.root();
            b.set(root, 8, &(1_u64 << 40).to_le_bytes());
        }),
        ("refused", |b| b.master(32, &(1_u64 << 40).to_le_bytes())),
    ]
}

fn judge(base: &Bytes, rows: Vec<Row>) {
    assert_eq!(verdict(base), Ok(Vec::new()));
    let mut missed = Vec::new();
    for (number, (id, damage)) in rows.into_iter().enumerate() {
        let mut bytes = base.clone();
        damage(&mut bytes);
        let verdict = verdict(&bytes);
        let is_named = match &verdict {
            Ok(findings) => findings.iter().any(|finding| {
                let ids = finding.rsplit_once(" (").map_or("", |(_, ids)| ids);
                let ids = ids.split_once(')').map_or("", |(ids, _)| ids);
                ids.split(", ").any(|named| named == id)
            }),
            Err(_) => id == "refused",
        };
        if !is_named {
            missed.push(format!("row {number}, {id}: {verdict:?}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_damage_of_a_clean_volume_is_named() {
    let rows = [area_rows(), index_rows(), node_rows(), tree_rows(), space_rows()].concat();
    judge(&Bytes::of(&populated()), rows);
}

/// Returns the volume after a power cut: a journal of two heads that was not committed.
fn cut() -> Bytes {
    let volume = populated();
    let fs = mount(&volume).unwrap();
    for name in [b"new-1", b"new-2", b"new-3"] {
        let ino = fs.create(1, name, &file(), NOW).unwrap();
        fs.write(ino, 0, &[name[4]; 9000], NOW).unwrap();
        fs.sync_file(ino).unwrap();
    }
    Bytes::of(&volume)
}

#[test]
fn every_damage_of_a_volume_in_use_is_named() {
    let rows: Vec<Row> = vec![
        ("Q3", |b| {
            // An old number in the middle of new content.
            let ino = b.u32(b.entry(b"new-2") + 40);
            let at = b.find(1, |b, at| b.u32(at + 24) == ino && b.u32(at + 28) & 0xFF == 1);
            let old = b.u64(b.inode_of(ino) + 40) + 1;
            b.set(at, 8, &old.to_le_bytes());
        }),
        ("L7", |b| {
            let at = b.entry(b"new-2");
            let next = at + (b.u32(at + 16) as usize).next_multiple_of(8);
            assert_eq!((b.0[at + 21], b.0[next + 21]), (1, 1), "the middle of a group");
            b.set(next, 21, &[0]);
        }),
        ("refused", |b| {
            // L4
            let at = b.entry(b"new-2");
            b.set(at, 20, &[11]);
        }),
        ("refused", |b| {
            // O1
            b.dirty();
            let at = b.orphan_area() + 10_240;
            b.put(at, &[0x55; 100]);
        }),
        ("O3", |b| {
            b.dirty();
            let at = b.orphan_area();
            b.orphans(at, 1, &[9000]);
            b.put(at + 40, &crate::image::padding(512 - 40));
            b.orphans(at + 512, 2 | 1 << 63, &[9001]);
            b.put(at + 512 + 40, &crate::image::padding(512 - 40));
        }),
        ("O4", |b| {
            b.dirty();
            let at = b.orphan_area();
            let lebs = b.superblock().orph_lebs as u64;
            assert_eq!(lebs, 1);
            let inos: Vec<u64> = (9000..9000 + 992).collect();
            b.orphans(at, 1 | 1 << 63, &inos);
            let end = 32 + 992 * 8;
            b.put(at + end, &crate::image::padding(end.next_multiple_of(512) - end));
        }),
    ];
    judge(&cut(), rows);
}

#[test]
fn checking_goes_on_behind_leaves_that_do_not_decode() {
    let mut bytes = Bytes::of(&populated());
    for name in [&b"file"[..], b"null", b"pipe"] {
        let at = bytes.inode(name);
        bytes.set(at, 104, &0o644_u32.to_le_bytes());
    }
    let findings = verdict(&bytes).unwrap();
    let decoded = findings.iter().filter(|finding| finding.contains("(N3, N4)"));
    assert_eq!(decoded.count(), 3, "{findings:?}");
}

#[test]
fn findings_about_leaves_name_path_and_range() {
    let base = Bytes::of(&populated());
    let lines = |damage: &dyn Fn(&mut Bytes)| {
        let mut bytes = base.clone();
        damage(&mut bytes);
        verdict(&bytes).unwrap().join("\n")
    };
    let found = lines(&|b| {
        let at = b.content();
        b.put(at + 60, &[0xAA; 4]);
    });
    assert!(found.contains(": file: bytes 0 to 4096: data node CRC"), "{found}");
    let found = lines(&|b| {
        let at = b.entry(b"sub");
        b.put(at + 50, &[0xAA; 2]);
    });
    assert!(found.contains(": dir: an entry with hash 0x"), "{found}");
    let found = lines(&|b| {
        let at = b.inode(b"pipe");
        b.set(at, 92, &7_u32.to_le_bytes());
    });
    assert!(found.contains(": pipe: link count 7"), "{found}");
}

/// Remains of a cut are no longer tolerated once a mount has repaired them and ended cleanly.
#[test]
fn a_clean_volume_has_nothing_of_what_a_cut_leaves() {
    let longer = |b: &mut Bytes| {
        let at = b.inode(b"file");
        b.set(at, 48, &8990_u64.to_le_bytes());
    };
    let mut clean = Bytes::of(&populated());
    longer(&mut clean);
    let found = verdict(&clean).unwrap().join("\n");
    assert!(found.contains("content up to 9000, but 8990 bytes long (X11)"), "{found}");
    let mut torn = cut();
    longer(&mut torn);
    assert_eq!(verdict(&torn), Ok(Vec::new()));
    // After the last node of an index LEB, in each of its units that are left.
    let base = Bytes::of(&populated());
    let lebs: BTreeSet<usize> =
        base.nodes().iter().filter(|found| found.kind == 9).map(|found| found.at / LEB).collect();
    for leb in lebs {
        let nodes = base.nodes();
        let last = nodes.iter().rfind(|found| found.at / LEB == leb).unwrap().at;
        let end = (last + base.u32(last + 16) as usize).next_multiple_of(8);
        let units = (end.next_multiple_of(512)..(leb + 1) * LEB).step_by(512);
        for at in std::iter::once(end).chain(units) {
            for garbage in [&[0x55; 8][..], &[0; 8], &[0xFE]] {
                let mut bytes = base.clone();
                bytes.put(at, garbage);
                if bytes.0 == base.0 {
                    continue;
                }
                let found = verdict(&bytes);
                assert_ne!(found, Ok(Vec::new()), "leb {leb}: {} {garbage:x?}", at % LEB);
            }
        }
    }
}

/// A commit that was cut in the gaps leaves nodes with higher numbers than everything the mount
/// finds.
#[test]
fn dead_nodes_of_the_index_may_have_any_number() {
    let mut bytes = Bytes::of(&populated());
    let root = bytes.root();
    let here = |found: &Found| found.kind == 9 && found.at / LEB == root / LEB;
    let nodes: Vec<usize> = bytes.nodes().into_iter().filter(here).map(|found| found.at).collect();
    let children = (0..8).map(|slot| bytes.child(slot)).collect::<Vec<_>>();
    let dead = nodes.iter().find(|at| **at != root && !children.contains(at)).unwrap();
    bytes.set(*dead, 8, &(1_u64 << 40).to_le_bytes());
    assert_eq!(verdict(&bytes), Ok(Vec::new()));
}

/// An xattr that was replaced while its file had no name any more.
#[test]
fn attributes_of_an_unnamed_file_go_with_it() {
    let volume = empty(63);
    let fs = mount(&volume).unwrap();
    let ino = fs.create_unnamed(1, &file(), NOW).unwrap();
    fs.set_xattr(ino, b"user.one", b"value", XattrMode::Either, NOW).unwrap();
    fs.sync().unwrap();
    fs.set_xattr(ino, b"user.one", b"another", XattrMode::Either, NOW).unwrap();
    fs.sync_file(ino).unwrap();
    // The power goes off.
    let cut = Bytes::of(&volume).volume();
    let fs = mount(&cut).unwrap();
    checked(&fs).unwrap();
    fs.unmount().unwrap();
    checked(&fs).unwrap();
}

/// The LEB that a clean unmount reserved is emptied, even if there is garbage in it by its properties:
/// Linux mounts such a volume, too.
#[test]
fn a_reserved_leb_with_garbage_is_emptied() {
    let mut bytes = Bytes::of(&populated());
    let (leb, size) = (bytes.in_master(60), LEB as u32);
    let slot = leb - bytes.superblock().main_first();
    bytes.props(slot, |leb| (leb.free, leb.dirty) = (0, size));
    bytes.put(leb as usize * LEB, &[0x55; LEB]);
    for (field, change) in [(80, size.wrapping_neg()), (88, size), (156, u32::MAX)] {
        let changed = bytes.in_master(field).wrapping_add(change);
        bytes.master(field, &changed.to_le_bytes());
    }
    let volume = bytes.volume();
    let fs = mount(&volume).unwrap();
    checked(&fs).unwrap();
    fs.create(1, b"new", &file(), NOW).unwrap();
    fs.unmount().unwrap();
    assert_eq!(verdict(&Bytes::of(&volume)), Ok(Vec::new()));
}
