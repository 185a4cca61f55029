//! The checks of Linux at mount for well-formed structures (spec: ubifs-format 13, 14.3, 12.4;
//! ubifs-runtime 5.1, 6.5).

use crate::constants::{
    FORMAT_VERSION, INO_LIMIT, LOG_FIRST, MIN_LEB_COUNT, MIN_MAIN_LEBS, NODE_ALIGN, NodeType,
    SQNUM_LIMIT, sb_flags,
};
use crate::decode::Limits;
use crate::error::{Expected, FormatError};
use crate::node::{Master, Superblock};
use alloc::vec;
use eraseblock_base::Location;

/// The sizes of the volume that a superblock is compared with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeShape {
    /// Usable bytes in a LEB.
    pub leb_size: u32,
    /// Minimum I/O unit, 8 or more.
    pub min_io: u32,
    /// LEBs in the volume.
    pub leb_count: u32,
}

struct Check {
    at: Location,
    what: NodeType,
}

impl Check {
    fn that(
        &self,
        holds: bool,
        field: &'static str,
        found: u64,
        expected: Expected,
    ) -> Result<(), FormatError> {
        if holds {
            return Ok(());
        }
        Err(FormatError::Field { at: self.at, what: self.what, field, found, expected })
    }

    fn range(
        &self,
        field: &'static str,
        found: u64,
        first: u64,
        last: u64,
    ) -> Result<(), FormatError> {
        let holds = (first..=last).contains(&found);
        self.that(holds, field, found, Expected::Range(first, last))
    }
}

/// Checks a superblock, already [`Superblock::grown`], against its volume.
///
/// # Errors
///
/// Fails if Linux would refuse to mount it.
pub fn superblock(sb: &Superblock, volume: VolumeShape, at: Location) -> Result<(), FormatError> {
    let check = Check { at, what: NodeType::Superblock };
    versions(sb, at)?;
    let [min_io, leb_size] = [volume.min_io, volume.leb_size].map(u64::from);
    check.that(
        u64::from(sb.min_io_size) == min_io,
        "minimum I/O unit",
        sb.min_io_size.into(),
        Expected::Value(min_io),
    )?;
    check.that(
        u64::from(sb.leb_size) == leb_size,
        "LEB size",
        sb.leb_size.into(),
        Expected::Value(leb_size),
    )?;
    check.range("LEBs of the log", sb.log_lebs.into(), 2, u64::MAX)?;
    check.range("LEBs of the LPT area", sb.lpt_lebs.into(), 2, u64::MAX)?;
    check.range("LEBs of the orphan area", sb.orph_lebs.into(), 1, u64::MAX)?;
    check.range("journal heads", sb.jhead_cnt.into(), 1, 1)?;
    let areas = u64::from(sb.main_first()) + u64::from(MIN_MAIN_LEBS);
    let least = areas.max(MIN_LEB_COUNT.into());
    check.range("LEB count", sb.leb_cnt.into(), least, volume.leb_count.into())?;
    check.range("largest LEB count", sb.max_leb_cnt.into(), sb.leb_cnt.into(), u64::MAX)?;
    check.range("main area LEBs", sb.main_lebs().into(), MIN_MAIN_LEBS.into(), u64::MAX)?;
    check.range("journal size", sb.max_bud_bytes, 3 * leb_size, sb.main_bytes())?;
    let ref_slots = sb.max_bud_bytes.div_ceil(leb_size) * 64_u64.next_multiple_of(min_io);
    let least = ref_slots.div_ceil(leb_size) + 1;
    check.range("LEBs of the log", sb.log_lebs.into(), least, u64::MAX)?;
    let most_main = u64::from(sb.max_leb_cnt) - u64::from(sb.main_first());
    check.range("lsave count", sb.lsave_cnt.into(), 0, most_main.max(256))?;
    check.range("reserved pool", sb.rp_size, 0, sb.main_bytes())?;
    check.range("time granularity", sb.time_gran.into(), 1, 1_000_000_000)
}

fn versions(sb: &Superblock, at: Location) -> Result<(), FormatError> {
    let unsupported = |field, found: u32| {
        let what = NodeType::Superblock;
        Err(FormatError::Unsupported { at, what, field, found: found.into() })
    };
    if sb.fmt_version < 3 || (sb.fmt_version > FORMAT_VERSION && sb.ro_compat_version > 0) {
        return unsupported("format version", sb.fmt_version);
    }
    let unknown = sb.flags & !sb_flags::KNOWN;
    if unknown != 0 {
        return unsupported("unknown flag", unknown);
    }
    if sb.fmt_version >= 5 && !sb.has(sb_flags::DOUBLE_HASH) {
        return unsupported("format version 5 without double-hash flag: flags", sb.flags);
    }
    if sb.has(sb_flags::ENCRYPTION) && sb.fmt_version < 5 {
        return unsupported("encryption flag in format version", sb.fmt_version);
    }
    if sb.has(sb_flags::AUTHENTICATION) && sb.hash_len() == 0 {
        return unsupported("hash algorithm", sb.hash_algo.into());
    }
    Ok(())
}

/// Checks a master node against the (grown) superblock.
///
/// # Errors
///
/// Fails if Linux would refuse to mount it.
pub fn master(master: &Master, sb: &Superblock, at: Location) -> Result<(), FormatError> {
    let check = Check { at, what: NodeType::Master };
    let limit = |field, found: u64, below: u64| {
        check.that(found < below, field, found, Expected::AtMost(below.saturating_sub(1)))
    };
    limit("sequence number", master.sqnum, SQNUM_LIMIT)?;
    limit("commit number", master.cmt_no, master.sqnum)?;
    limit("highest inode number", master.highest_inum, INO_LIMIT.into())?;
    check.range("log LEB", master.log_lnum.into(), LOG_FIRST.into(), sb.log_last().into())?;
    let (main_first, main_last) = (u64::from(sb.main_first()), u64::from(sb.leb_cnt) - 1);
    check.range("root LEB", master.root_lnum.into(), main_first, main_last)?;
    check.range("GC LEB", master.gc_lnum.into(), main_first, main_last)?;
    check.range("index head LEB", master.ihead_lnum.into(), main_first, main_last)?;
    check.range("LPT scan LEB", master.lscan_lnum.into(), main_first, main_last)?;
    let (least, most) = Limits::of(sb).lengths(NodeType::Index);
    check.range("root length", master.root_len.into(), least.into(), most.into())?;
    aligned(&check, "root offset", master.root_offs, NODE_ALIGN)?;
    let root_end = u64::from(master.root_offs) + u64::from(master.root_len);
    check.range("end of root", root_end, 0, sb.leb_size.into())?;
    aligned(&check, "index head offset", master.ihead_offs, sb.min_io_size)?;
    check.range("index head offset", master.ihead_offs.into(), 0, sb.leb_size.into())?;
    lpt_places(&check, master, sb)?;
    check.range("LEB count", master.leb_cnt.into(), 0, sb.leb_cnt.into())?;
    space(&check, master, sb)
}

fn aligned(check: &Check, field: &'static str, found: u32, to: u32) -> Result<(), FormatError> {
    let holds = found.is_multiple_of(to);
    check.that(holds, field, found.into(), Expected::MultipleOf(to.into()))
}

fn lpt_places(check: &Check, master: &Master, sb: &Superblock) -> Result<(), FormatError> {
    let mut places = vec![
        ("LPT root", master.lpt_lnum, master.lpt_offs),
        ("LPT head", master.nhead_lnum, master.nhead_offs),
        ("LPT space table", master.ltab_lnum, master.ltab_offs),
    ];
    if sb.has(sb_flags::BIG_LPT) {
        places.push(("LPT save table", master.lsave_lnum, master.lsave_offs));
    }
    for (field, leb, offset) in places {
        check.range(field, leb.into(), sb.lpt_first().into(), sb.lpt_last().into())?;
        check.range(field, offset.into(), 0, sb.leb_size.into())?;
    }
    aligned(check, "LPT head offset", master.nhead_offs, sb.min_io_size)
}

fn space(check: &Check, master: &Master, sb: &Superblock) -> Result<(), FormatError> {
    let main = sb.main_bytes();
    let totals = [
        ("total free", master.total_free),
        ("total dirty", master.total_dirty),
        ("total used", master.total_used),
        ("total dead", master.total_dead),
        ("total dark", master.total_dark),
        ("index size", master.index_size),
    ];
    for (field, value) in totals {
        let aligned = value.is_multiple_of(u64::from(NODE_ALIGN));
        check.that(aligned, field, value, Expected::MultipleOf(NODE_ALIGN.into()))?;
        check.range(field, value, 0, main)?;
    }
    let lebs = u64::from(sb.main_lebs());
    check.range("empty LEBs", master.empty_lebs.into(), 0, lebs.saturating_sub(2))?;
    check.range("index LEBs", master.idx_lebs.into(), 0, lebs.saturating_sub(1))?;
    check.range("index size", master.index_size, 0, main.saturating_sub(1))?;
    let spare = master.total_free + master.total_dirty;
    check.range("free, dirty and used bytes", spare + master.total_used, 0, main)?;
    let taken = master.total_dead + master.total_dark + master.total_used + master.index_size;
    check.range("dead, dark, used and index bytes", taken, 0, main)?;
    check.range("dead bytes", master.total_dead, 0, spare)?;
    check.range("dark bytes", master.total_dark, 0, spare)
}
