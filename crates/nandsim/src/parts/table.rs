//! The rows of the part database.

use super::Part;
use eraseblock_base::MediumKind;

/// `[page, oob, sub-page, programs per page]`.
type Pages = [u32; 4];
/// `[eraseblock in KiB, eraseblocks, planes]`.
type Blocks = [u32; 3];
/// `[ECC bits in 512 bytes, maximum of bad blocks]`.
type Needs = [u32; 2];
/// `[tR us, tPROG us, tBERS us, bus ns per byte]`.
type Times = [u32; 4];

const SMALL: Pages = [512, 16, 256, 2];
const LARGE: Pages = [2048, 64, 512, 4];
const WIDE: Pages = [2048, 128, 512, 4];

#[allow(clippy::cast_possible_truncation)] // evaluated at compile time on the rows below
const fn nand(
    name: &'static str,
    vendor: &'static str,
    pages: Pages,
    blocks: Blocks,
    needs: Needs,
    id: &'static [u8],
    times: Times,
) -> Part {
    Part {
        name,
        vendor,
        kind: MediumKind::Nand,
        page: pages[0],
        oob: pages[1],
        subpage: pages[2],
        partial_programs: pages[3] as u8,
        peb_size: blocks[0] * 1024,
        peb_count: blocks[1],
        planes: blocks[2] as u8,
        ecc_bits: needs[0] as u8,
        on_die_ecc: false,
        ordered: pages[0] > 512,
        max_bad: needs[1],
        id,
        read_ns: times[0] * 1000,
        program_ns: times[1] * 1000,
        erase_ns: times[2] * 1000,
        bus_ns: times[3],
        endurance: 100_000,
        approximate: false,
    }
}

/// `[buffer, eraseblock in KiB, eraseblocks]` and `[random read ns, buffer program us, erase ms,
/// bus ns per byte]`.
const fn nor(
    name: &'static str,
    vendor: &'static str,
    shape: [u32; 3],
    id: &'static [u8],
    times: Times,
) -> Part {
    let mut part = nand(
        name,
        vendor,
        [shape[0], 0, 1, 0],
        [shape[1], shape[2], 1],
        [0, 0],
        id,
        [0, times[1], times[2] * 1000, times[3]],
    );
    part.kind = MediumKind::Nor;
    part.read_ns = times[0];
    part.ordered = false;
    part
}

impl Part {
    /// Serial NAND with its own ECC: Linux programs it in whole pages, so UBI does not use
    /// sub-pages.
    const fn on_die(mut self) -> Self {
        self.on_die_ecc = true;
        self.subpage = self.page;
        self
    }

    const fn approximate(mut self) -> Self {
        self.approximate = true;
        self
    }

    const fn cycles(mut self, endurance: u32) -> Self {
        self.endurance = endurance;
        self
    }
}

const G1: Blocks = [128, 1024, 1];
const G2: Blocks = [128, 2048, 2];
const G4: Blocks = [128, 4096, 2];

/// All parts, by vendor.
#[rustfmt::skip]
pub const PARTS: &[Part] = &[
    // Winbond
    nand("W25N01GV", "Winbond", LARGE, G1, [1, 20], &[0xEF, 0xAA, 0x21], [60, 250, 2000, 19]).on_die(),
    nand("W25N02KV", "Winbond", WIDE, [128, 2048, 1], [8, 40], &[0xEF, 0xAA, 0x22], [60, 250, 2000, 19]).on_die().approximate(),
    nand("W25M02GV", "Winbond", LARGE, G2, [1, 40], &[0xEF, 0xAB, 0x21], [60, 250, 2000, 19]).on_die(),
    nand("W29N01HV", "Winbond", LARGE, G1, [1, 20], &[0xEF, 0xF1, 0x00, 0x95, 0x00], [25, 250, 2000, 25]),
    nand("W29N02GV", "Winbond", LARGE, G2, [1, 40], &[0xEF, 0xDA, 0x90, 0x95, 0x04], [25, 250, 2000, 25]),
    nand("W29N04GV", "Winbond", LARGE, G4, [4, 80], &[0xEF, 0xDC, 0x90, 0x95, 0x54], [25, 250, 2000, 25]).approximate(),
    // Micron
    nand("MT29F1G08ABAEA", "Micron", LARGE, G1, [4, 20], &[0x2C, 0xF1, 0x80, 0x95, 0x04], [25, 200, 700, 20]),
    nand("MT29F2G08ABAEA", "Micron", LARGE, G2, [4, 40], &[0x2C, 0xDA, 0x90, 0x95, 0x06], [25, 200, 700, 20]),
    nand("MT29F4G08ABADA", "Micron", LARGE, G4, [4, 80], &[0x2C, 0xDC, 0x90, 0x95, 0x56], [25, 200, 700, 20]),
    nand("MT29F8G08ADADA", "Micron", LARGE, [128, 8192, 4], [4, 160], &[0x2C, 0xD3, 0xD1, 0x95, 0x5A], [25, 200, 700, 20]).approximate(),
    nand("MT29F4G08ABAEA", "Micron", [4096, 224, 1024, 4], [256, 2048, 2], [8, 40], &[0x2C, 0xDC, 0x90, 0xA6, 0x54], [25, 200, 700, 20]).approximate(),
    nand("MT29F8G08ABACA", "Micron", [4096, 224, 1024, 4], [256, 4096, 2], [8, 80], &[0x2C, 0xD3, 0x90, 0xA6, 0x64], [25, 230, 700, 20]).cycles(60_000).approximate(),
    nand("MT29F1G01ABAFD", "Micron", WIDE, G1, [8, 20], &[0x2C, 0x14], [70, 220, 2000, 19]).on_die().approximate(),
    nand("MT29F2G01ABAGD", "Micron", WIDE, G2, [8, 40], &[0x2C, 0x24], [70, 220, 2000, 19]).on_die().approximate(),
    // Macronix
    nand("MX30LF1G18AC", "Macronix", LARGE, G1, [4, 20], &[0xC2, 0xF1, 0x80, 0x95, 0x02], [25, 300, 1000, 20]),
    nand("MX30LF2G18AC", "Macronix", LARGE, G2, [4, 40], &[0xC2, 0xDA, 0x90, 0x95, 0x06], [25, 300, 1000, 20]),
    nand("MX30LF4G18AC", "Macronix", LARGE, G4, [4, 80], &[0xC2, 0xDC, 0x90, 0x95, 0x56], [25, 300, 1000, 20]),
    nand("MX35LF1GE4AB", "Macronix", LARGE, G1, [4, 20], &[0xC2, 0x12], [70, 320, 1000, 19]).on_die(),
    nand("MX35LF2GE4AB", "Macronix", LARGE, G2, [4, 40], &[0xC2, 0x22], [70, 320, 1000, 19]).on_die(),
    // Toshiba / Kioxia
    nand("TC58NVG0S3HTA00", "Kioxia", WIDE, G1, [8, 20], &[0x98, 0xF1, 0x80, 0x15, 0x72], [25, 300, 2500, 25]),
    nand("TC58NVG1S3HTA00", "Kioxia", WIDE, G2, [8, 40], &[0x98, 0xDA, 0x90, 0x15, 0x76], [25, 300, 2500, 25]),
    nand("TC58NVG2S0HTA00", "Kioxia", [4096, 256, 1024, 4], [256, 2048, 2], [8, 40], &[0x98, 0xDC, 0x90, 0x26, 0x76], [25, 300, 2500, 25]),
    nand("TC58CVG0S3HRAIG", "Kioxia", LARGE, G1, [8, 20], &[0x98, 0xC2], [100, 320, 2500, 19]).on_die().approximate(),
    nand("TC58CVG2S0HRAIG", "Kioxia", [4096, 128, 1024, 4], [256, 2048, 1], [8, 40], &[0x98, 0xCD], [120, 320, 2500, 19]).on_die().approximate(),
    // Samsung
    nand("K9F1G08U0E", "Samsung", [2048, 64, 2048, 1], G1, [1, 20], &[0xEC, 0xF1, 0x00, 0x95, 0x41], [35, 400, 4500, 30]).approximate(),
    nand("K9F1G08U0D", "Samsung", LARGE, G1, [1, 20], &[0xEC, 0xF1, 0x00, 0x15, 0x40], [35, 250, 2000, 25]).approximate(),
    nand("K9F2G08U0C", "Samsung", LARGE, G2, [1, 40], &[0xEC, 0xDA, 0x10, 0x95, 0x44], [40, 250, 2000, 25]),
    nand("K9F4G08U0D", "Samsung", LARGE, G4, [1, 80], &[0xEC, 0xDC, 0x10, 0x95, 0x54], [40, 250, 2000, 25]).approximate(),
    nand("K9F1208U0C", "Samsung", [512, 16, 512, 1], [16, 4096, 4], [1, 80], &[0xEC, 0x76], [15, 200, 2000, 42]),
    nand("K9F5608U0D", "Samsung", [512, 16, 512, 1], [16, 2048, 1], [1, 35], &[0xEC, 0x75], [15, 200, 2000, 50]).approximate(),
    // Hynix
    nand("H27U1G8F2B", "Hynix", LARGE, G1, [1, 20], &[0xAD, 0xF1, 0x00, 0x1D], [25, 200, 2000, 25]),
    nand("H27U4G8F2D", "Hynix", LARGE, G4, [4, 80], &[0xAD, 0xDC, 0x90, 0x95, 0x54], [25, 200, 3500, 25]).approximate(),
    nand("H27U518S2C", "Hynix", SMALL, [16, 4096, 4], [1, 80], &[0xAD, 0x76], [15, 200, 2000, 50]).approximate(),
    // Spansion
    nand("S34ML01G1", "Spansion", LARGE, G1, [1, 20], &[0x01, 0xF1, 0x00, 0x1D], [25, 200, 2000, 25]),
    nand("S34ML02G1", "Spansion", LARGE, G2, [1, 40], &[0x01, 0xDA, 0x90, 0x95, 0x44], [25, 200, 3500, 25]),
    nand("S34ML04G1", "Spansion", LARGE, G4, [1, 80], &[0x01, 0xDC, 0x90, 0x95, 0x54], [25, 200, 3500, 25]),
    nand("S34ML01G2", "Spansion", LARGE, G1, [4, 20], &[0x01, 0xF1, 0x80, 0x1D], [25, 300, 3000, 25]),
    nand("S34ML02G2", "Spansion", WIDE, G2, [4, 40], &[0x01, 0xDA, 0x90, 0x95, 0x46], [30, 300, 3500, 25]),
    nand("S34ML04G2", "Spansion", WIDE, G4, [4, 80], &[0x01, 0xDC, 0x90, 0x95, 0x56], [30, 300, 3500, 25]),
    // GigaDevice
    nand("GD5F1GQ4UB", "GigaDevice", WIDE, G1, [8, 20], &[0xC8, 0xD1], [80, 400, 3000, 21]).on_die(),
    nand("GD5F2GQ4UB", "GigaDevice", WIDE, [128, 2048, 1], [8, 40], &[0xC8, 0xD2], [80, 400, 3000, 21]).on_die(),
    nand("GD5F4GQ4UB", "GigaDevice", [4096, 256, 1024, 4], [256, 2048, 1], [8, 40], &[0xC8, 0xD4], [80, 400, 3000, 21]).on_die().approximate(),
    // ESMT
    nand("F59L1G81A", "ESMT", LARGE, G1, [1, 20], &[0xC8, 0xD1, 0x80, 0x95], [25, 200, 1500, 25]).approximate(),
    nand("F59L2G81A", "ESMT", LARGE, G2, [1, 40], &[0xC8, 0xDA, 0x90, 0x95], [25, 200, 1500, 25]).approximate(),
    // ISSI
    nand("IS34ML01G081", "ISSI", LARGE, G1, [1, 20], &[0xC8, 0xD1, 0x80, 0x95], [25, 200, 2000, 25]).approximate(),
    nand("IS34ML02G081", "ISSI", LARGE, G2, [1, 40], &[0xC8, 0xDA, 0x90, 0x95], [25, 200, 2000, 25]).approximate(),
    // ST
    nand("NAND128W3A2", "ST", SMALL, [16, 1024, 1], [1, 20], &[0x20, 0x73], [12, 200, 2000, 50]),
    nand("NAND256W3A2", "ST", SMALL, [16, 2048, 1], [1, 40], &[0x20, 0x75], [12, 200, 2000, 50]),
    nand("NAND512W3A2", "ST", SMALL, [16, 4096, 1], [1, 80], &[0x20, 0x76], [12, 200, 2000, 50]),
    nand("NAND01GW3B2", "ST", LARGE, G1, [1, 20], &[0x20, 0xF1, 0x00, 0x1D], [25, 200, 2000, 30]),
    // NOR, parallel
    nor("S29GL128P", "Spansion", [64, 128, 128], &[0x01, 0x7E, 0x21, 0x01], [90, 480, 500, 13]),
    nor("S29GL256P", "Spansion", [64, 128, 256], &[0x01, 0x7E, 0x22, 0x01], [90, 480, 500, 13]),
    nor("S29GL256S", "Spansion", [512, 128, 256], &[0x01, 0x7E, 0x22, 0x01], [90, 340, 275, 8]),
    nor("MT28EW512ABA", "Micron", [1024, 128, 512], &[0x89, 0x7E, 0x23, 0x01], [95, 280, 200, 10]).approximate(),
    nor("MX29GL256F", "Macronix", [64, 128, 256], &[0xC2, 0x7E, 0x22, 0x01], [90, 240, 500, 13]).approximate(),
    // NOR, serial
    nor("W25Q64JV", "Winbond", [256, 64, 128], &[0xEF, 0x40, 0x17], [300, 400, 150, 16]),
    nor("W25Q128JV", "Winbond", [256, 64, 256], &[0xEF, 0x40, 0x18], [300, 400, 150, 16]),
    nor("W25Q256JV", "Winbond", [256, 64, 512], &[0xEF, 0x40, 0x19], [300, 400, 150, 16]),
    nor("MX25L25645G", "Macronix", [256, 64, 512], &[0xC2, 0x20, 0x19], [300, 250, 280, 16]).approximate(),
    nor("IS25LP256", "ISSI", [256, 64, 512], &[0x9D, 0x60, 0x19], [300, 200, 170, 16]).approximate(),
    nor("S25FL128S", "Spansion", [256, 64, 256], &[0x01, 0x20, 0x18], [300, 250, 130, 19]),
    nor("N25Q128A", "Micron", [256, 64, 256], &[0x20, 0xBA, 0x18], [300, 500, 700, 19]),
    nor("MT25QL512AB", "Micron", [256, 64, 1024], &[0x20, 0xBA, 0x20], [300, 120, 150, 15]).approximate(),
    nor("GD25Q127C", "GigaDevice", [256, 64, 256], &[0xC8, 0x40, 0x18], [300, 500, 200, 19]).approximate(),
];
