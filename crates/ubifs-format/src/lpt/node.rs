//! The nodes of the tree, packed and unpacked (spec: ubifs-format 11.4, 11.5, 11.10).

use super::LptGeometry;
use super::bits::{BitReader, BitWriter};
use crate::constants::LPT_FANOUT;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use eraseblock_base::{ErrorClass, Leb, Location, crc};

/// The kind of an LPT node; the number is the one in its type field.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum LptNodeKind {
    /// A leaf: properties of four LEBs.
    Pnode = 0,
    /// An inner node: four branches.
    Nnode = 1,
    /// The space table of the LPT area itself.
    SpaceTable = 2,
    /// The save table of the big model.
    SaveTable = 3,
}

impl fmt::Display for LptNodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pnode => "LPT leaf",
            Self::Nnode => "LPT inner node",
            Self::SpaceTable => "LPT space table",
            Self::SaveTable => "LPT save table",
        })
    }
}

/// Bytes that are not an LPT node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LptError {
    /// Fewer bytes than the node has.
    Short {
        /// The place.
        at: Location,
        /// The structure to be read.
        kind: LptNodeKind,
        /// Bytes given.
        found: u64,
        /// Bytes needed.
        expected: u64,
    },
    /// The checksum does not match.
    Crc {
        /// The place.
        at: Location,
        /// The structure to be read.
        kind: LptNodeKind,
        /// The checksum in the node.
        stored: u16,
        /// The checksum of its bytes.
        computed: u16,
    },
    /// A field is out of its range.
    Field {
        /// The place.
        at: Location,
        /// The structure to be read.
        kind: LptNodeKind,
        /// The invalid field.
        field: &'static str,
        /// Its value.
        found: u32,
        /// The largest allowed value, or the only one.
        expected: u32,
    },
}

impl fmt::Display for LptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { at, kind, found, expected } => {
                write!(f, "{at}: {kind} is cut off: {found} bytes, expected {expected}")
            }
            Self::Crc { at, kind, stored, computed } => write!(
                f,
                "{at}: {kind} CRC mismatch: stored {stored:#06x}, computed {computed:#06x}"
            ),
            Self::Field { at, kind, field, found, expected } => {
                write!(f, "{at}: {kind}: {field} is {found}, expected {expected}")
            }
        }
    }
}

impl Error for LptError {}

impl LptError {
    /// Returns [`ErrorClass::Corruption`]: LPT nodes are written before the master that refers to
    /// them, so a power cut does not explain a bad one.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Corruption
    }
}

/// The properties of one LEB of the main area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LebProps {
    /// Erased bytes at its end.
    pub free: u32,
    /// Bytes that are neither free nor live.
    pub dirty: u32,
    /// Whether it holds index nodes.
    pub index: bool,
}

impl LebProps {
    /// Creates an erased LEB of `leb_size` bytes.
    pub const fn empty(leb_size: u32) -> Self {
        Self { free: leb_size, dirty: 0, index: false }
    }
}

/// A leaf: four consecutive LEBs. Slots after the last LEB of the volume describe empty LEBs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pnode {
    /// Its number, from left to right; stored in the big model only.
    pub number: u32,
    /// The LEBs.
    pub lebs: [LebProps; LPT_FANOUT as usize],
}

/// The position of the child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NnodeBranch {
    /// LEB of the LPT area.
    pub leb: Leb,
    /// Byte offset in it.
    pub offset: u32,
}

/// An inner node. A missing branch represents a subtree of empty LEBs that was never written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nnode {
    /// Its number (spec: ubifs-format 11.6); stored in the big model only.
    pub number: u32,
    /// The children.
    pub branches: [Option<NnodeBranch>; LPT_FANOUT as usize],
}

/// Free and dirty bytes of each LEB of the LPT area ("ltab").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceTable {
    /// (free, dirty) of each LEB.
    pub lebs: Vec<(u32, u32)>,
}

/// Numbers of LEBs that a mount should know ("lsave", big model).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveTable {
    /// The LEBs.
    pub lebs: Vec<Leb>,
}

fn start(kind: LptNodeKind, size: usize) -> BitWriter {
    let mut writer = BitWriter::with_capacity(size);
    writer.put(0, 16);
    writer.put(u32::from(kind as u8), 4);
    writer
}

fn seal(writer: BitWriter) -> Vec<u8> {
    let mut bytes = writer.finish();
    let crc = crc::crc16(&bytes[2..]);
    bytes[..2].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// A node being unpacked; its CRC and type have been checked.
struct Opened<'a> {
    bits: BitReader<'a>,
    kind: LptNodeKind,
    at: Location,
}

impl<'a> Opened<'a> {
    fn new(bytes: &'a [u8], kind: LptNodeKind, size: u64, at: Location) -> Result<Self, LptError> {
        let short = LptError::Short { at, kind, found: bytes.len() as u64, expected: size };
        let node = usize::try_from(size).ok().and_then(|size| bytes.get(..size));
        let Some((stored, body)) = node.and_then(|node| node.split_first_chunk()) else {
            return Err(short);
        };
        let stored = u16::from_le_bytes(*stored);
        let computed = crc::crc16(body);
        if stored != computed {
            return Err(LptError::Crc { at, kind, stored, computed });
        }
        let mut opened = Self { bits: BitReader::new(body), kind, at };
        opened.exactly("type", 4, u32::from(kind as u8))?;
        Ok(opened)
    }

    fn take(&mut self, bits: u32) -> Result<u32, LptError> {
        let (at, kind) = (self.at, self.kind);
        self.bits.take(bits).ok_or(LptError::Short { at, kind, found: 0, expected: 1 })
    }

    fn field_error(&self, field: &'static str, found: u32, expected: u32) -> LptError {
        LptError::Field { at: self.at, kind: self.kind, field, found, expected }
    }

    fn exactly(&mut self, field: &'static str, bits: u32, expected: u32) -> Result<u32, LptError> {
        let found = self.take(bits)?;
        if found == expected { Ok(found) } else { Err(self.field_error(field, found, expected)) }
    }

    fn at_most(&mut self, field: &'static str, bits: u32, most: u32) -> Result<u32, LptError> {
        let found = self.take(bits)?;
        if found <= most { Ok(found) } else { Err(self.field_error(field, found, most)) }
    }

    fn number(&mut self, geometry: &LptGeometry, expected: u32) -> Result<u32, LptError> {
        if geometry.inputs.big {
            self.exactly("number", geometry.pcnt_bits, expected)
        } else {
            Ok(expected)
        }
    }
}

impl Pnode {
    /// Returns the node's bytes. Values must be within the limits of [`Pnode::unpack`].
    pub fn pack(&self, geometry: &LptGeometry) -> Vec<u8> {
        let mut writer = start(LptNodeKind::Pnode, geometry.pnode_size as usize);
        if geometry.inputs.big {
            writer.put(self.number, geometry.pcnt_bits);
        }
        for leb in &self.lebs {
            writer.put(leb.free / 8, geometry.space_bits);
            writer.put(leb.dirty / 8, geometry.space_bits);
            writer.put(u32::from(leb.index), 1);
        }
        seal(writer)
    }

    /// Unpacks leaf `number` from the start of `bytes`, which may be longer.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are too short, or if the CRC, the type or a field is wrong.
    pub fn unpack(
        bytes: &[u8],
        geometry: &LptGeometry,
        number: u32,
        at: Location,
    ) -> Result<Self, LptError> {
        let size = u64::from(geometry.pnode_size);
        let mut node = Opened::new(bytes, LptNodeKind::Pnode, size, at)?;
        let number = node.number(geometry, number)?;
        let inputs = &geometry.inputs;
        let mut lebs = [LebProps::empty(inputs.leb_size); LPT_FANOUT as usize];
        for leb in &mut lebs {
            let free = node.at_most("free / 8", geometry.space_bits, inputs.leb_size / 8)? * 8;
            if !free.is_multiple_of(inputs.min_io.max(1)) {
                return Err(node.field_error("free (multiple of)", free, inputs.min_io));
            }
            let most = (inputs.leb_size - free) / 8;
            let dirty = node.at_most("dirty / 8", geometry.space_bits, most)? * 8;
            let index = node.take(1)? == 1;
            *leb = LebProps { free, dirty, index };
        }
        Ok(Self { number, lebs })
    }
}

impl Nnode {
    /// Returns the node's bytes.
    pub fn pack(&self, geometry: &LptGeometry) -> Vec<u8> {
        let mut writer = start(LptNodeKind::Nnode, geometry.nnode_size as usize);
        if geometry.inputs.big {
            writer.put(self.number, geometry.pcnt_bits);
        }
        let LptGeometry { inputs, lpt_lnum_bits, lpt_offs_bits, .. } = geometry;
        for branch in &self.branches {
            let (lnum, offset) = match branch {
                Some(branch) => (branch.leb.get() - inputs.lpt_first.get(), branch.offset),
                None => (inputs.lpt_lebs, 0),
            };
            writer.put(lnum, *lpt_lnum_bits);
            writer.put(offset, *lpt_offs_bits);
        }
        seal(writer)
    }

    /// Unpacks inner node `number` of `level` (1 is just above the leaves) from the start of
    /// `bytes`, which may be longer.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are too short, or if the CRC, the type or a field is wrong.
    pub fn unpack(
        bytes: &[u8],
        geometry: &LptGeometry,
        number: u32,
        level: u32,
        at: Location,
    ) -> Result<Self, LptError> {
        let size = u64::from(geometry.nnode_size);
        let mut node = Opened::new(bytes, LptNodeKind::Nnode, size, at)?;
        let number = node.number(geometry, number)?;
        let inputs = &geometry.inputs;
        let child = if level == 1 { geometry.pnode_size } else { geometry.nnode_size };
        let last_offset = inputs.leb_size.saturating_sub(child);
        let mut branches = [None; LPT_FANOUT as usize];
        for branch in &mut branches {
            let lnum = node.at_most("branch LEB", geometry.lpt_lnum_bits, inputs.lpt_lebs)?;
            if lnum == inputs.lpt_lebs {
                node.exactly("offset of missing branch", geometry.lpt_offs_bits, 0)?;
                continue;
            }
            let offset = node.at_most("branch offset", geometry.lpt_offs_bits, last_offset)?;
            let leb = Leb::new(inputs.lpt_first.get().saturating_add(lnum));
            *branch = Some(NnodeBranch { leb, offset });
        }
        Ok(Self { number, branches })
    }
}

impl SpaceTable {
    /// Returns the table's bytes; it has one row per LPT LEB.
    pub fn pack(&self, geometry: &LptGeometry) -> Vec<u8> {
        let mut writer = start(LptNodeKind::SpaceTable, geometry.ltab_size as usize);
        for (free, dirty) in &self.lebs {
            writer.put(*free, geometry.lpt_spc_bits);
            writer.put(*dirty, geometry.lpt_spc_bits);
        }
        seal(writer)
    }

    /// Unpacks the table from the start of `bytes`, which may be longer.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are too short, or if the CRC, the type or a field is wrong.
    pub fn unpack(bytes: &[u8], geometry: &LptGeometry, at: Location) -> Result<Self, LptError> {
        let mut node = Opened::new(bytes, LptNodeKind::SpaceTable, geometry.ltab_size, at)?;
        let leb_size = geometry.inputs.leb_size;
        let mut lebs = Vec::new();
        for _ in 0..geometry.inputs.lpt_lebs {
            let free = node.at_most("free", geometry.lpt_spc_bits, leb_size)?;
            let dirty = node.at_most("dirty", geometry.lpt_spc_bits, leb_size - free)?;
            lebs.push((free, dirty));
        }
        Ok(Self { lebs })
    }
}

impl SaveTable {
    /// Returns the table's bytes; it has `lsave_cnt` entries.
    pub fn pack(&self, geometry: &LptGeometry) -> Vec<u8> {
        let mut writer = start(LptNodeKind::SaveTable, geometry.lsave_size as usize);
        for leb in &self.lebs {
            writer.put(leb.get(), geometry.lnum_bits);
        }
        seal(writer)
    }

    /// Unpacks the table from the start of `bytes`, which may be longer. The caller checks whether
    /// its LEBs lie in the main area.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are too short, or if the CRC or the type is wrong.
    pub fn unpack(bytes: &[u8], geometry: &LptGeometry, at: Location) -> Result<Self, LptError> {
        let mut node = Opened::new(bytes, LptNodeKind::SaveTable, geometry.lsave_size, at)?;
        let mut lebs = Vec::new();
        for _ in 0..geometry.inputs.lsave_cnt {
            lebs.push(Leb::new(node.take(geometry.lnum_bits)?));
        }
        Ok(Self { lebs })
    }
}
