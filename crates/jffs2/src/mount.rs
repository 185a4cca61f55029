//! Opens a file system without writing.

use crate::build::{self, Tables};
use crate::damage::Unassigned;
use crate::detect::{self, Shape};
use crate::error::Jffs2Error;
use crate::inode::Cache;
use crate::medium::Source;
use crate::scan::{self, Found};
use eraseblock_base::{Code, Finding, Findings, Location, Severity};
use eraseblock_jffs2_format::ByteOrder;
use eraseblock_jffs2_format::constants::{ROOT_INO, compression};
use std::sync::{Mutex, PoisonError};

/// Known properties of an image. All others are determined from its nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// The offset of the first eraseblock in bytes.
    pub start: Option<u64>,
    /// Size of an eraseblock: 4 KiB to 64 MiB, a multiple of 4. Ignored for a device, which has its
    /// own.
    pub erase_size: Option<u32>,
    /// Byte order.
    pub order: Option<ByteOrder>,
    /// Whether an erased image without any node is an empty file system, as Linux mounts it. A
    /// device with cleanmarkers always is one.
    pub empty: bool,
}

/// The properties of an open image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// Position, block size, byte order.
    pub shape: Shape,
    /// Number of eraseblocks; the last one may be incomplete.
    pub blocks: u32,
    /// Bytes of valid nodes, superseded ones included.
    pub node_bytes: u64,
    /// Number of inodes with a name.
    pub inodes: u64,
    /// Valid nodes by kind, superseded ones included.
    pub nodes: NodeCounts,
    /// The highest numbers in use.
    pub highest: Highest,
}

/// The highest numbers in any valid node, superseded ones included: new ones must be above them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Highest {
    /// Inode number.
    pub ino: u32,
    /// Version of a node of the root directory.
    pub root_version: u32,
    /// Number of an xattr's pair of name and value.
    pub xid: u32,
    /// Counter of xattr references.
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
    /// Adds the counts of another part.
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

/// Returns the name of the compressor with this number, or `unknown`.
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

/// The properties of an image, determined without reading its tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Survey {
    /// Position, block size, byte order.
    pub shape: Shape,
    /// Bytes of valid nodes, superseded ones included.
    pub node_bytes: u64,
}

/// An open file system. It is never written to.
///
/// # Invariants
/// 1. Every checksum of a node is verified whenever its data is delivered.
/// 2. The cache changes the speed of a result, never the result.
#[derive(Debug)]
pub struct Jffs2 {
    pub(crate) source: Source,
    pub(crate) info: Info,
    pub(crate) tables: Tables,
    pub(crate) cache: Cache,
    /// Broken nodes that may belong to any file.
    pub(crate) unassigned: Unassigned,
    late: Mutex<Findings>,
}

impl Jffs2 {
    /// Opens an image or a device: damaged nodes become findings, everything else is available.
    ///
    /// Fails if the image has no JFFS2 node and is not an empty file system either, if it cannot be
    /// read at all, and for options out of their range.
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

    /// Surveys what [`Self::open`] would open, without keeping anything about its nodes: the
    /// findings cover damage of nodes, not of the tree. Fails as it does.
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

    /// Returns the properties of the image.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns findings made since opening, when inodes were read.
    pub fn late_findings(&self) -> Findings {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a late finding about damage.
    pub(crate) fn warn(&self, at: Location, code: impl Into<Code>, message: String) {
        self.say(Severity::Warning, at, code, message);
    }

    /// Adds a late finding, unless one with its place and kind exists.
    pub(crate) fn say(
        &self,
        severity: Severity,
        at: Location,
        code: impl Into<Code>,
        message: String,
    ) {
        let code = code.into();
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if !late.iter().any(|finding| finding.at == at && finding.code == code) {
            late.push(Finding { severity, at, code, message });
        }
    }
}

/// Returns the shape of a file system, and the number of its bytes to read.
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
    let size = source.size()?.saturating_sub(shape.start);
    let most = u64::from(u32::MAX - shape.erase_size) & !0xFFF;
    let len = size.min(most);
    if len < size {
        let message = format!("only {len} of {size} bytes are looked at");
        findings.error(Location::Whole, "too-large", message);
    }
    Ok((shape, len))
}
