//! Cards that behave like measured ones.
//!
//! The parameters are plausible for the class of each card; where a table of measurements exists,
//! `cargo xtask evaluate card` compares it with the model.

use crate::error::CardError;
use crate::parameters::{Parameters, Trim};

/// A card by name.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it is like.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: Parameters,
}

/// A card without cost, to which the presets add theirs.
const FREE: Parameters = Parameters {
    capacity: 16 << 30,
    unit: 4 << 20,
    page: 16 << 10,
    open_units: 1,
    fat_units: 0,
    unordered_pages: 256,
    write_command_ns: 0,
    write_rate: 0,
    copy_rate: 0,
    erase_ns: 0,
    unit_change_ns: 0,
    partial_page_ns: 0,
    read_command_ns: 0,
    read_rate: 0,
    read_page_ns: 0,
    read_unit_ns: 0,
    trim: Trim::Erase,
    erased_ones: false,
    cache_pages: 0,
};

const CLASS_10: Parameters = Parameters {
    unit: 8 << 20,
    open_units: 5,
    fat_units: 1,
    unordered_pages: 512,
    write_command_ns: 900_000,
    write_rate: 10_400_000,
    copy_rate: 9_500_000,
    erase_ns: 5_000_000,
    unit_change_ns: 500_000,
    partial_page_ns: 3_000_000,
    read_command_ns: 700_000,
    read_rate: 11_400_000,
    read_page_ns: 260_000,
    read_unit_ns: 170_000,
    ..FREE
};

const SANDISK: Parameters = Parameters {
    page: 8 << 10,
    open_units: 3,
    unordered_pages: 256,
    write_command_ns: 1_000_000,
    write_rate: 10_300_000,
    copy_rate: 9_300_000,
    erase_ns: 15_000_000,
    unit_change_ns: 50_000,
    partial_page_ns: 20_000_000,
    read_command_ns: 680_000,
    read_rate: 28_000_000,
    read_page_ns: 260_000,
    read_unit_ns: 170_000,
    ..FREE
};

const NCARD: Parameters = Parameters {
    open_units: 6,
    write_command_ns: 400_000,
    write_rate: 6_700_000,
    copy_rate: 5_600_000,
    erase_ns: 10_000_000,
    unit_change_ns: 1_000_000,
    partial_page_ns: 3_000_000,
    read_command_ns: 1_250_000,
    read_rate: 20_000_000,
    read_page_ns: 60_000,
    read_unit_ns: 370_000,
    ..FREE
};

const MANUAL: Parameters = Parameters {
    unit: 2 << 20,
    open_units: 2,
    unordered_pages: 128,
    write_command_ns: 1_000_000,
    write_rate: 7_000_000,
    copy_rate: 8_800_000,
    erase_ns: 5_000_000,
    unit_change_ns: 500_000,
    partial_page_ns: 3_000_000,
    read_command_ns: 690_000,
    read_rate: 20_000_000,
    read_page_ns: 165_000,
    ..FREE
};

/// All presets.
pub const PRESETS: [Preset; 6] = [
    Preset {
        name: "sd-2012-c10",
        about: "microSD of class 10, 2012: units of 8 MiB, 5 open, the first one for a FAT",
        parameters: CLASS_10,
    },
    Preset {
        name: "sd-sandisk-2014",
        about: "SanDisk microSD, 2014: units of 4 MiB, 3 open",
        parameters: SANDISK,
    },
    Preset {
        name: "sd-ncard-2013",
        about: "card without a well-known brand, 2013: units of 4 MiB, 6 open",
        parameters: NCARD,
    },
    Preset {
        name: "sd-2011-2open",
        about: "card of the manual of flashbench, 2011: units of 2 MiB, 2 open",
        parameters: MANUAL,
    },
    Preset {
        name: "emmc-cache",
        about: "as sd-2012-c10, with a volatile cache of 1 MiB that a flush empties",
        parameters: Parameters { cache_pages: 64, ..CLASS_10 },
    },
    Preset { name: "ideal", about: "operations cost no time", parameters: FREE },
];

/// Returns the preset of that name.
///
/// # Errors
///
/// Fails with [`CardError::Preset`] if there is none.
pub fn find(name: &str) -> Result<Preset, CardError> {
    let found = PRESETS.iter().find(|preset| preset.name == name);
    found.cloned().ok_or_else(|| CardError::Preset { name: name.to_owned() })
}
