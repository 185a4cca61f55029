//! The header of a chip file and the positions of everything (docs/format/chip-file.md 1, 2).

use super::ChipFileError;
use crate::config::{ChipConfig, Correction, Policy, Rules, Timing};
use crate::parts;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Geometry, GeometryError, MediumKind, Peb};
use eraseblock_mtd::oob::{BadMarker, MarkerPages};

pub(super) const HEADER_SIZE: usize = 4096;
pub(super) const MAGIC: &[u8; 8] = b"EBCHIP\r\n";
const VERSION: u32 = 1;
const STATE_AREA: u64 = 4096;
const BLOCK: u64 = 4096;
const NAME_SIZE: usize = 64;
const FIELDS_AT: usize = 16;
const FIELD_COUNT: usize = 24;
const NAME_AT: usize = FIELDS_AT + 4 * FIELD_COUNT;
/// More blocks than any chip has.
const MAX_PEBS: u32 = 1 << 22;
/// Maximum size of a page's part of a block record: meta, fault, and 256 flips.
const PAGE_RECORD: u64 = 16 + 40 + 4 * 256;

/// Byte offsets in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    slots_at: u64,
    slot_area: u64,
    cells_at: u64,
    cell_area: u64,
    stride: u64,
    file_size: u64,
}

impl Layout {
    pub(super) fn of(config: &ChipConfig) -> Result<Self, ChipFileError> {
        let count = config.geometry.peb_count();
        let pages = u64::from(config.pages_per_peb());
        let stride = config.stride() as u64;
        let too_large = GeometryError {
            field: "eraseblock count",
            found: u64::from(count),
            expected: "a chip whose file is below 2^62 bytes and 2^22 blocks",
        };
        let slots_at = HEADER_SIZE as u64 + 2 * STATE_AREA;
        let slot_area = (128 + pages * PAGE_RECORD).next_multiple_of(BLOCK);
        let cell_area = (pages * stride).next_multiple_of(BLOCK);
        let size = |area: u64| area.checked_mul(u64::from(count));
        let cells_at = size(2 * slot_area).and_then(|size| size.checked_add(slots_at));
        let file_size =
            cells_at.and_then(|at| size(cell_area).and_then(|size| size.checked_add(at)));
        match (cells_at, file_size) {
            (Some(cells_at), Some(file_size)) if file_size < 1 << 62 && count <= MAX_PEBS => {
                Ok(Self { slots_at, slot_area, cells_at, cell_area, stride, file_size })
            }
            _ => Err(too_large.into()),
        }
    }

    pub(super) fn file_size(&self) -> u64 {
        self.file_size
    }

    #[allow(clippy::unused_self)] // one way to ask for every place
    pub(super) fn state_at(&self) -> u64 {
        HEADER_SIZE as u64
    }

    #[allow(clippy::unused_self)] // as above
    pub(super) fn state_area(&self) -> u64 {
        STATE_AREA
    }

    pub(super) fn slot_at(&self, peb: Peb) -> u64 {
        self.slots_at + 2 * self.slot_area * u64::from(peb.get())
    }

    pub(super) fn slot_area(&self) -> u64 {
        self.slot_area
    }

    pub(super) fn cell_area(&self) -> u64 {
        self.cell_area
    }

    pub(super) fn cells_at(&self, peb: Peb, page: u32) -> u64 {
        self.cells_at + self.cell_area * u64::from(peb.get()) + self.stride * u64::from(page)
    }
}

/// Returns the error for a file of another kind.
pub(super) fn not_a_chip() -> ChipFileError {
    ChipFileError::Header { at: 0, field: "file size", found: 0, expected: "a chip file header" }
}

pub(super) fn encode_header(config: &ChipConfig) -> Vec<u8> {
    let mut header = vec![0; HEADER_SIZE];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    for (place, field) in header[FIELDS_AT..NAME_AT].chunks_exact_mut(4).zip(fields(config)) {
        place.copy_from_slice(&field.to_le_bytes());
    }
    let name = config.part.unwrap_or_default().as_bytes();
    header[NAME_AT..NAME_AT + name.len().min(NAME_SIZE)].copy_from_slice(name);
    let crc = crc32(&header);
    header[12..16].copy_from_slice(&crc.to_le_bytes());
    header
}

fn fields(config: &ChipConfig) -> [u32; FIELD_COUNT] {
    let (geometry, timing, rules) = (&config.geometry, config.timing, config.rules);
    [
        u32::from(geometry.kind() == MediumKind::Nor),
        geometry.peb_size(),
        geometry.peb_count(),
        geometry.min_io(),
        geometry.subpage(),
        geometry.oob_size(),
        config.page,
        u32::from(config.correction == Correction::Raw),
        u32::from(config.ecc_bits),
        u32::from(config.partial_programs),
        u32::from(config.ordered),
        config.endurance,
        timing.read_ns,
        timing.program_ns,
        timing.erase_ns,
        timing.bus_ns,
        config.marker.offset,
        config.marker.pages as u32,
        rules.overwrite as u32,
        rules.partial_programs as u32,
        rules.page_order as u32,
        rules.bad_block as u32,
        rules.interrupted_erase as u32,
        rules.interrupted_read as u32,
    ]
}

/// Decodes the configuration in a header; fails if anything in it is impossible.
pub(super) fn decode_header(header: &[u8]) -> Result<ChipConfig, ChipFileError> {
    let word = |at: usize| {
        let bytes = header.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
        u32::from_le_bytes(bytes.unwrap_or_default())
    };
    let fail = |at: u64, field, found: u32, expected| {
        Err(ChipFileError::Header { at, field, found: u64::from(found), expected })
    };
    if header.get(..8) != Some(MAGIC) {
        return fail(0, "magic", word(0), "`EBCHIP` CR LF");
    }
    if word(8) != VERSION {
        return fail(8, "version", word(8), "1");
    }
    let mut zeroed = header.to_vec();
    zeroed[12..16].fill(0);
    if crc32(&zeroed) != word(12) {
        return fail(12, "checksum", word(12), "that of the header");
    }
    let mut fields = [0; FIELD_COUNT];
    for (index, field) in fields.iter_mut().enumerate() {
        *field = word(FIELDS_AT + 4 * index);
    }
    let name = header.get(NAME_AT..NAME_AT + NAME_SIZE).unwrap_or_default();
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let name = std::str::from_utf8(&name[..end]).unwrap_or_default();
    config_of(&fields, name)
}

fn config_of(fields: &[u32; FIELD_COUNT], name: &str) -> Result<ChipConfig, ChipFileError> {
    let [kind, peb_size, peb_count, min_io, subpage, oob, page, raw, bits, programs, rest @ ..] =
        *fields;
    let [ordered, endurance, read_ns, program_ns, erase_ns, bus_ns, marker, pages, rules @ ..] =
        rest;
    let kind = if kind == 0 { MediumKind::Nand } else { MediumKind::Nor };
    let geometry = Geometry::new(kind, peb_size, peb_count, min_io, subpage, oob)?;
    let impossible = |field, found: u32, expected| {
        ChipFileError::from(GeometryError { field, found: u64::from(found), expected })
    };
    if !page.is_power_of_two() || !peb_size.is_multiple_of(page) || page < min_io || page > 1 << 20
    {
        return Err(impossible("page", page, "a power of two that divides the eraseblock"));
    }
    if kind == MediumKind::Nand && (page != min_io || page / subpage > 64 || oob > 1 << 16) {
        return Err(impossible("page", page, "the minimum I/O unit of at most 64 sub-pages"));
    }
    let geometry = geometry.with_write_buffer(page)?;
    let byte =
        |value: u32, field| u8::try_from(value).map_err(|_| impossible(field, value, "below 256"));
    Ok(ChipConfig {
        geometry,
        part: parts::find(name).ok().map(|part| part.name),
        page,
        correction: if raw == 0 { Correction::Ideal } else { Correction::Raw },
        ecc_bits: u16::from(byte(bits, "ECC bits")?),
        partial_programs: byte(programs, "programs a page")?,
        ordered: ordered != 0,
        endurance: endurance.max(1),
        timing: Timing { read_ns, program_ns, erase_ns, bus_ns },
        marker: BadMarker { offset: marker, pages: marker_pages(pages) },
        rules: decode_rules(rules),
    })
}

fn marker_pages(value: u32) -> MarkerPages {
    match value {
        0 => MarkerPages::First,
        2 => MarkerPages::FirstTwoLast,
        3 => MarkerPages::Last,
        _ => MarkerPages::FirstTwo,
    }
}

fn decode_rules(values: [u32; 6]) -> Rules {
    let [overwrite, partial_programs, page_order, bad_block, interrupted_erase, interrupted_read] =
        values.map(|value| match value {
            0 => Policy::Off,
            1 => Policy::Report,
            _ => Policy::Refuse,
        });
    Rules {
        overwrite,
        partial_programs,
        page_order,
        bad_block,
        interrupted_erase,
        interrupted_read,
    }
}
