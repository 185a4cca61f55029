//! Opening without writing.

use crate::build::{self, Tables};
use crate::damage::Unassigned;
use crate::detect::{self, Shape};
use crate::error::Jffs2Error;
use crate::inode::Cache;
use crate::medium::Source;
use crate::scan::{self, Found};
use eraseblock_base::{Finding, Findings, Location, Severity};
use eraseblock_jffs2_format::ByteOrder;
use eraseblock_jffs2_format::constants::{ROOT_INO, compression};
use std::sync::{Mutex, PoisonError};

/// What is known about an image beforehand. Everything left open is found out from its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Where the first erase block starts, in bytes.
    pub start: Option<u64>,
    /// Bytes in an erase block: 4 KiB to 64 MiB, a multiple of 4. Ignored for a device, which
    /// knows.
    pub erase_size: Option<u32>,
    /// Byte order.
    pub order: Option<ByteOrder>,
    /// Whether something erased, without any node, is an empty file system, as Linux mounts it. A
    /// device with cleanmarkers is one anyhow.
    pub empty: bool,
}

/// What an open image is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// Place, block size, byte order.
    pub shape: Shape,
    /// Erase blocks, the last one perhaps not whole.
    pub blocks: u32,
    /// Bytes of valid nodes, superseded ones included.
    pub node_bytes: u64,
    /// Inodes that a name leads to.
    pub inodes: u64,
    /// Valid nodes by kind, superseded ones included.
    pub nodes: NodeCounts,
    /// The highest numbers in use.
    pub highest: Highest,
}

/// The highest numbers that any valid node names, superseded ones included: new ones go above
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Highest {
    /// Inode number.
    pub ino: u32,
    /// Version of a node of the root directory.
    pub root_version: u32,
    /// Number of a pair of attribute name and value.
    pub xid: u32,
    /// Counter of attribute references.
    pub xseqno: u32,
}

impl Highest {
    fn of(found: &Found) -> Self {
        let mut highest = Self { ino: ROOT_INO, ..Self::default() };
        for node in &found.nodes {
            highest.ino = highest.ino.max(node.ino);
            if node.ino == ROOT_INO {
                highest.root_version = highest.root_version.max(node.version);
            }
        }
        for entry in &found.entries {
            highest.ino = highest.ino.max(entry.pino).max(entry.ino);
            if entry.pino == ROOT_INO {
                highest.root_version = highest.root_version.max(entry.version);
            }
        }
        highest.xid = found.pairs.iter().map(|pair| pair.xid).max().unwrap_or(0);
        highest.xseqno = found.xrefs.iter().map(|xref| xref.xseqno).max().unwrap_or(0);
        highest
    }
}

/// Valid nodes by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NodeCounts {
    /// INODE nodes.
    pub inodes: u64,
    /// DIRENT nodes.
    pub entries: u64,
    /// XATTR nodes.
    pub xattrs: u64,
    /// XREF nodes.
    pub xrefs: u64,
    /// CLEANMARKER nodes.
    pub cleanmarkers: u64,
    /// PADDING nodes.
    pub paddings: u64,
    /// SUMMARY nodes.
    pub summaries: u64,
    /// DAMAGE_MARKER nodes.
    pub damage_markers: u64,
    /// Nodes of other types.
    pub unknown: u64,
    /// Nodes with data by their compressor's number; the last one counts unknown compressors.
    pub compressors: [u64; 10],
}

impl NodeCounts {
    /// Adds those of another part.
    pub(crate) fn add(&mut self, other: &Self) {
        self.inodes += other.inodes;
        self.entries += other.entries;
        self.xattrs += other.xattrs;
        self.xrefs += other.xrefs;
        self.cleanmarkers += other.cleanmarkers;
        self.paddings += other.paddings;
        self.summaries += other.summaries;
        self.damage_markers += other.damage_markers;
        self.unknown += other.unknown;
        for (sum, count) in self.compressors.iter_mut().zip(other.compressors) {
            *sum += count;
        }
    }
}

/// What people call the compressor with this number; `unknown` when nobody does.
pub fn compressor_name(number: u8) -> &'static str {
    match number {
        compression::NONE => "none",
        compression::ZERO => "zero",
        compression::RTIME => "rtime",
        compression::RUBIN_DYNAMIC => "dynrubin",
        compression::RUBIN_FIXED => "rubinmips",
        compression::ZLIB => "zlib",
        compression::LZO => "lzo",
        compression::LZMA => "lzma",
        _ => "unknown",
    }
}

/// What an image turned out to be, without a look at its tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Place, block size, byte order.
    pub shape: Shape,
    /// Bytes of valid nodes, superseded ones included.
    pub node_bytes: u64,
}

/// An open file system. Nothing is ever written to it.
///
/// # Invariants
/// 1. Every checksum of a node is verified whenever its data is delivered.
/// 2. The cache changes how fast an answer is, never the answer.
#[derive(Debug)]
pub struct Jffs2 {
    pub(crate) source: Source,
    pub(crate) info: Info,
    pub(crate) tables: Tables,
    pub(crate) cache: Cache,
    /// Broken nodes that may be of any file.
    pub(crate) unassigned: Unassigned,
    late: Mutex<Findings>,
}

impl Jffs2 {
    /// Opens an image or a device: damaged nodes are findings, everything else is there.
    ///
    /// Fails when there is no JFFS2 node in it and it is no empty file system either, when it cannot be read at all, and for options out
    /// of their range.
    pub fn open(source: Source, options: &OpenOptions) -> Result<(Self, Findings), Jffs2Error> {
        let mut findings = Findings::new();
        let (shape, len) = extent(&source, options, &mut findings)?;
        let found = scan::scan(&source, &shape, len);
        let (node_bytes, nodes) = (found.live, found.counts);
        let (highest, unassigned) = (Highest::of(&found), found.unassigned);
        let tables = build::build(found, &mut findings);
        let blocks = len.div_ceil(shape.erase_size.into()) as u32;
        let inodes = tables.live_inodes() as u64;
        let info = Info { shape, blocks, node_bytes, inodes, nodes, highest };
        let late = Mutex::new(Findings::new());
        let cache = Cache::default();
        Ok((Self { source, info, tables, cache, unassigned, late }, findings))
    }

    /// Looks at what [`Self::open`] opens, without keeping anything of its nodes: what is found is
    /// damage of nodes, not of the tree. Fails as it does.
    pub fn survey(
        source: &Source,
        options: &OpenOptions,
    ) -> Result<(Survey, Findings), Jffs2Error> {
        let mut findings = Findings::new();
        let (shape, len) = extent(source, options, &mut findings)?;
        let found = scan::survey(source, &shape, len);
        findings.append(found.findings);
        Ok((Survey { shape, node_bytes: found.live }, findings))
    }

    /// What the image turned out to be.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What was found since opening, when inodes were looked at.
    pub fn late_findings(&self) -> Findings {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a late finding that something is damaged.
    pub(crate) fn warn(&self, at: Location, code: &'static str, message: String) {
        self.say(Severity::Warning, at, code, message);
    }

    /// Adds a late finding, the first of its place and kind.
    pub(crate) fn say(
        &self,
        severity: Severity,
        at: Location,
        code: &'static str,
        message: String,
    ) {
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if !late.iter().any(|finding| finding.at == at && finding.code == code) {
            late.push(Finding { severity, at, code, message });
        }
    }
}

/// Shape of a file system, and how many bytes of it are looked at.
fn extent(
    source: &Source,
    options: &OpenOptions,
    findings: &mut Findings,
) -> Result<(Shape, u64), Jffs2Error> {
    if let Some(size) = options.erase_size
        && !((1 << 12..=1 << 26).contains(&size) && size.is_multiple_of(4))
    {
        let expected = "a multiple of 4 from 4 KiB to 64 MiB";
        return Err(Jffs2Error::Option {
            option: "erase block size",
            found: size.into(),
            expected,
        });
    }
    let shape = match detect::detect(source, options, findings) {
        Err(error @ Jffs2Error::NotJffs2 { .. }) => detect::blank(source, options)?.ok_or(error)?,
        other => other?,
    };
    if !shape.is_certain {
        let message = format!("erase block size not certain, {} assumed", shape.erase_size);
        findings.note(Location::Whole, "erase-size-guessed", message);
    }
    let size = source.size().map_err(Jffs2Error::Read)?.saturating_sub(shape.start);
    let most = u64::from(u32::MAX - shape.erase_size) & !0xFFF;
    let len = size.min(most);
    if len < size {
        let message = format!("only {len} of {size} bytes are looked at");
        findings.error(Location::Whole, "too-large", message);
    }
    Ok((shape, len))
}
