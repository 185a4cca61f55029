//! Images in memory, and a tiny writer of nodes.

use eraseblock_base::crc::crc32;
use eraseblock_base::{Findings, Leb, Location};
use eraseblock_mtd::{LebDevice, MtdError, ReadOutcome};
use eraseblock_ubifs::{OpenOptions, Ubifs, UbifsError};
use eraseblock_ubifs_format::Key;
use eraseblock_vfs::FileSystem;
use std::io::Read;
use std::sync::Arc;

pub(crate) const LEB: usize = 15360;
pub(crate) const UNIT: usize = 512;

pub(crate) const BASE: u32 = 1;
pub(crate) const DATA: u32 = 2;
pub(crate) const GC: u32 = 0;

/// A volume of 30 LEBs of 15360 bytes.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) bytes: Vec<u8>,
    pub(crate) leb_size: usize,
    pub(crate) min_io: u32,
    pub(crate) max_write: u32,
    next_ref: usize,
}

impl Image {
    /// Returns the worked image of the specification (19.1) on a volume it may grow on.
    pub(crate) fn worked() -> Self {
        let packed = include_bytes!("../fixtures/worked.img.gz");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 13 * LEB);
        bytes.resize(30 * LEB, 0xFF);
        Self { bytes, leb_size: LEB, min_io: 512, max_write: 512, next_ref: UNIT }
    }

    /// Returns the same, unmounted uncleanly and with orphans possible.
    pub(crate) fn dirty() -> Self {
        let mut image = Self::worked();
        for leb in [1, 2] {
            image.patch(leb, 0, |node| node[40] = 1);
        }
        image
    }

    pub(crate) fn at(leb: usize, offset: usize) -> usize {
        leb * LEB + offset
    }

    pub(crate) fn put(&mut self, leb: usize, offset: usize, bytes: &[u8]) {
        let start = Self::at(leb, offset);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn erase(&mut self, leb: usize) {
        self.put(leb, 0, &[0xFF; LEB]);
    }

    pub(crate) fn flip(&mut self, leb: usize, offset: usize) {
        self.bytes[Self::at(leb, offset)] ^= 1;
    }

    /// Changes a node and makes its CRC right again.
    pub(crate) fn patch(&mut self, leb: usize, offset: usize, change: impl FnOnce(&mut [u8])) {
        let start = Self::at(leb, offset);
        let len = u32::from_le_bytes(self.bytes[start + 16..start + 20].try_into().unwrap());
        let node = &mut self.bytes[start..start + len as usize];
        change(node);
        let crc = crc32(&node[8..]);
        node[4..8].copy_from_slice(&crc.to_le_bytes());
    }

    pub(crate) fn copy(&mut self, from: (usize, usize), to: (usize, usize), len: usize) {
        let bytes = self.bytes[Self::at(from.0, from.1)..][..len].to_vec();
        self.put(to.0, to.1, &bytes);
    }

    /// Makes a LEB a bud: a reference in the log, the nodes in the LEB, padding to the unit.
    /// Gives back the end of the nodes before the padding.
    pub(crate) fn bud(&mut self, head: u32, leb: usize, start: usize, nodes: &[Vec<u8>]) -> usize {
        let slot = self.next_ref;
        self.reference(slot, head, leb as u32, start as u32);
        let mut end = start;
        for node in nodes {
            self.put(leb, end, &vec![0; node.len().next_multiple_of(8)]);
            self.put(leb, end, node);
            end = (end + node.len()).next_multiple_of(8);
        }
        let rest = end.next_multiple_of(UNIT) - end;
        self.put(leb, end, &padding(rest));
        end
    }

    pub(crate) fn reference(&mut self, slot: usize, head: u32, leb: u32, start: u32) {
        let mut body = [0; 40];
        body[..4].copy_from_slice(&leb.to_le_bytes());
        body[4..8].copy_from_slice(&start.to_le_bytes());
        body[8..12].copy_from_slice(&head.to_le_bytes());
        self.put(3, slot, &node(8, 50 + slot as u64 / 512, 0, &body));
        self.put(3, slot + 64, &padding(UNIT - 64));
        self.next_ref = slot + UNIT;
    }

    pub(crate) fn open(&self, strict: bool) -> Result<(Ubifs, Findings), UbifsError> {
        self.clone().into_fs(strict)
    }

    pub(crate) fn into_fs(self, strict: bool) -> Result<(Ubifs, Findings), UbifsError> {
        Ubifs::open(Arc::new(self), &OpenOptions { strict })
    }

    /// Opens what Linux would mount.
    pub(crate) fn mount(&self) -> Ubifs {
        let (fs, findings) = self.open(true).unwrap();
        assert!(!findings.has_problems(), "{findings:?}");
        fs
    }

    /// Opens what Linux refuses: the code of the finding, and the file system.
    pub(crate) fn salvage(&self) -> (Ubifs, Vec<&'static str>) {
        let error = self.open(true).expect_err("strict opening has to refuse");
        assert!(!error.to_string().is_empty());
        let (fs, findings) = self.open(false).unwrap();
        assert!(findings.has_problems());
        let codes = findings.iter().map(|finding| finding.code.name()).collect();
        (fs, codes)
    }

    pub(crate) fn refused(&self) -> UbifsError {
        self.open(true).expect_err("strict opening has to refuse")
    }
}

impl LebDevice for Image {
    fn leb_size(&self) -> u32 {
        self.leb_size as u32
    }
    fn min_io(&self) -> u32 {
        self.min_io
    }
    fn max_write(&self) -> u32 {
        self.max_write
    }
    fn leb_count(&self) -> u32 {
        (self.bytes.len() / self.leb_size) as u32
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn read(&self, leb: Leb, offset: u32, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let start = leb.index() * self.leb_size + offset as usize;
        assert!(offset as usize + buf.len() <= self.leb_size, "a read leaves its LEB");
        match self.bytes.get(start..start + buf.len()) {
            Some(bytes) => buf.copy_from_slice(bytes),
            None => panic!("a read leaves the volume"),
        }
        Ok(ReadOutcome::CLEAN)
    }
    fn is_mapped(&self, _: Leb) -> Result<bool, MtdError> {
        Ok(true)
    }
    fn write(&self, leb: Leb, _: u32, _: &[u8]) -> Result<(), MtdError> {
        Err(MtdError::ReadOnly { at: Location::leb(leb), operation: "write" })
    }
    fn change(&self, leb: Leb, _: &[u8]) -> Result<(), MtdError> {
        self.write(leb, 0, &[])
    }
    fn map(&self, leb: Leb) -> Result<(), MtdError> {
        self.write(leb, 0, &[])
    }
    fn unmap(&self, leb: Leb) -> Result<(), MtdError> {
        self.write(leb, 0, &[])
    }
    fn sync(&self) -> Result<(), MtdError> {
        Ok(())
    }
}

/// Returns a node of a type with its header and CRC.
pub(crate) fn node(node_type: u8, sqnum: u64, group: u8, body: &[u8]) -> Vec<u8> {
    let len = 24 + body.len();
    let mut node = vec![0; 24];
    node[..4].copy_from_slice(&0x0610_1831_u32.to_le_bytes());
    node[8..16].copy_from_slice(&sqnum.to_le_bytes());
    node[16..20].copy_from_slice(&(len as u32).to_le_bytes());
    node[20] = node_type;
    node[21] = group;
    node.extend_from_slice(body);
    let crc = crc32(&node[8..]);
    node[4..8].copy_from_slice(&crc.to_le_bytes());
    node
}

/// Padding of `len` bytes, a multiple of 8.
pub(crate) fn padding(len: usize) -> Vec<u8> {
    if len < 28 {
        return vec![0xCE; len];
    }
    let mut padding = node(5, 0, 0, &(len as u32 - 28).to_le_bytes());
    padding.resize(len, 0);
    padding
}

fn key(key: Key) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.to_bytes());
    bytes
}

pub(crate) struct Ino {
    pub(crate) number: u32,
    pub(crate) size: u64,
    pub(crate) nlink: u32,
    pub(crate) mode: u32,
    pub(crate) flags: u32,
    pub(crate) data: Vec<u8>,
}

impl Ino {
    pub(crate) fn file(ino: u32, size: u64, nlink: u32) -> Self {
        Self { number: ino, size, nlink, mode: 0o100_644, flags: 1, data: Vec::new() }
    }

    pub(crate) fn node(&self, sqnum: u64, group: u8) -> Vec<u8> {
        let mut body = vec![0; 136];
        body[..16].copy_from_slice(&key(Key::inode(self.number)));
        body[24..32].copy_from_slice(&self.size.to_le_bytes());
        body[68..72].copy_from_slice(&self.nlink.to_le_bytes());
        body[80..84].copy_from_slice(&self.mode.to_le_bytes());
        body[84..88].copy_from_slice(&self.flags.to_le_bytes());
        body[88..92].copy_from_slice(&(self.data.len() as u32).to_le_bytes());
        body.extend_from_slice(&self.data);
        node(0, sqnum, group, &body)
    }
}

/// Returns an entry node; `kind` 2 in a directory, 3 of an extended attribute.
pub(crate) fn entry(kind: u8, host: u32, name: &[u8], ino: u64, sqnum: u64, group: u8) -> Vec<u8> {
    let hash = eraseblock_ubifs_format::KeyHash::R5.hash(name);
    entry_at(kind, host, hash, name, ino, sqnum, group)
}

/// Returns an entry node with a hash of its own.
pub(crate) fn entry_at(
    kind: u8,
    host: u32,
    hash: u32,
    name: &[u8],
    ino: u64,
    sqnum: u64,
    group: u8,
) -> Vec<u8> {
    let of = if kind == 2 { Key::dent(host, hash) } else { Key::xent(host, hash) };
    let mut body = key(of).to_vec();
    body.extend_from_slice(&ino.to_le_bytes());
    body.extend_from_slice(&[0, 0]);
    body.extend_from_slice(&(name.len() as u16).to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(name);
    body.push(0);
    node(kind, sqnum, group, &body)
}

/// Returns an uncompressed data node.
pub(crate) fn data(ino: u32, block: u32, content: &[u8], sqnum: u64) -> Vec<u8> {
    let mut body = key(Key::data(ino, block)).to_vec();
    body.extend_from_slice(&(content.len() as u32).to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(content);
    node(1, sqnum, 0, &body)
}

pub(crate) fn truncation(ino: u32, old: u64, new: u64, sqnum: u64, group: u8) -> Vec<u8> {
    let mut body = vec![0; 32];
    body[..4].copy_from_slice(&ino.to_le_bytes());
    body[16..24].copy_from_slice(&old.to_le_bytes());
    body[24..].copy_from_slice(&new.to_le_bytes());
    node(4, sqnum, group, &body)
}

/// Returns an orphan node padded to the unit.
pub(crate) fn orphans(cmt_no: u64, is_last: bool, inos: &[u64], sqnum: u64) -> Vec<u8> {
    let mut body = (cmt_no | u64::from(is_last) << 63).to_le_bytes().to_vec();
    for ino in inos {
        body.extend_from_slice(&ino.to_le_bytes());
    }
    let mut bytes = node(11, sqnum, 0, &body);
    bytes.extend(padding(UNIT - bytes.len()));
    bytes
}

/// Returns the names in the root directory, sorted.
pub(crate) fn names(fs: &Ubifs) -> Vec<String> {
    let entries = fs.entries(1).unwrap();
    let mut names: Vec<_> = entries
        .into_iter()
        .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
        .collect();
    names.sort();
    names
}

/// Returns the content of a file, by path.
pub(crate) fn content(fs: &Ubifs, path: &str) -> Vec<u8> {
    let ino = fs.resolve(path.as_bytes()).unwrap();
    let mut content = vec![0x55; fs.attr(ino).unwrap().size as usize];
    assert_eq!(fs.read(ino, 0, &mut content).unwrap(), content.len());
    content
}
