//! LPT, master, superblock and log, which complete the file system (spec: ubifs-format 17.3).

use super::area::MainArea;
use super::error::MkfsError;
use super::index::Index;
use super::options::{FormatVersion, MkfsOptions};
use super::plan::Plan;
use super::report::{DataStatistics, MkfsReport};
use eraseblock_base::Leb;
use eraseblock_ubifs_format::constants::{LOG_FIRST, MASTER_LEB, SB_LEB, master_flags, sb_flags};
use eraseblock_ubifs_format::encode::{self, Seal};
use eraseblock_ubifs_format::layout::{Layout, LayoutOptions};
use eraseblock_ubifs_format::lpt::LebProps;
use eraseblock_ubifs_format::lpt::fresh::{self, FreshLpt};
use eraseblock_ubifs_format::{CommitStart, Master, Superblock};
use sha2::{Digest, Sha256};

/// Hash algorithm of a volume without authentication, as Linux writes it.
const NO_HASH: u16 = 0xFFFF;
/// Granularity of times: seconds.
const TIME_GRANULARITY: u32 = 1_000_000_000;

/// An image whose main area is complete.
pub(super) struct Image<'a> {
    pub(super) plan: &'a Plan<'a>,
    pub(super) options: &'a MkfsOptions,
    pub(super) layout: &'a Layout,
    pub(super) index: Index,
}

/// Writes the rest of the image.
pub(super) fn write(
    image: &Image<'_>,
    mut area: MainArea<'_>,
    data: DataStatistics,
) -> Result<MkfsReport, MkfsError> {
    let layout = image.layout;
    let main_lebs = area.lebs();
    if main_lebs > layout.max_main_lebs {
        let needed = needed_lebs(&image.options.layout, main_lebs);
        return Err(MkfsError::TooFewLebs { available: layout.max_leb_cnt, needed });
    }
    let leb_cnt = layout.main_first().get() + main_lebs;
    let lpt = fresh::build(&layout.lpt(main_lebs), &area.props, layout.main_first())
        .expect("a layout reserves four times what its LPT needs");
    for (leb, bytes) in (layout.lpt_first().get()..).zip(&lpt.lebs) {
        area.sink.write_leb(Leb::new(leb), bytes).map_err(MkfsError::Sink)?;
    }
    let totals = Totals::of(layout, &area.props);
    let mut master = image.master(&lpt, &totals, &area.props);
    let mut node = Vec::new();
    for leb in [MASTER_LEB, MASTER_LEB + 1] {
        master.sqnum = area.sqnum();
        node.clear();
        encode::master(&mut node, &master);
        area.write_alone(Leb::new(leb), &mut node)?;
    }
    let mut superblock = image.superblock(leb_cnt, area.sqnum());
    superblock.uuid =
        image.options.uuid.unwrap_or_else(|| derived_uuid(area.digest(), &superblock));
    node.clear();
    encode::superblock(&mut node, &superblock);
    area.write_alone(Leb::new(SB_LEB), &mut node)?;
    let sqnum = area.sqnum();
    node.clear();
    encode::commit_start(&mut node, &CommitStart { cmt_no: 0 }, Seal::single(sqnum));
    area.write_alone(Leb::new(LOG_FIRST), &mut node)?;
    area.sink.finish(leb_cnt).map_err(MkfsError::Sink)?;
    Ok(image.report(leb_cnt, &totals, superblock.uuid, data))
}

/// Returns the smallest maximum LEB count with which the main area has `main_lebs`. The other areas
/// grow with the volume, so this is found by trial.
pub(super) fn needed_lebs(options: &LayoutOptions, main_lebs: u32) -> u32 {
    let mut tried = *options;
    tried.max_leb_cnt = main_lebs;
    loop {
        let fits = match Layout::for_image(&tried) {
            Ok(layout) if layout.max_main_lebs >= main_lebs => return tried.max_leb_cnt,
            Ok(layout) => main_lebs - layout.max_main_lebs,
            Err(_) => 1,
        };
        let next = tried.max_leb_cnt.saturating_add(fits);
        if next > i32::MAX as u32 {
            return u32::MAX;
        }
        tried.max_leb_cnt = next;
    }
}

/// Returns a UUID (version 8) that depends on everything else in the image.
fn derived_uuid(mut digest: Sha256, superblock: &Superblock) -> [u8; 16] {
    let mut node = Vec::new();
    encode::superblock(&mut node, superblock);
    digest.update(&node);
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&digest.finalize()[..16]);
    uuid[6] = (uuid[6] & 0x0F) | 0x80;
    uuid[8] = (uuid[8] & 0x3F) | 0x80;
    uuid
}

/// Sums over the main area (spec: ubifs-format 12.4).
#[derive(Default)]
struct Totals {
    free: u64,
    dirty: u64,
    used: u64,
    dead: u64,
    dark: u64,
    empty_lebs: u32,
    index_lebs: u32,
}

impl Totals {
    fn of(layout: &Layout, props: &[LebProps]) -> Self {
        let mut totals = Self::default();
        for leb in props {
            let (dead, dark) = layout.dead_and_dark(leb);
            totals.free += u64::from(leb.free);
            totals.dirty += u64::from(leb.dirty);
            totals.dead += u64::from(dead);
            totals.dark += u64::from(dark);
            totals.index_lebs += u32::from(leb.index);
            totals.empty_lebs += u32::from(leb.free == layout.leb_size);
            if !leb.index {
                totals.used += u64::from(layout.leb_size - leb.free - leb.dirty);
            }
        }
        totals
    }
}

impl Image<'_> {
    fn master(&self, lpt: &FreshLpt, totals: &Totals, props: &[LebProps]) -> Master {
        let Self { layout, index, .. } = self;
        let main_first = layout.main_first().get();
        let last = props.len() as u32 - 1;
        let ihead_offs = layout.leb_size - props[last as usize].free;
        Master {
            sqnum: 0,
            highest_inum: self.plan.highest_inum.into(),
            cmt_no: 0,
            flags: master_flags::NO_ORPHANS,
            log_lnum: LOG_FIRST,
            root_lnum: index.root.leb.get(),
            root_offs: index.root.offset,
            root_len: index.root.len,
            gc_lnum: index.gc.get(),
            ihead_lnum: main_first + last,
            ihead_offs,
            index_size: index.size,
            total_free: totals.free,
            total_dirty: totals.dirty,
            total_used: totals.used,
            total_dead: totals.dead,
            total_dark: totals.dark,
            lpt_lnum: lpt.root.leb.get(),
            lpt_offs: lpt.root.offset,
            nhead_lnum: lpt.head.leb.get(),
            nhead_offs: lpt.head.offset,
            ltab_lnum: lpt.ltab.leb.get(),
            ltab_offs: lpt.ltab.offset,
            lsave_lnum: lpt.lsave.map_or(0, |place| place.leb.get()),
            lsave_offs: lpt.lsave.map_or(0, |place| place.offset),
            lscan_lnum: main_first,
            empty_lebs: totals.empty_lebs,
            idx_lebs: totals.index_lebs,
            leb_cnt: main_first + props.len() as u32,
            hash_root_idx: [0; 64],
            hash_lpt: [0; 64],
            hmac: [0; 64],
        }
    }

    fn superblock(&self, leb_cnt: u32, sqnum: u64) -> Superblock {
        let Self { layout, options, .. } = self;
        let set = [
            (layout.big_lpt, sb_flags::BIG_LPT),
            (options.space_fixup, sb_flags::SPACE_FIXUP),
            (options.version == FormatVersion::V5, sb_flags::DOUBLE_HASH),
        ];
        Superblock {
            sqnum,
            key_hash: options.key_hash,
            flags: set.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum(),
            min_io_size: layout.min_io,
            leb_size: layout.leb_size,
            leb_cnt,
            max_leb_cnt: layout.max_leb_cnt,
            max_bud_bytes: layout.max_bud_bytes,
            log_lebs: layout.log_lebs,
            lpt_lebs: layout.lpt_lebs,
            orph_lebs: layout.orph_lebs,
            jhead_cnt: 1,
            fanout: layout.fanout,
            lsave_cnt: layout.lsave_cnt,
            fmt_version: if options.version == FormatVersion::V5 { 5 } else { 4 },
            default_compr: options.compressor.on_flash(),
            rp_uid: options.reserved_uid,
            rp_gid: options.reserved_gid,
            rp_size: layout.rp_size,
            time_gran: TIME_GRANULARITY,
            uuid: [0; 16],
            ro_compat_version: 0,
            hmac: [0; 64],
            hmac_wkm: [0; 64],
            hash_algo: NO_HASH,
            hash_mst: [0; 64],
        }
    }

    fn report(
        &self,
        leb_cnt: u32,
        totals: &Totals,
        uuid: [u8; 16],
        data: DataStatistics,
    ) -> MkfsReport {
        let layout = self.layout;
        let spare_lebs = layout.max_leb_cnt - leb_cnt;
        let mut nodes = self.plan.counts;
        nodes.blocks -= data.holes;
        MkfsReport {
            layout: *layout,
            leb_cnt,
            data_lebs: self.index.gc.get() - layout.main_first().get(),
            index_lebs: totals.index_lebs,
            spare_lebs,
            free_bytes: totals.free + u64::from(spare_lebs) * u64::from(layout.leb_size),
            index_size: self.index.size,
            highest_inum: self.plan.highest_inum,
            uuid,
            nodes,
            data,
        }
    }
}
