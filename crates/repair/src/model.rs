//! The file system as its leaves describe it: inodes, entries, xattrs and blocks, which the rules
//! change.
//!
//! # Invariants
//! 1. Fields that no rule sets are written back bit for bit, reserved ones included.
//! 2. Content stays on flash: of a block only its place is kept.

use crate::scan::SQNUM_SANE;
use eraseblock_base::raw::Raw;
use eraseblock_base::{Leb, Location, align};
use eraseblock_codec::{Codec, Decompressor};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs_format::constants::{BLOCK_SIZE, NODE_ALIGN, NodeType, inode_flags};
use eraseblock_ubifs_format::decode::{self, Limits};
use eraseblock_ubifs_format::node::file_type;
use eraseblock_ubifs_format::raw::{DentNode, InodeNode};
use eraseblock_ubifs_format::{Compression, EntryKind, Key, KeyHash, KeyKind};
use std::collections::BTreeMap;

/// A leaf, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaf {
    pub(crate) key: Key,
    pub(crate) leb: u32,
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// Whether an index or the journal shows that it is in use; otherwise a scan found it.
    pub(crate) is_vouched: bool,
}

impl Leaf {
    pub(crate) fn at(&self) -> Location {
        Location::Leb(Leb::new(self.leb), self.offset)
    }
}

/// Where a node comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// Unchanged on flash.
    Flash(Leaf),
    /// On flash, but it is written again with a new sequence number.
    Renewed(Leaf),
    /// Made by a rule.
    Made,
}

impl Origin {
    /// Returns the place of the node, or that of the whole for one that was made.
    pub(crate) fn at(&self) -> Location {
        match self {
            Self::Flash(leaf) | Self::Renewed(leaf) => leaf.at(),
            Self::Made => Location::Whole,
        }
    }

    fn leaf(&self) -> Option<Leaf> {
        match self {
            Self::Flash(leaf) | Self::Renewed(leaf) => Some(*leaf),
            Self::Made => None,
        }
    }

    /// Returns whether an index or the journal shows that it is in use.
    pub(crate) fn is_vouched(&self) -> bool {
        self.leaf().is_none_or(|leaf| leaf.is_vouched)
    }

    /// Has the node written again.
    pub(crate) fn renew(&mut self) {
        if let Self::Flash(leaf) = *self {
            *self = Self::Renewed(leaf);
        }
    }
}

/// An inode node.
#[derive(Clone, Debug)]
pub(crate) struct InodeLeaf {
    pub(crate) raw: InodeNode,
    pub(crate) data: Vec<u8>,
    pub(crate) origin: Origin,
}

impl InodeLeaf {
    pub(crate) fn sqnum(&self) -> u64 {
        self.raw.header.sqnum.get()
    }

    pub(crate) fn kind(&self) -> u32 {
        self.raw.mode.get() & file_type::MASK
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.kind() == file_type::DIRECTORY && !self.is_xattr()
    }

    pub(crate) fn is_regular(&self) -> bool {
        self.kind() == file_type::REGULAR && !self.is_xattr()
    }

    pub(crate) fn has(&self, flag: u32) -> bool {
        self.raw.flags.get() & flag != 0
    }

    pub(crate) fn is_xattr(&self) -> bool {
        self.has(inode_flags::XATTR)
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.has(inode_flags::ENCRYPTED)
    }

    fn bytes(&self) -> Vec<u8> {
        let mut raw = self.raw;
        let len = InodeNode::SIZE + self.data.len();
        raw.header.len.set(len as u32);
        raw.header.group_type = 0;
        let mut bytes = vec![0; InodeNode::SIZE];
        raw.put(&mut bytes);
        bytes.extend_from_slice(&self.data);
        bytes
    }
}

/// An entry of a directory or of the xattrs of an inode.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) raw: DentNode,
    pub(crate) name: Vec<u8>,
    pub(crate) origin: Origin,
}

impl Entry {
    pub(crate) fn key(&self) -> Key {
        Key::from_bytes(*self.raw.key.first_chunk().expect("16 bytes begin with 8"))
    }

    pub(crate) fn set_key(&mut self, key: Key) {
        self.raw.key[..8].copy_from_slice(&key.to_bytes());
        self.origin.renew();
    }

    /// Returns the inode that it names; 0 for a number that no inode has.
    pub(crate) fn target(&self) -> u32 {
        u32::try_from(self.raw.inum.get()).unwrap_or(0)
    }

    pub(crate) fn sqnum(&self) -> u64 {
        self.raw.header.sqnum.get()
    }

    /// Returns the bytes that it adds to the size of its directory.
    pub(crate) fn weight(&self) -> u64 {
        entry_weight(self.name.len())
    }

    fn bytes(&self) -> Vec<u8> {
        let mut raw = self.raw;
        raw.nlen.set(self.name.len() as u16);
        raw.header.len.set((DentNode::SIZE + self.name.len() + 1) as u32);
        raw.header.group_type = 0;
        let mut bytes = vec![0; DentNode::SIZE];
        raw.put(&mut bytes);
        bytes.extend_from_slice(&self.name);
        bytes.push(0);
        bytes
    }
}

/// Returns the bytes that an entry takes on flash.
pub(crate) fn entry_weight(name_len: usize) -> u64 {
    align::align_up((DentNode::SIZE + name_len + 1) as u32, NODE_ALIGN).into()
}

/// A block of content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) size: u32,
    pub(crate) sqnum: u64,
    pub(crate) origin: Origin,
}

/// Everything whose key names one inode.
#[derive(Clone, Debug, Default)]
pub(crate) struct Object {
    pub(crate) inode: Option<InodeLeaf>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) xattrs: Vec<Entry>,
    pub(crate) blocks: BTreeMap<u32, Block>,
}

impl Object {
    /// Returns the end of the content.
    pub(crate) fn content_end(&self) -> u64 {
        self.blocks.last_key_value().map_or(0, |(number, block)| {
            u64::from(*number) * u64::from(BLOCK_SIZE) + u64::from(block.size)
        })
    }
}

/// A leaf that cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) leaf: Leaf,
    pub(crate) rule: &'static str,
    pub(crate) why: String,
    /// Its bytes, as far as they can be read.
    pub(crate) bytes: Vec<u8>,
}

/// The file system.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) objects: BTreeMap<u32, Object>,
    pub(crate) lost: Vec<Lost>,
    /// Leaves whose key occurs twice: the older ones.
    pub(crate) twins: Vec<Leaf>,
}

/// A node to be put into the index.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) key: Key,
    /// Of an entry, to sort those with equal keys.
    pub(crate) name: Vec<u8>,
    pub(crate) source: Source,
}

/// Where the bytes of a node come from.
#[derive(Debug)]
pub(crate) enum Source {
    /// It stays as it is.
    Flash(Leaf),
    /// It gets these bytes and a new sequence number.
    Bytes(Vec<u8>),
    /// It is copied with a new sequence number.
    Renewed(Leaf),
}

/// Reads leaves LEB by LEB.
struct Reader<'a> {
    device: &'a dyn LebDevice,
    limits: Limits,
    decompressor: Decompressor,
    block: Vec<u8>,
}

impl Model {
    /// Reads the leaves.
    pub(crate) fn new(device: &dyn LebDevice, limits: Limits, mut leaves: Vec<Leaf>) -> Self {
        leaves.sort_by_key(|leaf| (leaf.leb, leaf.offset, leaf.key));
        leaves.dedup();
        let mut reader = Reader {
            device,
            limits,
            decompressor: Decompressor::new(),
            block: vec![0; BLOCK_SIZE as usize],
        };
        let mut model = Self::default();
        let mut bytes = vec![0; limits.leb_size as usize];
        for of_leb in leaves.chunk_by(|one, two| one.leb == two.leb) {
            let leb = Leb::new(of_leb[0].leb);
            let is_whole = device.read(leb, 0, &mut bytes).is_ok();
            for leaf in of_leb {
                let start = leaf.offset as usize;
                let whole = bytes.get(start..start + leaf.len as usize).filter(|_| is_whole);
                match whole {
                    Some(node) => reader.take(leaf, node, &mut model),
                    None => reader.alone(leaf, &mut model),
                }
            }
        }
        model.lost.sort_by_key(|lost| (lost.leaf.key, lost.leaf.leb, lost.leaf.offset));
        model
    }

    /// Returns the object of an inode number.
    pub(crate) fn object(&mut self, ino: u32) -> &mut Object {
        self.objects.entry(ino).or_default()
    }

    /// Returns the inode of a number.
    pub(crate) fn inode(&self, ino: u32) -> Option<&InodeLeaf> {
        self.objects.get(&ino)?.inode.as_ref()
    }

    fn take_block(&mut self, key: Key, block: Block) {
        let blocks = &mut self.object(key.ino()).blocks;
        let old = blocks.get(&key.value()).copied();
        let (kept, dropped) = match old {
            Some(old) if old.sqnum > block.sqnum => (old, Some(block)),
            old => (block, old),
        };
        blocks.insert(key.value(), kept);
        self.twins.extend(dropped.and_then(|dropped| dropped.origin.leaf()));
    }

    fn take_inode(&mut self, ino: u32, inode: InodeLeaf) {
        let place = &mut self.object(ino).inode;
        let dropped = match place.take() {
            Some(old) if old.sqnum() > inode.sqnum() => {
                *place = Some(old);
                inode.origin.leaf()
            }
            old => {
                *place = Some(inode);
                old.and_then(|old| old.origin.leaf())
            }
        };
        self.twins.extend(dropped);
    }

    /// Returns all nodes that the index must have, in its order.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        let source = |origin: &Origin, bytes: &dyn Fn() -> Vec<u8>| match origin {
            Origin::Flash(leaf) => Source::Flash(*leaf),
            Origin::Renewed(_) | Origin::Made => Source::Bytes(bytes()),
        };
        for (ino, object) in &self.objects {
            if let Some(inode) = &object.inode {
                let source = source(&inode.origin, &|| inode.bytes());
                wanted.push(Wanted { key: Key::inode(*ino), name: Vec::new(), source });
            }
            for (number, block) in &object.blocks {
                let source = match block.origin {
                    Origin::Flash(leaf) => Source::Flash(leaf),
                    Origin::Renewed(leaf) => Source::Renewed(leaf),
                    Origin::Made => continue,
                };
                let key = Key::data(*ino, *number);
                wanted.push(Wanted { key, name: Vec::new(), source });
            }
            for entry in object.entries.iter().chain(&object.xattrs) {
                let source = source(&entry.origin, &|| entry.bytes());
                wanted.push(Wanted { key: entry.key(), name: entry.name.clone(), source });
            }
        }
        wanted.sort_by(|one, two| (one.key, &one.name).cmp(&(two.key, &two.name)));
        wanted
    }
}

impl Reader<'_> {
    /// A leaf in a LEB that cannot be read as a whole.
    fn alone(&mut self, leaf: &Leaf, model: &mut Model) {
        let mut bytes = vec![0; leaf.len as usize];
        match self.device.read(Leb::new(leaf.leb), leaf.offset, &mut bytes) {
            Ok(_) => self.take(leaf, &bytes, model),
            Err(error) => {
                let (why, bytes) = (error.to_string(), Vec::new());
                model.lost.push(Lost { leaf: *leaf, rule: "N1", why, bytes });
            }
        }
    }

    fn take(&mut self, leaf: &Leaf, bytes: &[u8], model: &mut Model) {
        if let Err((rule, why)) = self.check(leaf, bytes, model) {
            model.lost.push(Lost { leaf: *leaf, rule, why, bytes: bytes.to_vec() });
        }
    }

    fn check(
        &mut self,
        leaf: &Leaf,
        bytes: &[u8],
        model: &mut Model,
    ) -> Result<(), (&'static str, String)> {
        let node_type = match leaf.key.kind() {
            Some(KeyKind::Inode) => NodeType::Inode,
            Some(KeyKind::Data) => NodeType::Data,
            Some(KeyKind::Dent) => NodeType::Dent,
            Some(KeyKind::Xent) => NodeType::Xent,
            None => return Err(("I1", "a key of no kind".to_owned())),
        };
        let node = decode::expect(bytes, node_type, &self.limits, leaf.at());
        let node = node.map_err(|error| ("N1", error.to_string()))?;
        if node.key() != Some(leaf.key) {
            return Err(("N1", "its key is not that of the index".to_owned()));
        }
        let (origin, ino) = (Origin::Flash(*leaf), leaf.key.ino());
        let short = || ("N1", "too short".to_owned());
        match node_type {
            NodeType::Inode => {
                let (raw, data) = InodeNode::split(bytes).ok_or_else(short)?;
                model.take_inode(ino, InodeLeaf { raw, data: data.to_vec(), origin });
            }
            NodeType::Data => {
                let data = node.data().map_err(|error| ("N8", error.to_string()))?;
                if data.compr_size == 0 {
                    let codec = codec_of(data.compression);
                    let target = &mut self.block[..data.size as usize];
                    let unpacked = self.decompressor.decompress(codec, data.payload, target);
                    unpacked.map_err(|error| ("N8", error.to_string()))?;
                }
                let block = Block { size: data.size, sqnum: node.header.sqnum, origin };
                model.take_block(leaf.key, block);
            }
            _ => {
                let (raw, tail) = DentNode::split(bytes).ok_or_else(short)?;
                let (last, name) = tail.split_last().ok_or_else(short)?;
                if *last != 0 || name.is_empty() {
                    return Err(("N6", "no name that ends with a NUL".to_owned()));
                }
                let entry = Entry { raw, name: name.to_vec(), origin };
                let object = model.object(ino);
                match node_type {
                    NodeType::Xent => object.xattrs.push(entry),
                    _ => object.entries.push(entry),
                }
            }
        }
        Ok(())
    }
}

fn codec_of(compression: Compression) -> Codec {
    match compression {
        Compression::None => Codec::None,
        Compression::Lzo => Codec::Lzo,
        Compression::Zlib => Codec::Zlib,
        Compression::Zstd => Codec::Zstd,
    }
}

/// Returns an inode node with all fields zero but those that every inode needs.
pub(crate) fn blank_inode(ino: u32, mode: u32) -> InodeLeaf {
    let mut raw = InodeNode::zeroed();
    fill_header(&mut raw.header, NodeType::Inode);
    raw.key[..8].copy_from_slice(&Key::inode(ino).to_bytes());
    raw.mode.set(mode);
    raw.nlink.set(1);
    InodeLeaf { raw, data: Vec::new(), origin: Origin::Made }
}

/// Returns a new entry.
pub(crate) fn new_entry(
    dir: u32,
    name: &[u8],
    ino: u32,
    hash: KeyHash,
    has_cookies: bool,
) -> Entry {
    let mut raw = DentNode::zeroed();
    fill_header(&mut raw.header, NodeType::Dent);
    let key = Key::dent(dir, hash.hash(name));
    raw.key[..8].copy_from_slice(&key.to_bytes());
    raw.inum.set(ino.into());
    if has_cookies {
        // Any number would do; this one is always the same.
        let start = eraseblock_base::crc::crc32(&dir.to_le_bytes());
        raw.cookie.set(eraseblock_base::crc::crc32_continue(start, name));
    }
    Entry { raw, name: name.to_vec(), origin: Origin::Made }
}

fn fill_header(header: &mut eraseblock_ubifs_format::raw::CommonHeader, node_type: NodeType) {
    header.magic.set(eraseblock_ubifs_format::constants::NODE_MAGIC);
    header.node_type = node_type.number();
}

/// Returns the kind in an entry that names an inode of this file type.
pub(crate) fn entry_kind(kind: u32) -> Option<EntryKind> {
    Some(match kind {
        file_type::REGULAR => EntryKind::Regular,
        file_type::DIRECTORY => EntryKind::Directory,
        file_type::SYMLINK => EntryKind::Symlink,
        file_type::BLOCK => EntryKind::BlockDevice,
        file_type::CHAR => EntryKind::CharDevice,
        file_type::FIFO => EntryKind::Fifo,
        file_type::SOCKET => EntryKind::Socket,
        _ => return None,
    })
}

/// Returns the file type that an entry of this kind names.
pub(crate) fn file_type_of(kind: u8) -> Option<u32> {
    let kind = EntryKind::from_number(kind)?;
    let types = [
        file_type::REGULAR,
        file_type::DIRECTORY,
        file_type::SYMLINK,
        file_type::BLOCK,
        file_type::CHAR,
        file_type::FIFO,
        file_type::SOCKET,
    ];
    types.get(usize::from(kind.number())).copied()
}

/// Returns whether a sequence number must be replaced.
pub(crate) fn is_insane(sqnum: u64) -> bool {
    sqnum >= SQNUM_SANE
}
