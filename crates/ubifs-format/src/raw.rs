//! Nodes byte for byte (spec: ubifs-format 3.1, 4, 13, 14). Every bit pattern is a legal raw node,
//! so viewing bytes cannot fail; `decode` decides what is valid.
//!
//! Where fields allow it, blank lines separate groups of 16 bytes, as in a hex dump.

use eraseblock_base::raw;
use eraseblock_base::raw::little_endian::{U16, U32, U64};

raw!(
    /// The header that starts every node.
    CommonHeader, 24, {
        /// [`crate::constants::NODE_MAGIC`]
        magic @ 0: U32 = Hex,
        /// CRC-32 of bytes 8 to `len`
        crc @ 4: U32 = Sum,
        /// Sequence number
        sqnum @ 8: U64,

        /// Exact length of the node, this header included
        len @ 16: U32,
        /// [`crate::constants::NodeType`]
        node_type @ 20: u8,
        /// [`crate::constants::group`]
        group_type @ 21: u8,
        /// Zero
        padding @ 22: [u8; 2] = Zero,
    }
);

raw!(
    /// Inode node, followed by `data_len` bytes of inline data (4.2).
    InodeNode, 160, {
        /// Common header
        header @ 0: CommonHeader,
        /// Inode key; bytes 8 to 15 are zero
        key @ 24: [u8; 16] = Key,
        /// Sequence number taken when the inode was created
        creat_sqnum @ 40: U64,
        /// Size in bytes (6.1)
        size @ 48: U64,
        /// Seconds of last access, signed
        atime_sec @ 56: U64,
        /// Seconds of last inode change, signed
        ctime_sec @ 64: U64,
        /// Seconds of last content change, signed
        mtime_sec @ 72: U64,
        /// Nanoseconds of last access
        atime_nsec @ 80: U32,
        /// Nanoseconds of last inode change
        ctime_nsec @ 84: U32,
        /// Nanoseconds of last content change
        mtime_nsec @ 88: U32,
        /// Link count; 0 is a deletion inode or an orphan
        nlink @ 92: U32,
        /// Owner
        uid @ 96: U32,
        /// Group
        gid @ 100: U32,
        /// POSIX mode
        mode @ 104: U32 = Octal,
        /// [`crate::constants::inode_flags`]
        flags @ 108: U32 = Hex,
        /// Bytes of inline data
        data_len @ 112: U32,
        /// Number of xattrs of the inode
        xattr_cnt @ 116: U32,
        /// Accounting sum of the xattrs (6.6)
        xattr_size @ 120: U32,
        /// Zero
        padding1 @ 124: [u8; 4] = Zero,
        /// Sum of the lengths of the xattr names
        xattr_names @ 128: U32,
        /// Compressor of future data
        compr_type @ 132: U16,
        /// Zero
        padding2 @ 134: [u8; 26] = Zero,
    }
);

raw!(
    /// Data node, followed by its payload (4.4).
    DataNode, 48, {
        /// Common header
        header @ 0: CommonHeader,
        /// Data key
        key @ 24: [u8; 16] = Key,
        /// Uncompressed bytes, 1 to 4096
        size @ 40: U32,
        /// 0 none, 1 LZO, 2 zlib, 3 zstd
        compr_type @ 44: U16,
        /// Encrypted data: payload bytes before padding; otherwise 0
        compr_size @ 46: U16,
    }
);

raw!(
    /// Directory or xattr entry, followed by the name and a NUL (4.3).
    DentNode, 56, {
        /// Common header
        header @ 0: CommonHeader,
        /// Entry key
        key @ 24: [u8; 16] = Key,
        /// Target inode; 0 is a deletion entry
        inum @ 40: U64,
        /// Zero
        padding1 @ 48: u8 = Zero,
        /// 0 regular, 1 directory, 2 symlink, 3 block, 4 character, 5 fifo, 6 socket
        kind @ 49: u8,
        /// Length of the name
        nlen @ 50: U16,
        /// Random number (format 5), else 0
        cookie @ 52: U32 = Hex,
    }
);

raw!(
    /// Truncation node (4.5).
    TruncationNode, 56, {
        /// Common header
        header @ 0: CommonHeader,
        /// Inode number
        inum @ 24: U32,
        /// Zero
        padding @ 28: [u8; 12] = Zero,
        /// Size before
        old_size @ 40: U64,
        /// Size after; smaller
        new_size @ 48: U64,
    }
);

raw!(
    /// Padding node, followed by `pad_len` unused bytes (4.6).
    PaddingNode, 28, {
        /// Common header
        header @ 0: CommonHeader,
        /// Unused bytes after the node
        pad_len @ 24: U32,
    }
);

raw!(
    /// Superblock node (13).
    SuperblockNode, 4096, {
        /// Common header
        header @ 0: CommonHeader,
        /// Zero
        padding @ 24: [u8; 2] = Zero,
        /// 0 R5, 1 test
        key_hash @ 26: u8,
        /// 0: simple keys
        key_fmt @ 27: u8,
        /// [`crate::constants::sb_flags`]
        flags @ 28: U32 = Hex,
        /// Minimum I/O unit
        min_io_size @ 32: U32,
        /// Usable bytes in a LEB
        leb_size @ 36: U32,
        /// LEBs in use by the file system
        leb_cnt @ 40: U32,
        /// Maximum number of LEBs of the file system
        max_leb_cnt @ 44: U32,
        /// Maximum size of the journal in bytes
        max_bud_bytes @ 48: U64,
        /// LEBs of the log
        log_lebs @ 56: U32,
        /// LEBs of the LPT area
        lpt_lebs @ 60: U32,
        /// LEBs of the orphan area
        orph_lebs @ 64: U32,
        /// Data heads of the journal: 1
        jhead_cnt @ 68: U32,
        /// Maximum number of children of an index node
        fanout @ 72: U32,
        /// LEB numbers kept in lsave
        lsave_cnt @ 76: U32,
        /// Format version
        fmt_version @ 80: U32,
        /// Default compressor
        default_compr @ 84: U16,
        /// Zero
        padding1 @ 86: [u8; 2] = Zero,
        /// Owner of the reserved pool
        rp_uid @ 88: U32,
        /// Group of the reserved pool
        rp_gid @ 92: U32,
        /// Bytes of the reserved pool
        rp_size @ 96: U64,
        /// Granularity of times in nanoseconds
        time_gran @ 104: U32,
        /// UUID
        uuid @ 108: [u8; 16],
        /// Read-only compatibility version
        ro_compat_version @ 124: U32,
        /// HMAC of this node
        hmac @ 128: [u8; 64],
        /// HMAC of a well-known message
        hmac_wkm @ 192: [u8; 64],
        /// Hash algorithm
        hash_algo @ 256: U16,
        /// Hash of the master of a signed image
        hash_mst @ 258: [u8; 64],
        /// Zero
        padding2 @ 322: [u8; 3774] = Zero,
    }
);

raw!(
    /// Master node (14).
    MasterNode, 512, {
        /// Common header
        header @ 0: CommonHeader,
        /// Highest inode number in use
        highest_inum @ 24: U64,
        /// Last finished commit
        cmt_no @ 32: U64,
        /// [`crate::constants::master_flags`]
        flags @ 40: U32 = Hex,
        /// Tail of the log
        log_lnum @ 44: U32,
        /// LEB of the root index node
        root_lnum @ 48: U32,
        /// Offset of the root index node
        root_offs @ 52: U32,
        /// Length of the root index node
        root_len @ 56: U32,
        /// LEB reserved for garbage collection
        gc_lnum @ 60: U32,
        /// LEB of the index head
        ihead_lnum @ 64: U32,
        /// Offset of the index head
        ihead_offs @ 68: U32,
        /// Bytes of all index nodes, each rounded up to 8
        index_size @ 72: U64,
        /// Erased bytes of the main area
        total_free @ 80: U64,
        /// Dirty bytes of the main area
        total_dirty @ 88: U64,
        /// Live bytes of data LEBs
        total_used @ 96: U64,
        /// Dead bytes (12.2)
        total_dead @ 104: U64,
        /// Dark bytes (12.2)
        total_dark @ 112: U64,
        /// LEB of the LPT root
        lpt_lnum @ 120: U32,
        /// Offset of the LPT root
        lpt_offs @ 124: U32,
        /// LEB of the LPT write head
        nhead_lnum @ 128: U32,
        /// Offset of the LPT write head
        nhead_offs @ 132: U32,
        /// LEB of the LPT's own space table
        ltab_lnum @ 136: U32,
        /// Offset of the LPT's own space table
        ltab_offs @ 140: U32,
        /// LEB of the save table (big model)
        lsave_lnum @ 144: U32,
        /// Offset of the save table (big model)
        lsave_offs @ 148: U32,
        /// LEB at which the last scan of LEB properties stopped
        lscan_lnum @ 152: U32,
        /// Empty LEBs
        empty_lebs @ 156: U32,
        /// Index LEBs
        idx_lebs @ 160: U32,
        /// LEBs of the file system when the node was written
        leb_cnt @ 164: U32,
        /// Hash of the root index node
        hash_root_idx @ 168: [u8; 64],
        /// Hash of the LPT
        hash_lpt @ 232: [u8; 64],
        /// HMAC of this node
        hmac @ 296: [u8; 64],
        /// Zero
        padding @ 360: [u8; 152] = Zero,
    }
);

raw!(
    /// Bud reference node (4.7).
    ReferenceNode, 64, {
        /// Common header
        header @ 0: CommonHeader,
        /// LEB used as a bud
        lnum @ 24: U32,
        /// First byte of journal data in it
        offs @ 28: U32,
        /// 0 GC, 1 base, 2 data
        jhead @ 32: U32,
        /// Undefined
        padding @ 36: [u8; 28],
    }
);

raw!(
    /// Index node, followed by its branches (4.9).
    IndexNode, 28, {
        /// Common header
        header @ 0: CommonHeader,
        /// Children
        child_cnt @ 24: U16,
        /// 0: children are leaves
        level @ 26: U16,
    }
);

raw!(
    /// Branch of an index node, followed by the child's hash on authenticated volumes (4.9).
    Branch, 20, {
        /// LEB of the child
        lnum @ 0: U32,
        /// Offset of the child
        offs @ 4: U32,
        /// Exact length of the child
        len @ 8: U32,
        /// Key
        key @ 12: [u8; 8] = Key,
    }
);

raw!(
    /// Commit start node (4.8).
    CommitStartNode, 32, {
        /// Common header
        header @ 0: CommonHeader,
        /// Number of the commit that starts here
        cmt_no @ 24: U64,
    }
);

raw!(
    /// Orphan node, followed by inode numbers of 8 bytes (4.10).
    OrphanNode, 32, {
        /// Common header
        header @ 0: CommonHeader,
        /// Commit number; bit 63 marks the last orphan node of that commit
        cmt_no @ 24: U64,
    }
);

raw!(
    /// Signature node, followed by the signature (4.11).
    SignatureNode, 64, {
        /// Common header
        header @ 0: CommonHeader,
        /// 1: PKCS#7
        kind @ 24: U32,
        /// Bytes of the signature
        len @ 28: U32,
        /// Zero
        padding @ 32: [u8; 32] = Zero,
    }
);
