//! The part database: geometry, requirements and datasheet times of real flash chips.
//!
//! The values come from public datasheets. In a row marked `approximate`, at least one value is the
//! typical one of its class (spec: mtd-nand 12.1), not the part's own.

mod table;

use eraseblock_base::{Geometry, MediumKind};
use std::error::Error;
use std::fmt;
pub use table::PARTS;

/// A flash chip as described by its datasheet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Part {
    /// The name for lookups: the vendor's part number without package and speed codes.
    pub name: &'static str,
    /// The vendor.
    pub vendor: &'static str,
    /// NAND or NOR.
    pub kind: MediumKind,
    /// NAND: bytes in a page. NOR: bytes in the program buffer, the largest single program.
    pub page: u32,
    /// Out-of-band bytes per page; 0 for NOR.
    pub oob: u32,
    /// The unit in which UBI headers are written: `page` if sub-pages cannot be programmed, 1 for
    /// NOR.
    pub subpage: u32,
    /// Maximum number of programs of a page between erases (NOP); 0 for no limit (NOR).
    pub partial_programs: u8,
    /// Bytes in an eraseblock.
    pub peb_size: u32,
    /// Eraseblocks on the chip.
    pub peb_count: u32,
    /// Planes, over all dies.
    pub planes: u8,
    /// Required correctable bits in 512 bytes; 0 if no correction is needed.
    pub ecc_bits: u8,
    /// Whether the chip has its own ECC (most serial NAND).
    pub on_die_ecc: bool,
    /// Whether pages of a block must be programmed in ascending order.
    pub ordered: bool,
    /// Maximum number of blocks that are or become bad within the chip's life.
    pub max_bad: u32,
    /// Identification bytes, as far as known.
    pub id: &'static [u8],
    /// Array read time (tR) in nanoseconds.
    pub read_ns: u32,
    /// Typical page (NOR: buffer) program time (tPROG) in nanoseconds.
    pub program_ns: u32,
    /// Typical block erase time (tBERS) in nanoseconds.
    pub erase_ns: u32,
    /// Time to move one byte over the bus, in nanoseconds.
    pub bus_ns: u32,
    /// Program/erase cycles a block endures.
    pub endurance: u32,
    /// Whether some value of the row is the typical one of its class, not the part's own.
    pub approximate: bool,
}

impl Part {
    /// Returns the geometry of the chip. NOR is programmed by the byte, through its buffer.
    pub fn geometry(&self) -> Geometry {
        let min_io = if self.kind == MediumKind::Nand { self.page } else { 1 };
        Geometry::new(self.kind, self.peb_size, self.peb_count, min_io, self.subpage, self.oob)
            .and_then(|geometry| geometry.with_write_buffer(self.page))
            .expect("every row of the part table is a possible shape (tested)")
    }
}

/// A part that is not in the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownPart {
    /// The name looked up.
    pub name: String,
    /// The known name that differs in the fewest letters.
    pub nearest: &'static str,
}

impl fmt::Display for UnknownPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, nearest } = self;
        write!(f, "no part is named `{name}`; the nearest name is `{nearest}`")
    }
}

impl Error for UnknownPart {}

/// Finds a part by name: any case, and a longer ordering code (`W25N01GVZEIG`) finds its part.
///
/// ```
/// let part = eraseblock_nandsim::parts::find("w25n01gv").unwrap();
/// assert_eq!((part.page, part.oob, part.peb_count), (2048, 64, 1024));
/// let error = eraseblock_nandsim::parts::find("W25N01GX").unwrap_err();
/// assert_eq!(error.nearest, "W25N01GV");
/// ```
///
/// # Errors
///
/// Fails if no part has this name; the error suggests the nearest one.
pub fn find(name: &str) -> Result<&'static Part, UnknownPart> {
    let wanted = name.trim().to_ascii_uppercase();
    if let Some(part) = PARTS.iter().find(|part| part.name == wanted) {
        return Ok(part);
    }
    let longest = PARTS
        .iter()
        .filter(|part| wanted.starts_with(part.name))
        .max_by_key(|part| part.name.len());
    longest.ok_or_else(|| UnknownPart { name: name.to_owned(), nearest: nearest(&wanted) })
}

fn nearest(wanted: &str) -> &'static str {
    let wanted: Vec<u8> = wanted.bytes().take(64).collect();
    PARTS
        .iter()
        .min_by_key(|part| edit_distance(&wanted, part.name.as_bytes()))
        .map_or("", |part| part.name)
}

/// Returns the number of letters to insert, remove or replace to turn one word into the other.
fn edit_distance(from: &[u8], to: &[u8]) -> usize {
    let mut previous: Vec<usize> = (0..=to.len()).collect();
    for (row, left) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, right) in to.iter().enumerate() {
            let replaced = previous[column] + usize::from(left != right);
            current.push(replaced.min(previous[column + 1] + 1).min(current[column] + 1));
        }
        previous = current;
    }
    previous[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_a_possible_chip() {
        let mut names = BTreeSet::new();
        for part in PARTS {
            let geometry = part.geometry();
            assert_eq!(geometry.peb_size() % part.page, 0, "{}", part.name);
            assert!(names.insert(part.name), "{} is there twice", part.name);
            assert_eq!(part.name, part.name.to_ascii_uppercase());
            assert!(part.max_bad * 20 <= part.peb_count, "{}", part.name);
            assert!(part.erase_ns > part.program_ns && part.bus_ns > 0, "{}", part.name);
            let nand = part.kind == MediumKind::Nand;
            assert_eq!(nand, part.oob > 0 && part.partial_programs > 0, "{}", part.name);
            assert!(!nand || part.page / part.subpage <= u32::from(part.partial_programs));
        }
        assert!(names.len() >= 40, "{} parts", names.len());
    }

    #[test]
    fn parallel_nand_ids_decode_to_the_shape_of_the_row() {
        // spec: mtd-nand 4.3, for the parts whose extended bytes follow the generic decode
        for part in PARTS.iter().filter(|part| part.id.len() >= 4 && part.page == 2048) {
            let extended = u32::from(part.id[3]);
            assert_eq!(1024 << (extended & 3), part.page, "{}", part.name);
            assert_eq!(65_536 << (extended >> 4 & 3), part.peb_size, "{}", part.name);
        }
    }

    #[test]
    fn names_are_found_in_any_case_and_with_ordering_codes() {
        assert_eq!(find("mt29f2g08abaea").unwrap().vendor, "Micron");
        assert_eq!(find(" W25N01GVZEIG ").unwrap().name, "W25N01GV");
        let error = find("K9F1G08U0X").unwrap_err();
        assert_eq!(error.nearest, "K9F1G08U0E");
        assert!(error.to_string().contains("nearest name"));
        assert!(find("").is_err());
    }
}
