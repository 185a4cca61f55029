//! Checked nodes: native integers, fields within the ranges of the format. Created by `decode`, or
//! by builders from their own state (spec: ubifs-format 4, 13, 14).

use crate::constants::{LOG_FIRST, NodeType, inode_flags, sb_flags};
use crate::key::{Key, KeyHash};
use crate::lpt::LptInputs;
use alloc::vec::Vec;
use eraseblock_base::Leb;

/// A compressor by its number on flash (spec: ubifs-format 7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Compression {
    /// Stored uncompressed.
    None = 0,
    /// LZO1X.
    Lzo = 1,
    /// Raw deflate.
    Zlib = 2,
    /// Zstandard.
    Zstd = 3,
}

impl Compression {
    /// Returns the compressor with this number.
    pub const fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            1 => Some(Self::Lzo),
            2 => Some(Self::Zlib),
            3 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// Returns the number on flash.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns the name used in mount options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lzo => "lzo",
            Self::Zlib => "zlib",
            Self::Zstd => "zstd",
        }
    }
}

/// The kind of target in an entry; the number is the one on flash (spec: ubifs-format 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum EntryKind {
    /// Regular file; xattr entries have this kind, too.
    Regular = 0,
    /// Directory.
    Directory = 1,
    /// Symbolic link.
    Symlink = 2,
    /// Block device.
    BlockDevice = 3,
    /// Character device.
    CharDevice = 4,
    /// Named pipe.
    Fifo = 5,
    /// Socket.
    Socket = 6,
}

impl EntryKind {
    /// Returns the kind with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Regular),
            1 => Some(Self::Directory),
            2 => Some(Self::Symlink),
            3 => Some(Self::BlockDevice),
            4 => Some(Self::CharDevice),
            5 => Some(Self::Fifo),
            6 => Some(Self::Socket),
            _ => None,
        }
    }

    /// Returns the number on flash.
    pub const fn number(self) -> u8 {
        self as u8
    }
}

/// The fields of the common header that carry information.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Sequence number.
    pub sqnum: u64,
    /// Exact length of the node.
    pub len: u32,
    /// The kind of node.
    pub node_type: NodeType,
    /// [`crate::constants::group`]; kept as found, since readers compare it only with `IN`.
    pub group: u8,
}

/// A time as stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds.
    pub nanoseconds: u32,
}

/// An inode node (4.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inode<'a> {
    /// Inode number.
    pub ino: u32,
    /// Sequence number taken when it was created.
    pub creat_sqnum: u64,
    /// Size in bytes (6.1).
    pub size: u64,
    /// Last access.
    pub atime: Time,
    /// Last inode change.
    pub ctime: Time,
    /// Last content change.
    pub mtime: Time,
    /// Link count; 0 in deletion inodes and orphans.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// POSIX mode, with a valid type.
    pub mode: u32,
    /// [`inode_flags`].
    pub flags: u32,
    /// Number of xattrs of the inode.
    pub xattr_cnt: u32,
    /// Accounting sum of the xattrs (6.6).
    pub xattr_size: u32,
    /// Sum of the lengths of the xattr names.
    pub xattr_names: u32,
    /// Compressor of future data.
    pub compr_type: Compression,
    /// The `data_len` field; differs from `data.len()` only if `nlink` is 0.
    pub data_len: u32,
    /// Inline data: link target, device number or xattr value.
    pub data: &'a [u8],
}

impl Inode<'_> {
    /// Returns whether the inode holds the value of an xattr.
    pub const fn is_xattr(&self) -> bool {
        self.flags & inode_flags::XATTR != 0
    }

    /// Returns whether content or names are encrypted.
    pub const fn is_encrypted(&self) -> bool {
        self.flags & inode_flags::ENCRYPTED != 0
    }

    /// Returns the file type bits of the mode.
    pub const fn file_type(&self) -> u32 {
        self.mode & file_type::MASK
    }

    /// Returns the device number as (major, minor), for inodes with 4 or 8 bytes of inline data
    /// (6.5).
    pub fn device(&self) -> Option<(u32, u32)> {
        let low: [u8; 4] = match self.data.len() {
            4 | 8 => self.data.first_chunk().copied()?,
            _ => return None,
        };
        let value = u32::from_le_bytes(low);
        Some(((value >> 8) & 0xFFF, (value & 0xFF) | ((value >> 12) & 0xF_FF00)))
    }
}

/// Returns a device number in the encoding of both widths (6.5).
pub const fn encode_device(major: u32, minor: u32) -> u32 {
    (minor & 0xFF) | (major << 8) | ((minor & !0xFF) << 12)
}

/// The file type bits of POSIX modes.
pub mod file_type {
    /// All of them.
    pub const MASK: u32 = 0o170_000;
    /// Socket.
    pub const SOCKET: u32 = 0o140_000;
    /// Symbolic link.
    pub const SYMLINK: u32 = 0o120_000;
    /// Regular file.
    pub const REGULAR: u32 = 0o100_000;
    /// Block device.
    pub const BLOCK: u32 = 0o060_000;
    /// Directory.
    pub const DIRECTORY: u32 = 0o040_000;
    /// Character device.
    pub const CHAR: u32 = 0o020_000;
    /// Named pipe.
    pub const FIFO: u32 = 0o010_000;
}

/// A directory or xattr entry (4.3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dent<'a> {
    /// Entry key: directory or host, and name hash.
    pub key: Key,
    /// Target inode; 0 is a deletion entry.
    pub ino: u32,
    /// The kind of the target.
    pub kind: EntryKind,
    /// Random number (double-hash volumes).
    pub cookie: u32,
    /// The name as stored.
    pub name: &'a [u8],
}

/// A data node (4.4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Data<'a> {
    /// Data key: inode and block.
    pub key: Key,
    /// Uncompressed bytes, 1 to 4096.
    pub size: u32,
    /// The compression of the payload.
    pub compression: Compression,
    /// Encrypted data: payload bytes before padding; otherwise 0.
    pub compr_size: u16,
    /// The payload.
    pub payload: &'a [u8],
}

/// A truncation node (4.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Truncation {
    /// Inode number.
    pub ino: u32,
    /// Size before.
    pub old_size: u64,
    /// Size after; smaller.
    pub new_size: u64,
}

/// A bud reference (4.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reference {
    /// Main-area LEB used as a bud.
    pub leb: Leb,
    /// First byte of journal data in it.
    pub offset: u32,
    /// Journal head: 0 GC, 1 base, 2 data.
    pub head: u32,
}

/// A commit start node (4.8).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CommitStart {
    /// Number of the commit that starts here.
    pub cmt_no: u64,
}

/// An orphan node (4.10).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Orphan {
    /// Commit number.
    pub cmt_no: u64,
    /// Whether it is the last orphan node of that commit.
    pub is_last: bool,
    /// Inode numbers.
    pub inos: Vec<u64>,
}

/// A branch of an index node: key and position of a child (4.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Branch {
    /// Key of the child; for inner nodes, a lower bound of the keys in its subtree.
    pub key: Key,
    /// LEB of the child.
    pub leb: Leb,
    /// Offset of the child, a multiple of 8.
    pub offset: u32,
    /// Exact length of the child.
    pub len: u32,
}

/// An index node (4.9). Hashes of children on authenticated volumes are not part of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexNode {
    /// Sequence number.
    pub sqnum: u64,
    /// 0: children are leaves.
    pub level: u32,
    /// 1 to fanout branches in ascending key order.
    pub branches: Vec<Branch>,
}

/// The superblock (13). The area methods use the LEB count of this value: see
/// [`Superblock::grown`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Sequence number of the node.
    pub sqnum: u64,
    /// The hash function of names.
    pub key_hash: KeyHash,
    /// [`sb_flags`], only known ones.
    pub flags: u32,
    /// Minimum I/O unit in bytes.
    pub min_io_size: u32,
    /// Usable bytes in a LEB.
    pub leb_size: u32,
    /// LEBs in use by the file system.
    pub leb_cnt: u32,
    /// Maximum number of LEBs of the file system.
    pub max_leb_cnt: u32,
    /// Maximum size of the journal in bytes.
    pub max_bud_bytes: u64,
    /// LEBs of the log.
    pub log_lebs: u32,
    /// LEBs of the LPT area.
    pub lpt_lebs: u32,
    /// LEBs of the orphan area.
    pub orph_lebs: u32,
    /// Data heads of the journal, as stored: 1.
    pub jhead_cnt: u32,
    /// Maximum number of children of an index node.
    pub fanout: u32,
    /// LEB numbers kept in lsave.
    pub lsave_cnt: u32,
    /// Format version (w).
    pub fmt_version: u32,
    /// Default compressor.
    pub default_compr: Compression,
    /// Owner of the reserved pool.
    pub rp_uid: u32,
    /// Group of the reserved pool.
    pub rp_gid: u32,
    /// Bytes of the reserved pool.
    pub rp_size: u64,
    /// Granularity of times in nanoseconds.
    pub time_gran: u32,
    /// UUID.
    pub uuid: [u8; 16],
    /// Read-only compatibility version (r).
    pub ro_compat_version: u32,
    /// HMAC of the node; zero if unauthenticated or signed.
    pub hmac: [u8; 64],
    /// HMAC of a well-known message.
    pub hmac_wkm: [u8; 64],
    /// Hash algorithm; meaningless on unauthenticated volumes.
    pub hash_algo: u16,
    /// Hash of the master of a signed image.
    pub hash_mst: [u8; 64],
}

impl Superblock {
    /// Returns whether a flag of [`sb_flags`] is set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns the number of bytes of the hash in an index branch: 0 unless authenticated (16.1).
    pub fn hash_len(&self) -> usize {
        if self.has(sb_flags::AUTHENTICATION) { hash_len(self.hash_algo).unwrap_or(0) } else { 0 }
    }

    /// Returns the superblock as a mount uses it on a volume of `volume_lebs` LEBs: the file system
    /// grows into a larger volume up to its limit (spec: ubifs-runtime 5.1 step 5).
    #[must_use]
    pub fn grown(&self, volume_lebs: u32) -> Self {
        let mut grown = self.clone();
        grown.leb_cnt = self.leb_cnt.max(self.max_leb_cnt.min(volume_lebs));
        grown
    }

    /// Returns the last LEB of the log.
    pub const fn log_last(&self) -> u32 {
        LOG_FIRST.saturating_add(self.log_lebs).saturating_sub(1)
    }

    /// Returns the first LEB of the LPT area.
    pub const fn lpt_first(&self) -> u32 {
        LOG_FIRST.saturating_add(self.log_lebs)
    }

    /// Returns the last LEB of the LPT area.
    pub const fn lpt_last(&self) -> u32 {
        self.lpt_first().saturating_add(self.lpt_lebs).saturating_sub(1)
    }

    /// Returns the first LEB of the orphan area.
    pub const fn orph_first(&self) -> u32 {
        self.lpt_first().saturating_add(self.lpt_lebs)
    }

    /// Returns the last LEB of the orphan area.
    pub const fn orph_last(&self) -> u32 {
        self.orph_first().saturating_add(self.orph_lebs).saturating_sub(1)
    }

    /// Returns the first LEB of the main area.
    pub const fn main_first(&self) -> u32 {
        self.orph_first().saturating_add(self.orph_lebs)
    }

    /// Returns the number of LEBs of the main area.
    pub const fn main_lebs(&self) -> u32 {
        self.leb_cnt.saturating_sub(self.main_first())
    }

    /// Returns the inputs of the geometry of its LPT.
    pub const fn lpt_inputs(&self) -> LptInputs {
        LptInputs {
            leb_size: self.leb_size,
            min_io: self.min_io_size,
            main_lebs: self.main_lebs(),
            leb_cnt: self.leb_cnt,
            max_leb_cnt: self.max_leb_cnt,
            lpt_first: Leb::new(self.lpt_first()),
            lpt_lebs: self.lpt_lebs,
            lsave_cnt: self.lsave_cnt,
            big: self.has(sb_flags::BIG_LPT),
        }
    }

    /// Returns the number of bytes of the main area.
    pub const fn main_bytes(&self) -> u64 {
        self.main_lebs() as u64 * self.leb_size as u64
    }

    /// Returns whether the LEB is in the main area.
    pub const fn is_main(&self, leb: u32) -> bool {
        leb >= self.main_first() && leb < self.leb_cnt
    }
}

/// Returns the digest length of a hash algorithm, given by its number on flash (16.1).
pub fn hash_len(algorithm: u16) -> Option<usize> {
    const LENGTHS: [usize; 20] =
        [16, 16, 20, 20, 32, 48, 64, 28, 16, 32, 40, 32, 48, 64, 16, 20, 24, 32, 32, 64];
    LENGTHS.get(usize::from(algorithm)).copied()
}

/// A master node (14).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Master {
    /// Sequence number of the node.
    pub sqnum: u64,
    /// Highest inode number in use.
    pub highest_inum: u64,
    /// Last finished commit.
    pub cmt_no: u64,
    /// [`crate::constants::master_flags`].
    pub flags: u32,
    /// Tail of the log.
    pub log_lnum: u32,
    /// LEB of the root index node.
    pub root_lnum: u32,
    /// Offset of the root index node.
    pub root_offs: u32,
    /// Length of the root index node.
    pub root_len: u32,
    /// LEB reserved for garbage collection.
    pub gc_lnum: u32,
    /// LEB of the index head.
    pub ihead_lnum: u32,
    /// Offset of the index head.
    pub ihead_offs: u32,
    /// Bytes of all index nodes, each rounded up to 8.
    pub index_size: u64,
    /// Erased bytes of the main area.
    pub total_free: u64,
    /// Dirty bytes of the main area.
    pub total_dirty: u64,
    /// Live bytes of data LEBs.
    pub total_used: u64,
    /// Dead bytes (12.2).
    pub total_dead: u64,
    /// Dark bytes (12.2).
    pub total_dark: u64,
    /// LEB of the LPT root.
    pub lpt_lnum: u32,
    /// Offset of the LPT root.
    pub lpt_offs: u32,
    /// LEB of the LPT write head.
    pub nhead_lnum: u32,
    /// Offset of the LPT write head.
    pub nhead_offs: u32,
    /// LEB of the LPT's own space table.
    pub ltab_lnum: u32,
    /// Offset of the LPT's own space table.
    pub ltab_offs: u32,
    /// LEB of the save table (big model).
    pub lsave_lnum: u32,
    /// Offset of the save table (big model).
    pub lsave_offs: u32,
    /// The LEB at which the last scan of LEB properties stopped.
    pub lscan_lnum: u32,
    /// Empty LEBs.
    pub empty_lebs: u32,
    /// Index LEBs.
    pub idx_lebs: u32,
    /// LEBs of the file system when the node was written.
    pub leb_cnt: u32,
    /// Hash of the root index node.
    pub hash_root_idx: [u8; 64],
    /// Hash of the LPT.
    pub hash_lpt: [u8; 64],
    /// HMAC of the node.
    pub hmac: [u8; 64],
}

impl Master {
    /// Returns whether a flag of [`crate::constants::master_flags`] is set.
    pub const fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Returns the position of the root index node. Its key is the smallest one.
    pub const fn root(&self) -> Branch {
        Branch {
            key: Key::MIN,
            leb: Leb::new(self.root_lnum),
            offset: self.root_offs,
            len: self.root_len,
        }
    }
}
