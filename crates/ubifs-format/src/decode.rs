//! Bytes to checked nodes: [`node`] verifies the common properties of nodes, and one method of
//! [`Node`] per node type everything else (spec: ubifs-format 3.7, 4, 9.2, 13, 14, 21.5).

use crate::constants::{
    MAX_FILE_SIZE, MAX_HASH_LEN, MAX_INODE_DATA, MAX_LEVELS, MAX_NAME_LEN, NODE_ALIGN, NODE_MAGIC,
    NodeType, XATTR_LIST_MAX,
};
use crate::error::{Expected, FormatError};
use crate::key::{Key, KeyHash, KeyKind, VALUE_MASK};
use crate::node::{
    Branch, CommitStart, Compression, Data, Dent, EntryKind, Header, IndexNode, Inode, Master,
    Orphan, Reference, Superblock, Time, Truncation, file_type,
};
use crate::raw;
use alloc::vec::Vec;
use eraseblock_base::crc::crc32;
use eraseblock_base::raw::Raw;
use eraseblock_base::{Leb, Location};

/// The parameters that node lengths depend on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Usable bytes in a LEB.
    pub leb_size: u32,
    /// Maximum number of children of an index node.
    pub fanout: u32,
    /// Bytes of the hash in an index branch; 0 unless authenticated.
    pub hash_len: usize,
}

impl Limits {
    /// Returns the limits a superblock sets.
    pub fn of(superblock: &Superblock) -> Self {
        Self {
            leb_size: superblock.leb_size,
            fanout: superblock.fanout,
            hash_len: superblock.hash_len(),
        }
    }

    /// Returns limits for finding nodes before the superblock is known.
    pub fn unknown(leb_size: u32) -> Self {
        Self { leb_size, fanout: leb_size / 20, hash_len: 0 }
    }

    /// Returns the length of a branch of an index node.
    pub fn branch_len(&self) -> u32 {
        raw::Branch::SIZE as u32 + self.hash_len as u32
    }

    /// Returns the smallest and the largest legal length of a node of this type (spec: ubifs-format
    /// 4.1).
    pub fn lengths(&self, node_type: NodeType) -> (u32, u32) {
        let inline = MAX_INODE_DATA as u32;
        let from = |size: usize, more: u32| (size as u32, size as u32 + more);
        let exactly = |size: usize| from(size, 0);
        match node_type {
            NodeType::Inode => from(raw::InodeNode::SIZE, inline),
            NodeType::Data => from(raw::DataNode::SIZE, inline),
            // The name ends with a NUL.
            NodeType::Dent | NodeType::Xent => from(raw::DentNode::SIZE, MAX_NAME_LEN as u32 + 1),
            NodeType::Truncation => exactly(raw::TruncationNode::SIZE),
            NodeType::Padding => exactly(raw::PaddingNode::SIZE),
            NodeType::Superblock => exactly(raw::SuperblockNode::SIZE),
            NodeType::Master => exactly(raw::MasterNode::SIZE),
            NodeType::Reference => exactly(raw::ReferenceNode::SIZE),
            NodeType::Index => {
                let start = raw::IndexNode::SIZE as u32;
                let all = self.fanout.saturating_mul(self.branch_len()).saturating_add(start);
                (start + self.branch_len(), all)
            }
            NodeType::CommitStart => exactly(raw::CommitStartNode::SIZE),
            // At least one inode number.
            NodeType::Orphan => (raw::OrphanNode::SIZE as u32 + 8, self.leb_size),
            NodeType::Auth => from(raw::CommonHeader::SIZE, MAX_HASH_LEN as u32),
            NodeType::Signature => {
                let superblock = raw::SuperblockNode::SIZE as u32;
                (raw::SignatureNode::SIZE as u32, self.leb_size.saturating_sub(superblock))
            }
        }
    }
}

/// A node with valid magic, type, length and CRC. The fields of its type are not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// The common header.
    pub header: Header,
    /// Its place.
    pub at: Location,
    bytes: &'a [u8],
}

/// Checks a common header: magic, type, length within the limits of its type.
///
/// # Errors
///
/// Fails if the bytes are too short or one of these is wrong.
pub fn header(bytes: &[u8], limits: &Limits, at: Location) -> Result<Header, FormatError> {
    let short = FormatError::Short { at, found: bytes.len() as u64, expected: 24 };
    let (raw, _) = raw::CommonHeader::split(bytes).ok_or(short)?;
    if raw.magic.get() != NODE_MAGIC {
        return Err(FormatError::Magic { at, found: raw.magic.get() });
    }
    let node_type = NodeType::from_number(raw.node_type).ok_or(FormatError::Type {
        at,
        found: raw.node_type,
        expected: "0 to 13",
    })?;
    let len = raw.len.get();
    let (least, most) = limits.lengths(node_type);
    if len < least || len > most {
        return Err(FormatError::Field {
            at,
            what: node_type,
            field: "length",
            found: u64::from(len),
            expected: Expected::Range(u64::from(least), u64::from(most)),
        });
    }
    Ok(Header { sqnum: raw.sqnum.get(), len, node_type, group: raw.group_type })
}

/// Checks the header and the CRC of the node at the start of `bytes`; more bytes may follow.
///
/// # Errors
///
/// Fails if the bytes are too short, or if the header or the CRC is wrong.
pub fn node<'a>(bytes: &'a [u8], limits: &Limits, at: Location) -> Result<Node<'a>, FormatError> {
    let header = header(bytes, limits, at)?;
    let whole = bytes.get(..header.len as usize).ok_or(FormatError::Short {
        at,
        found: bytes.len() as u64,
        expected: u64::from(header.len),
    })?;
    let stored = match whole.get(4..8).and_then(<[u8]>::first_chunk) {
        Some(crc) => u32::from_le_bytes(*crc),
        None => return Err(FormatError::Short { at, found: 0, expected: 24 }),
    };
    let computed = crc32(whole.get(8..).unwrap_or_default());
    if stored != computed {
        return Err(FormatError::Crc { at, what: header.node_type, stored, computed });
    }
    Ok(Node { header, at, bytes: whole })
}

/// Checks that the node at the start of `bytes` is the one a reference names: all of `bytes`, and
/// of this type (3.7).
///
/// # Errors
///
/// Fails as [`node`] does, or if type or length differ.
pub fn expect<'a>(
    bytes: &'a [u8],
    node_type: NodeType,
    limits: &Limits,
    at: Location,
) -> Result<Node<'a>, FormatError> {
    let node = node(bytes, limits, at)?;
    node.require(node_type)?;
    if node.bytes.len() == bytes.len() {
        return Ok(node);
    }
    let expected = Expected::Value(bytes.len() as u64);
    Err(node.bad("length", u64::from(node.header.len), expected))
}

impl<'a> Node<'a> {
    /// Returns all bytes of the node, header included.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the key of an inode, data or entry node; `None` for other types.
    pub fn key(&self) -> Option<Key> {
        let keyed = matches!(
            self.header.node_type,
            NodeType::Inode | NodeType::Data | NodeType::Dent | NodeType::Xent
        );
        let bytes = if keyed { self.bytes.get(24..32)?.first_chunk() } else { None };
        bytes.map(|bytes| Key::from_bytes(*bytes))
    }

    fn bad(&self, field: &'static str, found: u64, expected: Expected) -> FormatError {
        FormatError::Field { at: self.at, what: self.header.node_type, field, found, expected }
    }

    fn words(&self, field: &'static str, found: u64, words: &'static str) -> FormatError {
        self.bad(field, found, Expected::Words(words))
    }

    fn at_most(&self, field: &'static str, found: u64, limit: u64) -> Result<(), FormatError> {
        if found <= limit { Ok(()) } else { Err(self.bad(field, found, Expected::AtMost(limit))) }
    }

    fn equal(&self, field: &'static str, found: u64, value: u64) -> Result<(), FormatError> {
        if found == value { Ok(()) } else { Err(self.bad(field, found, Expected::Value(value))) }
    }

    fn require(&self, node_type: NodeType) -> Result<(), FormatError> {
        if self.header.node_type == node_type {
            return Ok(());
        }
        Err(FormatError::Type {
            at: self.at,
            found: self.header.node_type.number(),
            expected: node_type.name(),
        })
    }

    fn split<T: Raw>(&self, node_type: NodeType) -> Result<(T, &'a [u8]), FormatError> {
        self.require(node_type)?;
        T::split(self.bytes).ok_or(FormatError::Short {
            at: self.at,
            found: self.bytes.len() as u64,
            expected: T::SIZE as u64,
        })
    }

    fn checked_key(&self, key: [u8; 16], kind: KeyKind) -> Result<Key, FormatError> {
        let key = Key::from_bytes(*key.first_chunk().expect("16 bytes begin with 8"));
        if key.kind() != Some(kind) {
            let found = u64::from(key.kind().map_or(u32::MAX, |kind| kind as u32));
            return Err(self.bad("key type", found, Expected::Value(kind as u64)));
        }
        Ok(key)
    }

    /// Decodes an inode node (4.2; 21.5 N3, N4; spec: ubifs-runtime 9.13).
    ///
    /// # Errors
    ///
    /// Fails if a field is illegal.
    pub fn inode(&self) -> Result<Inode<'a>, FormatError> {
        let (raw, data) = self.split::<raw::InodeNode>(NodeType::Inode)?;
        let key = self.checked_key(raw.key, KeyKind::Inode)?;
        if key.ino() == 0 {
            return Err(self.bad("inode number", 0, Expected::AtLeast(1)));
        }
        self.at_most("size", raw.size.get(), MAX_FILE_SIZE)?;
        let number = raw.compr_type.get();
        let compr_type = Compression::from_number(number)
            .ok_or_else(|| self.bad("compressor", number.into(), Expected::AtMost(3)))?;
        let names = u64::from(raw.xattr_names.get()) + u64::from(raw.xattr_cnt.get());
        self.at_most("length of attribute names", names, XATTR_LIST_MAX.into())?;
        let time = |seconds: u64, nanoseconds| Time { seconds: seconds.cast_signed(), nanoseconds };
        let inode = Inode {
            ino: key.ino(),
            creat_sqnum: raw.creat_sqnum.get(),
            size: raw.size.get(),
            atime: time(raw.atime_sec.get(), raw.atime_nsec.get()),
            ctime: time(raw.ctime_sec.get(), raw.ctime_nsec.get()),
            mtime: time(raw.mtime_sec.get(), raw.mtime_nsec.get()),
            nlink: raw.nlink.get(),
            uid: raw.uid.get(),
            gid: raw.gid.get(),
            mode: raw.mode.get(),
            flags: raw.flags.get(),
            xattr_cnt: raw.xattr_cnt.get(),
            xattr_size: raw.xattr_size.get(),
            xattr_names: raw.xattr_names.get(),
            compr_type,
            data_len: raw.data_len.get(),
            data,
        };
        self.check_inline_data(&inode)?;
        Ok(inode)
    }

    fn check_inline_data(&self, inode: &Inode<'_>) -> Result<(), FormatError> {
        let len = inode.data_len;
        self.at_most("inline data length", len.into(), MAX_INODE_DATA as u64)?;
        // Deletion inodes and orphans omit the data but keep its length.
        if inode.nlink != 0 || !inode.data.is_empty() {
            self.equal("inline data length", len.into(), inode.data.len() as u64)?;
        }
        if inode.is_xattr() {
            if inode.file_type() != file_type::REGULAR {
                return Err(self.words("mode", inode.mode.into(), "a regular file for xattrs"));
            }
            return Ok(());
        }
        match inode.file_type() {
            file_type::REGULAR | file_type::DIRECTORY | file_type::FIFO | file_type::SOCKET => {
                self.equal("inline data length", len.into(), 0)
            }
            file_type::SYMLINK if len == 0 => {
                Err(self.bad("inline data length", 0, Expected::AtLeast(1)))
            }
            file_type::BLOCK | file_type::CHAR if len != 4 && len != 8 => {
                Err(self.words("inline data length", len.into(), "4 or 8"))
            }
            file_type::SYMLINK | file_type::BLOCK | file_type::CHAR => Ok(()),
            _ => Err(self.words("mode", inode.mode.into(), "a valid file type")),
        }
    }

    /// Decodes a directory entry or xattr entry (4.3; 21.5 N6; spec: ubifs-runtime 16.6).
    ///
    /// # Errors
    ///
    /// Fails if a field is illegal.
    pub fn dent(&self) -> Result<Dent<'a>, FormatError> {
        let (node_type, kind) = match self.header.node_type {
            NodeType::Xent => (NodeType::Xent, KeyKind::Xent),
            _ => (NodeType::Dent, KeyKind::Dent),
        };
        let (raw, tail) = self.split::<raw::DentNode>(node_type)?;
        let key = self.checked_key(raw.key, kind)?;
        let nlen = u64::from(raw.nlen.get());
        self.at_most("name length", nlen, MAX_NAME_LEN as u64)?;
        if nlen == 0 {
            return Err(self.bad("name length", 0, Expected::AtLeast(1)));
        }
        self.equal("length", self.bytes.len() as u64, raw::DentNode::SIZE as u64 + nlen + 1)?;
        let Some((0, name)) = tail.split_last() else {
            return Err(self.words("byte after the name", 1, "0"));
        };
        if kind == KeyKind::Xent && name.contains(&0) {
            return Err(self.words("name", 0, "no NUL in attribute names"));
        }
        let inum = raw.inum.get();
        let ino = u32::try_from(inum)
            .map_err(|_| self.bad("inode number", inum, Expected::AtMost(u32::MAX.into())))?;
        let kind = EntryKind::from_number(raw.kind)
            .ok_or_else(|| self.bad("entry type", raw.kind.into(), Expected::AtMost(6)))?;
        Ok(Dent { key, ino, kind, cookie: raw.cookie.get(), name })
    }

    /// Decodes a data node (4.4; 21.5 N8).
    ///
    /// # Errors
    ///
    /// Fails if a field is illegal.
    pub fn data(&self) -> Result<Data<'a>, FormatError> {
        let (raw, payload) = self.split::<raw::DataNode>(NodeType::Data)?;
        let key = self.checked_key(raw.key, KeyKind::Data)?;
        let size = raw.size.get();
        if size == 0 || size > 4096 {
            return Err(self.bad("size", size.into(), Expected::Range(1, 4096)));
        }
        let number = raw.compr_type.get();
        let compression = Compression::from_number(number)
            .ok_or_else(|| self.bad("compressor", number.into(), Expected::AtMost(3)))?;
        let compr_size = raw.compr_size.get();
        self.at_most("compressed size", compr_size.into(), payload.len() as u64)?;
        if compression == Compression::None && compr_size == 0 {
            self.equal("payload length", payload.len() as u64, size.into())?;
        }
        Ok(Data { key, size, compression, compr_size, payload })
    }

    /// Decodes a truncation node (4.5).
    ///
    /// # Errors
    ///
    /// Fails if a field is illegal.
    pub fn truncation(&self) -> Result<Truncation, FormatError> {
        let (raw, _) = self.split::<raw::TruncationNode>(NodeType::Truncation)?;
        let (old_size, new_size) = (raw.old_size.get(), raw.new_size.get());
        self.at_most("old size", old_size, MAX_FILE_SIZE)?;
        if new_size >= old_size {
            return Err(self.words("new size", new_size, "less than the old size"));
        }
        Ok(Truncation { ino: raw.inum.get(), old_size, new_size })
    }

    /// Returns the number of unused bytes after a padding node at `offset` (3.5 rule 5).
    ///
    /// # Errors
    ///
    /// Fails if the padding leaves the LEB or the grid of 8 bytes.
    pub fn padding(&self, offset: u32, leb_size: u32) -> Result<u32, FormatError> {
        let (raw, _) = self.split::<raw::PaddingNode>(NodeType::Padding)?;
        let pad_len = raw.pad_len.get();
        let room = leb_size.saturating_sub(offset).saturating_sub(28);
        self.at_most("padding length", pad_len.into(), room.into())?;
        if !(28 + pad_len).is_multiple_of(NODE_ALIGN) {
            return Err(self.words(
                "padding length",
                pad_len.into(),
                "4 more than a multiple of 8",
            ));
        }
        Ok(pad_len)
    }

    /// Decodes a bud reference (4.7). Its ranges depend on the volume; the caller checks them.
    ///
    /// # Errors
    ///
    /// Fails if the node is of another type.
    pub fn reference(&self) -> Result<Reference, FormatError> {
        let (raw, _) = self.split::<raw::ReferenceNode>(NodeType::Reference)?;
        Ok(Reference {
            leb: Leb::new(raw.lnum.get()),
            offset: raw.offs.get(),
            head: raw.jhead.get(),
        })
    }

    /// Decodes a commit start node (4.8).
    ///
    /// # Errors
    ///
    /// Fails if the node is of another type.
    pub fn commit_start(&self) -> Result<CommitStart, FormatError> {
        let (raw, _) = self.split::<raw::CommitStartNode>(NodeType::CommitStart)?;
        Ok(CommitStart { cmt_no: raw.cmt_no.get() })
    }

    /// Decodes an orphan node (4.10).
    ///
    /// # Errors
    ///
    /// Fails if its length is illegal.
    pub fn orphan(&self) -> Result<Orphan, FormatError> {
        let (raw, tail) = self.split::<raw::OrphanNode>(NodeType::Orphan)?;
        let (inos, rest) = tail.as_chunks::<8>();
        self.equal("bytes after the last inode number", rest.len() as u64, 0)?;
        let cmt_no = raw.cmt_no.get();
        Ok(Orphan {
            cmt_no: cmt_no & (u64::MAX >> 1),
            is_last: cmt_no >> 63 == 1,
            inos: inos.iter().map(|ino| u64::from_le_bytes(*ino)).collect(),
        })
    }

    /// Decodes an index node; `main_first` and `leb_cnt` bound its branches (9.2).
    ///
    /// # Errors
    ///
    /// Fails if a field or a branch is illegal.
    pub fn index(
        &self,
        limits: &Limits,
        main_first: u32,
        leb_cnt: u32,
    ) -> Result<IndexNode, FormatError> {
        let (raw, tail) = self.split::<raw::IndexNode>(NodeType::Index)?;
        let count = u32::from(raw.child_cnt.get());
        let level = u32::from(raw.level.get());
        if count == 0 || count > limits.fanout {
            let expected = Expected::Range(1, limits.fanout.into());
            return Err(self.bad("child count", count.into(), expected));
        }
        self.at_most("level", level.into(), MAX_LEVELS.into())?;
        let stride = limits.branch_len() as usize;
        self.equal("length", self.bytes.len() as u64, 28 + count as u64 * stride as u64)?;
        let mut branches: Vec<Branch> = Vec::with_capacity(count as usize);
        for bytes in tail.chunks_exact(stride) {
            let Some((raw, _)) = raw::Branch::split(bytes) else { break };
            let branch = Branch {
                key: Key::from_bytes(raw.key),
                leb: Leb::new(raw.lnum.get()),
                offset: raw.offs.get(),
                len: raw.len.get(),
            };
            self.check_branch(&branch, level, limits, main_first..leb_cnt)?;
            if let Some(before) = branches.last() {
                self.check_key_order(before.key, branch.key)?;
            }
            branches.push(branch);
        }
        Ok(IndexNode { sqnum: self.header.sqnum, level, branches })
    }

    fn check_branch(
        &self,
        branch: &Branch,
        level: u32,
        limits: &Limits,
        main: core::ops::Range<u32>,
    ) -> Result<(), FormatError> {
        let Some(kind) = branch.key.kind() else {
            return Err(self.words("branch key type", 4, "0 to 3"));
        };
        let leb = branch.leb.get();
        if !main.contains(&leb) {
            let last = main.end.saturating_sub(1);
            let expected = Expected::Range(main.start.into(), last.into());
            return Err(self.bad("branch LEB", leb.into(), expected));
        }
        if !branch.offset.is_multiple_of(NODE_ALIGN) {
            return Err(self.bad("branch offset", branch.offset.into(), Expected::MultipleOf(8)));
        }
        let end = u64::from(branch.offset) + u64::from(branch.len);
        self.at_most("end of branch", end, limits.leb_size.into())?;
        let (least, most) = limits.lengths(match (level, kind) {
            (1.., _) => NodeType::Index,
            (0, KeyKind::Inode) => NodeType::Inode,
            (0, KeyKind::Data) => NodeType::Data,
            (0, KeyKind::Dent) => NodeType::Dent,
            (0, KeyKind::Xent) => NodeType::Xent,
        });
        if branch.len < least || branch.len > most {
            let expected = Expected::Range(least.into(), most.into());
            return Err(self.bad("branch length", branch.len.into(), expected));
        }
        Ok(())
    }

    fn check_key_order(&self, before: Key, key: Key) -> Result<(), FormatError> {
        if before < key || (before == key && key.is_hashed()) {
            return Ok(());
        }
        let found = u64::from(key.value() & VALUE_MASK);
        Err(self.words("branch key", found, "keys in ascending order"))
    }

    /// Decodes the fields of a superblock that are needed to find anything (13).
    /// [`crate::verify::superblock`] checks the further rules of Linux.
    ///
    /// # Errors
    ///
    /// Fails if a field is illegal or the format is not supported.
    pub fn superblock(&self) -> Result<Superblock, FormatError> {
        let (raw, _) = self.split::<raw::SuperblockNode>(NodeType::Superblock)?;
        let key_hash = KeyHash::from_number(raw.key_hash)
            .ok_or_else(|| self.bad("key hash", raw.key_hash.into(), Expected::AtMost(1)))?;
        self.equal("key format", raw.key_fmt.into(), 0)?;
        let number = raw.default_compr.get();
        let default_compr = Compression::from_number(number)
            .ok_or_else(|| self.bad("compressor", number.into(), Expected::AtMost(3)))?;
        let sb = Superblock {
            sqnum: self.header.sqnum,
            key_hash,
            flags: raw.flags.get(),
            min_io_size: raw.min_io_size.get(),
            leb_size: raw.leb_size.get(),
            leb_cnt: raw.leb_cnt.get(),
            max_leb_cnt: raw.max_leb_cnt.get(),
            max_bud_bytes: raw.max_bud_bytes.get(),
            log_lebs: raw.log_lebs.get(),
            lpt_lebs: raw.lpt_lebs.get(),
            orph_lebs: raw.orph_lebs.get(),
            jhead_cnt: raw.jhead_cnt.get(),
            fanout: raw.fanout.get(),
            lsave_cnt: raw.lsave_cnt.get(),
            fmt_version: raw.fmt_version.get(),
            default_compr,
            rp_uid: raw.rp_uid.get(),
            rp_gid: raw.rp_gid.get(),
            rp_size: raw.rp_size.get(),
            time_gran: raw.time_gran.get(),
            uuid: raw.uuid,
            ro_compat_version: raw.ro_compat_version.get(),
            hmac: raw.hmac,
            hmac_wkm: raw.hmac_wkm,
            hash_algo: raw.hash_algo.get(),
            hash_mst: raw.hash_mst,
        };
        self.check_areas(&sb)?;
        Ok(sb)
    }

    fn check_areas(&self, sb: &Superblock) -> Result<(), FormatError> {
        if !sb.min_io_size.is_power_of_two() || sb.min_io_size > sb.leb_size {
            return Err(self.words("minimum I/O unit", sb.min_io_size.into(), "a power of two"));
        }
        if sb.leb_size < crate::constants::MIN_LEB_SIZE || !sb.leb_size.is_multiple_of(NODE_ALIGN) {
            let words = "a multiple of 8, 15360 or more";
            return Err(self.words("LEB size", sb.leb_size.into(), words));
        }
        if sb.leb_size > 1 << 30 {
            return Err(self.bad("LEB size", sb.leb_size.into(), Expected::AtMost(1 << 30)));
        }
        let least = u64::from(crate::constants::MIN_FANOUT);
        let branch = raw::Branch::SIZE as u64 + sb.hash_len() as u64;
        let most = (u64::from(sb.leb_size) - 28) / branch;
        if u64::from(sb.fanout) < least || u64::from(sb.fanout) > most {
            return Err(self.bad("fanout", sb.fanout.into(), Expected::Range(least, most)));
        }
        let areas = 3 + u64::from(sb.log_lebs) + u64::from(sb.lpt_lebs) + u64::from(sb.orph_lebs);
        if areas >= u64::from(sb.leb_cnt) {
            let words = "more LEBs than log, LPT and orphan area take";
            return Err(self.words("LEB count", sb.leb_cnt.into(), words));
        }
        Ok(())
    }

    /// Decodes a master node. Its ranges depend on the volume; [`crate::verify::master`] checks
    /// them (14).
    ///
    /// # Errors
    ///
    /// Fails if the node is of another type.
    pub fn master(&self) -> Result<Master, FormatError> {
        let (raw, _) = self.split::<raw::MasterNode>(NodeType::Master)?;
        Ok(Master {
            sqnum: self.header.sqnum,
            highest_inum: raw.highest_inum.get(),
            cmt_no: raw.cmt_no.get(),
            flags: raw.flags.get(),
            log_lnum: raw.log_lnum.get(),
            root_lnum: raw.root_lnum.get(),
            root_offs: raw.root_offs.get(),
            root_len: raw.root_len.get(),
            gc_lnum: raw.gc_lnum.get(),
            ihead_lnum: raw.ihead_lnum.get(),
            ihead_offs: raw.ihead_offs.get(),
            index_size: raw.index_size.get(),
            total_free: raw.total_free.get(),
            total_dirty: raw.total_dirty.get(),
            total_used: raw.total_used.get(),
            total_dead: raw.total_dead.get(),
            total_dark: raw.total_dark.get(),
            lpt_lnum: raw.lpt_lnum.get(),
            lpt_offs: raw.lpt_offs.get(),
            nhead_lnum: raw.nhead_lnum.get(),
            nhead_offs: raw.nhead_offs.get(),
            ltab_lnum: raw.ltab_lnum.get(),
            ltab_offs: raw.ltab_offs.get(),
            lsave_lnum: raw.lsave_lnum.get(),
            lsave_offs: raw.lsave_offs.get(),
            lscan_lnum: raw.lscan_lnum.get(),
            empty_lebs: raw.empty_lebs.get(),
            idx_lebs: raw.idx_lebs.get(),
            leb_cnt: raw.leb_cnt.get(),
            hash_root_idx: raw.hash_root_idx,
            hash_lpt: raw.hash_lpt,
            hmac: raw.hmac,
        })
    }
}

#[cfg(test)]
mod tests;
