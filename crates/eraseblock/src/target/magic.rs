//! What a file is by its first bytes: the formats we open, and the ones we can only name.

use crate::error::{Setting, Words};
use eraseblock_base::align::is_erased;

/// Something recognised by its magic number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// What it is, for people.
    pub name: &'static str,
    advice: Advice,
}

impl Known {
    /// Returns what to do with it instead.
    pub fn hint(&self) -> Words {
        match self.advice {
            Advice::Do(hint) => hint.into(),
            Advice::StateGeometry => {
                Setting::Peb + " and " + Setting::VidOffset + " state its geometry"
            }
        }
    }
}

/// What to do with something that is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Advice {
    Do(&'static str),
    StateGeometry,
}

/// One row: where the magic lies, its bytes, what it means.
type Row = (usize, &'static [u8], Known);

const UNPACK: &str = "unpack it first, then look at what is inside";
const DAMAGED: &str = "no node of it is whole";
const OTHER: &str = "not a raw-flash format: other tools open it";

const fn known(name: &'static str, hint: &'static str) -> Known {
    Known { name, advice: Advice::Do(hint) }
}

const TABLE: &[Row] = &[
    (0, b"\x85\x19", known("a JFFS2 image (little-endian)", DAMAGED)),
    (0, b"\x19\x85", known("a JFFS2 image (big-endian)", DAMAGED)),
    (0, b"hsqs", known("a SquashFS image", OTHER)),
    (0, b"sqsh", known("a SquashFS image (big-endian)", OTHER)),
    (0, b"\x45\x3d\xcd\x28", known("a cramfs image", OTHER)),
    (0, b"-rom1fs-", known("a romfs image", OTHER)),
    (0, b"\x27\x05\x19\x56", known("a U-Boot image", UNPACK)),
    (0, b"\xd0\x0d\xfe\xed", known("a flattened device tree or FIT image", UNPACK)),
    (
        0,
        b"\x3a\xff\x26\xed",
        known("an Android sparse image", "`simg2img` makes a raw image of it"),
    ),
    (0, b"\x1f\x8b", known("a gzip file", UNPACK)),
    (0, b"\xfd7zXZ\0", known("an xz file", UNPACK)),
    (0, b"BZh", known("a bzip2 file", UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", known("a zstd file", UNPACK)),
    (0, b"\x04\x22\x4d\x18", known("an lz4 file", UNPACK)),
    (0, b"PK\x03\x04", known("a zip file", UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", known("a 7-Zip file", UNPACK)),
    (0, b"\x7fELF", known("an ELF program", OTHER)),
    (0, b"ANDROID!", known("an Android boot image", UNPACK)),
    (0, b"HDR0", known("a TRX firmware", UNPACK)),
    (
        0,
        b"UBI!",
        Known { name: "a UBI image whose headers are damaged", advice: Advice::StateGeometry },
    ),
    (257, b"ustar", known("a tar archive", "mkfs and build take it as a source")),
    (0, b"070701", known("a cpio archive", "mkfs and build take it as a source")),
    (1024, b"\xe2\xe1\xf5\xe0", known("an EROFS image", OTHER)),
    (1024, b"\x10\x20\xf5\xf2", known("an F2FS image", OTHER)),
    (1080, b"\x53\xef", known("an ext2/ext3/ext4 image", OTHER)),
    (510, b"\x55\xaa", known("a disk image with a boot sector", OTHER)),
];

/// Bytes of the start of a file that [`recognise`] wants to see.
pub const LOOK: usize = 4096;

/// Names what begins like this, if it is known.
pub fn recognise(start: &[u8]) -> Option<Known> {
    let fits = |row: &&Row| start.get(row.0..).is_some_and(|bytes| bytes.starts_with(row.1));
    if let Some(row) = TABLE.iter().find(fits) {
        return Some(row.2);
    }
    let erased = !start.is_empty() && is_erased(start);
    erased.then_some(known("erased flash (all 0xFF)", "nothing was ever written to it"))
}

/// How the file of a simulated chip begins.
const CHIP: &[u8] = b"EBCHIP\r\n";
/// How a disk begins that was made a flash.
const BLOCK_FLASH: &[u8] = b"EBLKFLSH";

/// Returns whether a file that begins like this is a flash of its own kind: a simulated chip, or a
/// disk that was made a flash.
pub(crate) fn is_flash(start: &[u8]) -> bool {
    start.starts_with(CHIP) || start.starts_with(BLOCK_FLASH)
}

/// Names a flash in a file that this build of the crate has no driver for.
pub(crate) fn other_flash(start: &[u8]) -> Option<&'static str> {
    let _ = start;
    #[cfg(not(feature = "chips"))]
    if start.starts_with(CHIP) {
        return Some("a simulated chip: the feature `chips` opens it");
    }
    #[cfg(not(feature = "host"))]
    if start.starts_with(BLOCK_FLASH) {
        return Some("a disk that was made a flash: the feature `host` opens it");
    }
    None
}

/// Returns whether a UBIFS superblock node begins here (spec: ubifs-format 4).
pub fn is_ubifs(start: &[u8]) -> bool {
    start.starts_with(&[0x31, 0x18, 0x10, 0x06]) && start.get(20) == Some(&6)
}

/// Returns whether a JFFS2 node begins here (spec: jffs2 4.1).
pub fn is_jffs2(start: &[u8]) -> bool {
    eraseblock_jffs2_format::scan::header_order(start).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised() {
        assert_eq!(recognise(b"hsqs....").unwrap().name, "a SquashFS image");
        let mut ext4 = vec![0; 2048];
        ext4[1080..1082].copy_from_slice(b"\x53\xef");
        assert_eq!(recognise(&ext4).unwrap().name, "an ext2/ext3/ext4 image");
        assert!(recognise(&[0xff; 512]).unwrap().name.contains("erased"));
        assert_eq!(recognise(b""), None);
        assert_eq!(recognise(&[0; 4096]), None);
    }

    /// They are written here once more, so that a build without drivers names them.
    #[test]
    fn the_magic_numbers_are_those_of_the_drivers() {
        #[cfg(feature = "chips")]
        assert!(eraseblock_nandsim::is_chip_file(CHIP));
        #[cfg(feature = "host")]
        assert!(eraseblock_mtd_host::is_block_flash(BLOCK_FLASH));
        assert!(is_flash(CHIP) && is_flash(BLOCK_FLASH) && !is_flash(b"UBI#"));
    }

    #[test]
    fn ubifs_needs_a_superblock_node() {
        let mut node = vec![0; 4096];
        node[..4].copy_from_slice(&0x0610_1831_u32.to_le_bytes());
        assert!(!is_ubifs(&node));
        node[20] = 6;
        assert!(is_ubifs(&node));
    }
}
