//! The chips for JFFS2.

use serde::Serialize;

/// A chip that the guest simulates.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Jffs2Chip {
    /// Its name in the names of cases.
    pub(crate) name: &'static str,
    /// Shell function and arguments that load it.
    #[serde(skip)]
    pub(crate) load: &'static str,
    /// Bytes in an erase block.
    pub(crate) peb_size: u32,
    /// Bytes in a page, 1 for NOR.
    pub(crate) page_size: u32,
}

/// A byte-programmable chip with cleanmarkers in the data area.
pub(crate) const NOR: Jffs2Chip =
    Jffs2Chip { name: "nor", load: "load_nor 8192 64", peb_size: 64 << 10, page_size: 1 };
/// A chip with pages of 2 KiB.
pub(crate) const NAND_2K: Jffs2Chip = Jffs2Chip {
    name: "nand2k",
    load: "load_nand 0x20,0xa1,0x00,0x15 64",
    peb_size: 128 << 10,
    page_size: 2048,
};
/// A chip with pages of 512 bytes.
pub(crate) const NAND_512: Jffs2Chip = Jffs2Chip {
    name: "nand512",
    load: "load_nand 0x98,0x76 512",
    peb_size: 16 << 10,
    page_size: 512,
};
