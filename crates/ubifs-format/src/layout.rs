//! The areas of a volume, and the choice of those of a new volume (spec: ubifs-format 2, 12.1,
//! 12.2, 17.2, 17.7).
//!
//! # Invariants
//! 1. The areas of a [`Layout`] follow each other without gaps and fill `max_leb_cnt` LEBs.
//! 2. Linux accepts every [`Layout`]: log, LPT and journal are large enough, the tables of the LPT
//!    fit their LEBs, and at the full size there are enough main-area LEBs.

use crate::constants::{
    LOG_FIRST, MAX_NODE_SIZE, MIN_FANOUT, MIN_LEB_COUNT, MIN_LEB_SIZE, MIN_MAIN_LEBS,
    MIN_WRITE_SIZE,
};
use crate::lpt::{LebProps, LptGeometry, LptInputs, Lsave};
use crate::raw;
use alloc::format;
use alloc::string::String;
use core::error::Error;
use core::fmt;
use eraseblock_base::{ErrorClass, Leb, align};

/// Largest LEB.
pub const MAX_LEB_SIZE: u32 = 2 << 20;
/// Entries of the save table in every new volume.
pub const LSAVE_CNT: u32 = 256;
/// Default fanout of the index.
pub const DEFAULT_FANOUT: u32 = 8;
/// Length of the largest data node, used to compute the reserved pool.
const MAX_DATA_NODE: u64 = 4144;

/// A layout that is impossible.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LayoutError {
    /// A parameter is out of its range.
    Parameter {
        /// The invalid parameter.
        field: &'static str,
        /// Its value.
        found: u64,
        /// What is allowed.
        expected: String,
    },
    /// The areas do not fit the volume.
    TooSmall {
        /// LEBs of the volume.
        max_leb_cnt: u32,
        /// The area that does not fit.
        reason: &'static str,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parameter { field, found, expected } => {
                write!(f, "{field} is {found}, expected {expected}")
            }
            Self::TooSmall { max_leb_cnt, reason } => {
                write!(f, "{max_leb_cnt} LEBs are too few: {reason}")
            }
        }
    }
}

impl Error for LayoutError {}

impl LayoutError {
    /// Returns [`ErrorClass::Caller`]: the caller chose the parameters.
    pub fn class(&self) -> ErrorClass {
        ErrorClass::Caller
    }
}

fn parameter(field: &'static str, found: u64, expected: impl Into<String>) -> LayoutError {
    LayoutError::Parameter { field, found, expected: expected.into() }
}

/// The parameters of a layout (spec: ubifs-format 17.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutOptions {
    /// Bytes in a LEB: 15360 to 2 MiB, a multiple of 8 and of `min_io`.
    pub leb_size: u32,
    /// Minimum I/O unit in bytes, a power of two; less than 8 counts as 8.
    pub min_io: u32,
    /// Maximum number of LEBs of the volume.
    pub max_leb_cnt: u32,
    /// Maximum size of the journal in bytes (`max_bud_bytes`), or the default.
    pub journal_bytes: Option<u64>,
    /// LEBs of the log, or the default.
    pub log_lebs: Option<u32>,
    /// LEBs of the orphan area, at least 1.
    pub orph_lebs: u32,
    /// Maximum number of children of an index node, at least 3.
    pub fanout: u32,
    /// Bytes reserved for root, counted as file content.
    pub reserved: u64,
    /// Use the big model of the LPT even if the small one is sufficient; not together with
    /// `in_place`.
    pub big_lpt: bool,
    /// Choose journal, areas, fanout and reserve as Linux does for an empty volume of `max_leb_cnt`
    /// LEBs; the corresponding options are then ignored.
    pub in_place: bool,
}

impl LayoutOptions {
    /// Returns the defaults for a volume of these sizes.
    pub const fn new(leb_size: u32, min_io: u32, max_leb_cnt: u32) -> Self {
        Self {
            leb_size,
            min_io,
            max_leb_cnt,
            journal_bytes: None,
            log_lebs: None,
            orph_lebs: 1,
            fanout: DEFAULT_FANOUT,
            reserved: 0,
            big_lpt: false,
            in_place: false,
        }
    }
}

/// The areas of a volume of `max_leb_cnt` LEBs and the related sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Bytes in a LEB.
    pub leb_size: u32,
    /// Minimum I/O unit in bytes, at least 8.
    pub min_io: u32,
    /// Maximum number of LEBs of the volume.
    pub max_leb_cnt: u32,
    /// Maximum size of the journal in bytes.
    pub max_bud_bytes: u64,
    /// LEBs of the log.
    pub log_lebs: u32,
    /// LEBs of the LPT area.
    pub lpt_lebs: u32,
    /// LEBs of the orphan area.
    pub orph_lebs: u32,
    /// LEBs of the main area if the volume has all `max_leb_cnt` LEBs.
    pub max_main_lebs: u32,
    /// Maximum number of children of an index node.
    pub fanout: u32,
    /// Entries of the save table.
    pub lsave_cnt: u32,
    /// Whether the big LPT model is used.
    pub big_lpt: bool,
    /// Flash bytes of the reserved pool.
    pub rp_size: u64,
}

impl Layout {
    /// Returns the first LEB of the LPT area.
    pub const fn lpt_first(&self) -> Leb {
        Leb::new(LOG_FIRST + self.log_lebs)
    }

    /// Returns the first LEB of the orphan area.
    pub const fn orph_first(&self) -> Leb {
        Leb::new(LOG_FIRST + self.log_lebs + self.lpt_lebs)
    }

    /// Returns the first LEB of the main area.
    pub const fn main_first(&self) -> Leb {
        Leb::new(LOG_FIRST + self.log_lebs + self.lpt_lebs + self.orph_lebs)
    }

    /// Returns the LPT geometry for a main area that currently has `main_lebs` LEBs.
    pub fn lpt(&self, main_lebs: u32) -> LptGeometry {
        LptGeometry::new(LptInputs {
            leb_size: self.leb_size,
            min_io: self.min_io,
            main_lebs,
            leb_cnt: self.main_first().get().saturating_add(main_lebs),
            max_leb_cnt: self.max_leb_cnt,
            lpt_first: self.lpt_first(),
            lpt_lebs: self.lpt_lebs,
            lsave_cnt: self.lsave_cnt,
            big: self.big_lpt,
        })
    }

    /// Chooses the areas as `mkfs` does (spec: ubifs-format 17.2), or as Linux does in place.
    ///
    /// # Errors
    ///
    /// Fails if a parameter is out of range or the areas do not fit.
    pub fn for_image(options: &LayoutOptions) -> Result<Self, LayoutError> {
        if options.in_place {
            let LayoutOptions { leb_size, min_io, max_leb_cnt, .. } = *options;
            return Self::for_empty_volume(leb_size, min_io, max_leb_cnt);
        }
        let (min_io, leb_size) = check_shape(options)?;
        let LayoutOptions { max_leb_cnt, orph_lebs, fanout, .. } = *options;
        if orph_lebs == 0 {
            return Err(parameter("orphan area", 0, "at least 1 LEB"));
        }
        let most_fanout = (leb_size - raw::IndexNode::SIZE as u32) / INDEX_BRANCH;
        if !(MIN_FANOUT..=most_fanout).contains(&fanout) {
            return Err(parameter("fanout", fanout.into(), format!("3 to {most_fanout}")));
        }
        let max_bud_bytes = options.journal_bytes.unwrap_or_else(|| default_journal(options));
        let least_log =
            log_bytes(max_bud_bytes, leb_size, min_io).div_ceil(u64::from(leb_size)) + 1;
        let log_lebs = options.log_lebs.map_or(least_log + 2, u64::from);
        check_fixed_areas(max_leb_cnt, log_lebs, orph_lebs, least_log)?;
        let mut layout = Self {
            leb_size,
            min_io,
            max_leb_cnt,
            max_bud_bytes,
            log_lebs: log_lebs as u32,
            lpt_lebs: 2,
            orph_lebs,
            max_main_lebs: 0,
            fanout,
            lsave_cnt: LSAVE_CNT,
            big_lpt: options.big_lpt,
            rp_size: reserved_pool(options.reserved, fanout)
                .ok_or_else(|| parameter("reserved pool", options.reserved, "less"))?,
        };
        if layout.rp_size >= u64::from(max_leb_cnt) * u64::from(leb_size) / 2 {
            return Err(parameter("reserved pool", options.reserved, "under half of the volume"));
        }
        layout.choose_lpt(Lsave::Always)?;
        layout.check_journal()?;
        Ok(layout)
    }

    /// Chooses the areas as Linux does when it formats an empty volume of `leb_cnt` LEBs (spec:
    /// ubifs-format 17.7).
    ///
    /// # Errors
    ///
    /// Fails if a size is out of range or the areas do not fit.
    pub fn for_empty_volume(leb_size: u32, min_io: u32, leb_cnt: u32) -> Result<Self, LayoutError> {
        let (min_io, leb_size) = check_shape(&LayoutOptions::new(leb_size, min_io, leb_cnt))?;
        let size = u64::from(leb_size);
        let mut journal = (u64::from(leb_cnt) * 5 / 100).max(5);
        if journal * size > MAX_LINUX_JOURNAL {
            journal = MAX_LINUX_JOURNAL / size;
        }
        let reference = u64::from(align::align_up(raw::ReferenceNode::SIZE as u32, min_io));
        let mut log_lebs = (2 * reference * journal).div_ceil(size) + 1;
        let mut least = u64::from(MIN_LEB_COUNT);
        let spare = |least: u64| u64::from(leb_cnt).saturating_sub(least);
        if spare(least) > 8 {
            log_lebs += 1;
            least += 1;
        }
        let orph_lebs = if spare(least) > 1 { 2 } else { 1 };
        let mut layout = Self {
            leb_size,
            min_io,
            max_leb_cnt: leb_cnt,
            max_bud_bytes: journal.saturating_sub(log_lebs).max(3) * size,
            log_lebs: log_lebs as u32,
            lpt_lebs: 2,
            orph_lebs,
            max_main_lebs: 0,
            fanout: DEFAULT_FANOUT,
            lsave_cnt: LSAVE_CNT,
            big_lpt: false,
            rp_size: 0,
        };
        layout.choose_lpt(Lsave::IfBig)?;
        layout.check_journal()?;
        let main_bytes = u64::from(layout.max_main_lebs) * size;
        layout.rp_size = (main_bytes * 5 / 100).min(MAX_LINUX_RESERVE);
        Ok(layout)
    }

    /// Returns the LEBs of the smallest volume on which Linux mounts a file system with these areas,
    /// however small its image is (spec: ubifs-format 2).
    pub fn least_leb_cnt(&self) -> u32 {
        let journal = self.max_bud_bytes.div_ceil(u64::from(self.leb_size.max(1)));
        let journal = u32::try_from(journal).unwrap_or(u32::MAX);
        let main = MIN_MAIN_LEBS.max(journal);
        self.main_first().get().saturating_add(main).max(MIN_LEB_COUNT)
    }

    /// Chooses size and model of the LPT area and assigns the rest to the main area (17.2 step 3).
    fn choose_lpt(&mut self, lsave: Lsave) -> Result<(), LayoutError> {
        let too_small = |reason| LayoutError::TooSmall { max_leb_cnt: self.max_leb_cnt, reason };
        let no_room = too_small("superblock, log, LPT and orphan areas leave no main area");
        let fixed = u64::from(LOG_FIRST) + u64::from(self.log_lebs) + u64::from(self.orph_lebs);
        let available = u64::from(self.max_leb_cnt).checked_sub(fixed).ok_or(no_room.clone())?;
        let leb_size = u64::from(self.leb_size);
        let mut first_round = true;
        loop {
            let main = available.checked_sub(u64::from(self.lpt_lebs)).filter(|main| *main > 0);
            self.max_main_lebs = main.ok_or(no_room.clone())? as u32;
            let mut size = self.lpt(self.max_main_lebs).total_size(lsave);
            if first_round && size > leb_size {
                self.big_lpt = true;
                size = self.lpt(self.max_main_lebs).total_size(lsave);
            }
            first_round = false;
            if self.lpt(self.max_main_lebs).ltab_size > leb_size {
                return Err(parameter(
                    "LEB size",
                    leb_size,
                    "larger: the table of the LPT area fits no LEB",
                ));
            }
            let needed = (u128::from(size) * 4).div_ceil(u128::from(leb_size));
            if needed <= u128::from(self.lpt_lebs) {
                break;
            }
            self.lpt_lebs = u32::try_from(needed).map_err(|_| no_room.clone())?;
        }
        if self.max_main_lebs < MIN_MAIN_LEBS {
            return Err(too_small("Linux needs 9 LEBs in the main area"));
        }
        Ok(())
    }

    /// Checks the limits that Linux checks at mount (spec: ubifs-format 13).
    fn check_journal(&self) -> Result<(), LayoutError> {
        let least = 3 * u64::from(self.leb_size);
        let most = u64::from(self.max_main_lebs) * u64::from(self.leb_size);
        if self.max_bud_bytes < least || self.max_bud_bytes > most {
            let expected = format!("{least} to {most} bytes");
            return Err(parameter("journal size", self.max_bud_bytes, expected));
        }
        Ok(())
    }

    /// Returns the size below which the free and dirty bytes of a LEB are unusable (12.1).
    pub const fn dead_watermark(&self) -> u32 {
        MIN_WRITE_SIZE.next_multiple_of(self.min_io)
    }

    /// Returns the size below which the free and dirty bytes of a LEB may be unusable (12.1).
    pub const fn dark_watermark(&self) -> u32 {
        MAX_NODE_SIZE.next_multiple_of(self.min_io)
    }

    /// Returns the contribution of a LEB to the volume's (dead, dark) bytes (12.2).
    pub fn dead_and_dark(&self, leb: &LebProps) -> (u32, u32) {
        let space = leb.free + leb.dirty;
        let (dead, dark) = (self.dead_watermark(), self.dark_watermark());
        if leb.index {
            (0, 0)
        } else if space < dead {
            (space, 0)
        } else if space < dark {
            (0, space)
        } else if space < dark + MIN_WRITE_SIZE {
            (0, space - MIN_WRITE_SIZE)
        } else {
            (0, dark)
        }
    }
}

/// Bytes that `mkfs` assumes for each branch when it limits the fanout.
const INDEX_BRANCH: u32 = 28;
const MAX_LINUX_JOURNAL: u64 = 32 << 20;
const MAX_LINUX_RESERVE: u64 = 5 << 20;
const MAX_DEFAULT_JOURNAL: u64 = 8 << 20;

/// Checks LEB size, minimum I/O unit and count; returns (min_io raised to 8, leb_size).
fn check_shape(options: &LayoutOptions) -> Result<(u32, u32), LayoutError> {
    let LayoutOptions { leb_size, min_io, max_leb_cnt, .. } = *options;
    if !min_io.is_power_of_two() || min_io > MAX_LEB_SIZE {
        return Err(parameter("minimum I/O unit", min_io.into(), "a power of two"));
    }
    let unit = min_io.max(8);
    if !(MIN_LEB_SIZE..=MAX_LEB_SIZE).contains(&leb_size) || !leb_size.is_multiple_of(unit) {
        let expected = format!("a multiple of {unit} from {MIN_LEB_SIZE} to {MAX_LEB_SIZE}");
        return Err(parameter("LEB size", leb_size.into(), expected));
    }
    if max_leb_cnt < MIN_LEB_COUNT || max_leb_cnt > i32::MAX as u32 {
        let expected = format!("{MIN_LEB_COUNT} to {}", i32::MAX);
        return Err(parameter("maximum LEB count", max_leb_cnt.into(), expected));
    }
    Ok((unit, leb_size))
}

/// Returns the default size of the journal (17.2 step 1).
fn default_journal(options: &LayoutOptions) -> u64 {
    let leb_size = u64::from(options.leb_size);
    let areas = options.orph_lebs.saturating_add(options.log_lebs.unwrap_or(2));
    let others = areas.saturating_add(3 + 2);
    let eighth = u64::from(options.max_leb_cnt.saturating_sub(others) / 8) * leb_size;
    eighth.min(MAX_DEFAULT_JOURNAL).max(4 * leb_size)
}

/// Returns the number of log bytes that a journal of this size can fill (17.2 step 2).
fn log_bytes(max_bud_bytes: u64, leb_size: u32, min_io: u32) -> u64 {
    let reference = u64::from(align::align_up(raw::ReferenceNode::SIZE as u32, min_io));
    let start = raw::CommitStartNode::SIZE + 2 * raw::ReferenceNode::SIZE;
    let buds = max_bud_bytes.div_ceil(u64::from(leb_size));
    buds.saturating_mul(reference).saturating_add(u64::from(align::align_up(start as u32, min_io)))
}

fn check_fixed_areas(
    max_leb_cnt: u32,
    log_lebs: u64,
    orph_lebs: u32,
    least_log: u64,
) -> Result<(), LayoutError> {
    let spare = u64::from(max_leb_cnt - MIN_LEB_COUNT);
    let too_small = |reason| LayoutError::TooSmall { max_leb_cnt, reason };
    if log_lebs < least_log {
        return Err(parameter("log area", log_lebs, format!("at least {least_log} LEBs")));
    }
    if log_lebs >= spare {
        return Err(too_small("the log area leaves no space"));
    }
    if u64::from(orph_lebs) >= spare {
        return Err(too_small("the orphan area leaves no space"));
    }
    if 3 + log_lebs + u64::from(orph_lebs) + 4 > u64::from(max_leb_cnt) {
        return Err(too_small("log and orphan areas leave no space"));
    }
    Ok(())
}

/// Returns the flash bytes needed for `reserved` bytes of file content (17.2 step 6), or `None` on
/// overflow.
fn reserved_pool(reserved: u64, fanout: u32) -> Option<u64> {
    let half = if fanout > 3 { fanout / 2 } else { 2 };
    let index = 3 * (28 + 20 * u64::from(fanout)) / u64::from(half - 1);
    Some(reserved.checked_mul(MAX_DATA_NODE + index)? / 4096)
}

#[cfg(test)]
mod tests;
