//! Sorts eraseblocks into lists and LEB candidates (spec: ubi 9.1).

use super::report::Report;
use super::scan::{DataState, PebReading, Scanner};
use super::{EndMarks, EraseCounters, PebCounts, PebInfo, PebState, is_fastmap};
use crate::codes;
use eraseblock_base::{Leb, Location, Peb, VolumeId};
use eraseblock_ubi_format::constants::{FASTMAP_ANCHOR_VOLUME, GUARD_VOLUME, LAYOUT_VOLUME};
use eraseblock_ubi_format::types::is_internal_volume;
use eraseblock_ubi_format::{
    Compat, EcHeader, EraseCount, HeaderState, SqNum, VidHeader, VolumeKind,
};
use std::sync::Arc;

/// Sequence numbers skipped where a header with a higher one may be hidden.
const HIDDEN: u64 = 1 << 32;

/// Number of blocks whose headers are read before they are sorted.
const WINDOW: u32 = 4096;

/// A block that claims to hold a LEB: 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Candidate {
    pub(super) sqnum: SqNum,
    pub(super) volume: VolumeId,
    pub(super) leb: Leb,
    pub(super) peb: Peb,
    pub(super) data_size: u32,
    pub(super) used_lebs: u32,
    /// `data_pad` (below 2^29), copy flag and kind.
    packed: u32,
}

const COPY_BIT: u32 = 1 << 31;
const STATIC_BIT: u32 = 1 << 30;

impl Candidate {
    pub(super) fn new(peb: Peb, header: &VidHeader) -> Self {
        let copy = if header.copy_flag { COPY_BIT } else { 0 };
        let kind = if header.kind == VolumeKind::Static { STATIC_BIT } else { 0 };
        Self {
            sqnum: header.sqnum,
            volume: header.volume,
            leb: header.leb,
            peb,
            data_size: header.data_size,
            used_lebs: header.used_lebs,
            packed: header.data_pad | copy | kind,
        }
    }

    pub(super) fn copy_flag(&self) -> bool {
        self.packed & COPY_BIT != 0
    }

    /// Returns the properties that must be the same in all LEBs of a volume: kind, used LEBs and
    /// data pad.
    pub(super) fn traits(&self) -> VolumeTraits {
        let is_static = self.packed & STATIC_BIT != 0;
        VolumeTraits {
            is_static,
            used_lebs: self.used_lebs,
            data_pad: self.packed & !(COPY_BIT | STATIC_BIT),
        }
    }
}

/// Properties on which all LEBs of a volume must agree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct VolumeTraits {
    pub(super) is_static: bool,
    pub(super) used_lebs: u32,
    pub(super) data_pad: u32,
}

impl VolumeTraits {
    pub(super) fn kind(&self) -> VolumeKind {
        if self.is_static { VolumeKind::Static } else { VolumeKind::Dynamic }
    }
}

/// An eraseblock during the scan: 12 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PebRecord {
    ec: u32,
    image_seq: u32,
    pub(super) state: PebState,
    pub(super) scrub: bool,
    garbage: bool,
}

const UNKNOWN_EC: u32 = u32::MAX;

impl PebRecord {
    /// Returns a block whose headers were not read.
    pub(super) fn known(state: PebState, ec: Option<EraseCount>) -> Self {
        let ec = ec.map_or(UNKNOWN_EC, EraseCount::get);
        Self { ec, image_seq: 0, state, scrub: false, garbage: false }
    }
}

/// A copy as read when it proved to be complete, while the block that it replaces still exists.
#[derive(Clone, Debug)]
pub(crate) struct NewestCopy {
    pub(crate) peb: Peb,
    pub(crate) header: VidHeader,
    pub(crate) data: Arc<[u8]>,
    /// The blocks it replaces.
    pub(crate) rivals: Vec<Peb>,
}

/// Everything the scan found.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) pebs: Vec<PebRecord>,
    pub(super) candidates: Vec<Candidate>,
    pub(super) maybe_bad: u32,
    pub(super) image_seq: u32,
    pub(super) max_sqnum: SqNum,
    /// The sequence number of everything not read is at most this.
    pub(super) sqnum_floor: SqNum,
    /// Copies of the volume table as read when they proved to be complete: unstable cells may not
    /// read so again.
    pub(super) tables: Vec<(Peb, Vec<u8>)>,
    /// The newest of all copies that proved to be complete.
    pub(super) newest_copy: Option<NewestCopy>,
    /// Super blocks of fastmaps that are not in use.
    pub(super) anchors: Vec<(SqNum, Peb)>,
    /// The end marks of the image, if any.
    pub(super) end_marks: Option<EndMarks>,
    pub(super) erase_counters: EraseCounters,
    pub(super) read_only: bool,
    /// Error correction gave up on a VID header: it may be readable another time.
    hides_header: bool,
    empty: u32,
    erase_first: Vec<Peb>,
    erase_last: Vec<Peb>,
}

/// Reads all headers and sorts the blocks.
///
/// `readings` are those of the first blocks, if they were already read. Blocks after an end mark
/// are marked for erasing if the marks are `heeded`.
pub(super) fn collect(
    scanner: &Scanner<'_>,
    readings: Vec<PebReading>,
    heeded: bool,
    report: &mut Report,
) -> Collected {
    let count = scanner.device.geometry().peb_count();
    let mut collected = Collected::default();
    let mut start = 0;
    for reading in readings {
        Sorter { all: &mut collected, report, peb: Peb::new(start), heeded }.sort(reading);
        start += 1;
    }
    while start < count {
        let end = count.min(start + WINDOW);
        for (peb, reading) in (start..end).zip(scanner.read_range(start..end)) {
            Sorter { all: &mut collected, report, peb: Peb::new(peb), heeded }.sort(reading);
        }
        start = end;
    }
    collected.judge_image_seq(report);
    collected
}

struct Sorter<'a> {
    all: &'a mut Collected,
    report: &'a mut Report,
    peb: Peb,
    /// Whether end marks are used.
    heeded: bool,
}

/// Whether a block with a LEB must be renewed, because its VID header has bit flips.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scrub {
    No,
    Yes,
}

/// When a block is erased, compared with the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Before them.
    First,
    /// After them.
    Last,
}

/// The content of the erase-counter header.
#[derive(Clone, Copy, Default)]
struct EcSummary {
    header: Option<EcHeader>,
    bitflips: bool,
    uncorrectable: bool,
    illegal: bool,
}

impl Sorter<'_> {
    fn sort(mut self, reading: PebReading) {
        match reading {
            PebReading::Bad => self.put(PebState::Bad, EcSummary::default()),
            PebReading::Failed(error) => {
                let message = error.to_string();
                self.report.refuse(Location::peb(self.peb), "peb-unreadable", message);
                self.put(PebState::Unreadable, EcSummary::default());
            }
            PebReading::Empty { bitflips } => {
                self.all.empty += 1;
                let order = if bitflips { Order::First } else { Order::Last };
                self.erase(order, EcSummary::default());
            }
            PebReading::Headers { ec, vid, .. } if self.is_after_end(&ec, &vid) => {
                self.erase_after_end(&ec);
            }
            PebReading::Headers { ec, vid, data } => {
                let ec = self.summarise_ec(ec);
                self.sort_headers(ec, vid, data);
            }
        }
    }

    /// Returns whether this block has an end mark or comes after one.
    ///
    /// A mark counts only in a free block: a block with a LEB was written by a Linux that ignores
    /// the mark, and so may be everything after it.
    fn is_after_end(&self, ec: &HeaderState<EcHeader>, vid: &HeaderState<VidHeader>) -> bool {
        let is_mark = is_marked(ec) && *vid == HeaderState::Erased;
        self.heeded && (is_mark || self.all.end_marks.is_some())
    }

    /// Only the erase counter counts here, not even the image number: the block may be older than
    /// the image.
    fn erase_after_end(&mut self, ec: &HeaderState<EcHeader>) {
        let end = self.all.end_marks.get_or_insert_default();
        let list = if is_marked(ec) { &mut end.pebs } else { &mut end.hidden };
        list.push(self.peb);
        let header = match ec {
            HeaderState::Ok(header) | HeaderState::Bitflips(header) => Some(*header),
            HeaderState::Illegal { salvage, .. } => *salvage,
            _ => None,
        };
        let header = header.map(|header| EcHeader { image_seq: 0, ..header });
        self.erase(Order::Last, EcSummary { header, ..EcSummary::default() });
    }

    fn summarise_ec(&mut self, state: HeaderState<EcHeader>) -> EcSummary {
        match state {
            HeaderState::Ok(header) => EcSummary { header: Some(header), ..EcSummary::default() },
            HeaderState::Bitflips(header) => {
                EcSummary { header: Some(header), bitflips: true, ..EcSummary::default() }
            }
            HeaderState::Illegal { error, salvage, clean } => {
                self.report.refuse(error.location(), "ec-header-illegal", error.to_string());
                EcSummary { header: salvage, bitflips: !clean, illegal: true, uncorrectable: false }
            }
            HeaderState::Bad | HeaderState::Erased | HeaderState::ErasedBitflips => {
                EcSummary { bitflips: true, ..EcSummary::default() }
            }
            HeaderState::BadUncorrectable => {
                EcSummary { bitflips: true, uncorrectable: true, ..EcSummary::default() }
            }
        }
    }

    fn sort_headers(
        &mut self,
        ec: EcSummary,
        vid: HeaderState<VidHeader>,
        data: Option<DataState>,
    ) {
        self.all.hides_header |= vid == HeaderState::BadUncorrectable;
        match vid {
            HeaderState::Ok(header) => self.sort_leb(ec, &header, Scrub::No),
            HeaderState::Bitflips(header) => self.sort_leb(ec, &header, Scrub::Yes),
            HeaderState::Illegal { error, salvage, clean } => {
                self.report.refuse(error.location(), "vid-header-illegal", error.to_string());
                match salvage {
                    Some(header) if clean => self.sort_leb(ec, &header, Scrub::No),
                    Some(header) => self.sort_leb(ec, &header, Scrub::Yes),
                    None => self.put(PebState::Foreign, ec),
                }
            }
            _ if ec.illegal => self.put(PebState::Foreign, ec),
            HeaderState::Erased if ec.header.is_some() && !ec.bitflips => {
                self.put(PebState::Free, ec);
            }
            HeaderState::Erased | HeaderState::ErasedBitflips => self.erase(Order::First, ec),
            HeaderState::Bad | HeaderState::BadUncorrectable if ec.header.is_none() => {
                let both = ec.uncorrectable && vid == HeaderState::BadUncorrectable;
                self.all.maybe_bad += u32::from(both);
                self.erase(Order::First, ec);
                self.mark_garbage();
            }
            HeaderState::Bad | HeaderState::BadUncorrectable => self.sort_torn(ec, data),
        }
    }

    fn mark_garbage(&mut self) {
        if let Some(record) = self.all.pebs.last_mut() {
            record.garbage = true;
        }
    }

    /// Handles a block with a good erase-counter header and a bad volume identifier header.
    fn sort_torn(&mut self, ec: EcSummary, data: Option<DataState>) {
        let at = Location::peb(self.peb);
        if data == Some(DataState::Content) {
            let message = "the VID header is damaged: the data after it belongs to no LEB";
            self.report.findings.warn(at, codes::PEB_CORRUPTED, message);
            self.put(PebState::Corrupted, ec);
        } else {
            let message = "the VID header was being written or erased when the power was cut";
            self.report.findings.note(at, codes::VID_HEADER_TORN, message);
            self.erase(Order::First, ec);
        }
    }

    fn sort_leb(&mut self, ec: EcSummary, header: &VidHeader, scrub: Scrub) {
        if is_internal_volume(header.volume) && header.volume != LAYOUT_VOLUME {
            return self.sort_internal(ec, header, scrub);
        }
        self.add(ec, header, scrub);
    }

    /// Spec: ubi 6.2; fastmap volumes are unknown ones here.
    fn sort_internal(&mut self, ec: EcSummary, header: &VidHeader, scrub: Scrub) {
        let at = Location::peb(self.peb);
        let volume = header.volume;
        let unknown = format!("unknown internal volume {volume}, compat {}", header.compat.code());
        // The counters of blocks of volumes that are deleted or preserved do not count for the
        // mean.
        let uncounted = EcSummary { header: None, ..ec };
        match header.compat {
            Compat::Delete | Compat::None if is_fastmap(volume) => {
                self.put(PebState::Fastmap, uncounted);
                self.remember_ec(ec);
                self.all.erase_first.push(self.peb);
                if volume == FASTMAP_ANCHOR_VOLUME {
                    self.all.anchors.push((header.sqnum, self.peb));
                }
            }
            Compat::Delete | Compat::None => {
                if volume != GUARD_VOLUME {
                    self.report.findings.note(at, codes::INTERNAL_VOLUME, unknown);
                }
                self.erase(Order::First, uncounted);
                self.remember_ec(ec);
            }
            Compat::ReadOnly => {
                self.report.findings.warn(at, codes::INTERNAL_VOLUME, unknown);
                self.all.read_only = true;
                self.add(ec, header, scrub);
            }
            Compat::Preserve => {
                self.report.findings.note(at, codes::INTERNAL_VOLUME, unknown);
                self.put(PebState::Alien, uncounted);
                self.remember_ec(ec);
            }
            Compat::Reject => {
                self.report.refuse(at, "internal-volume-rejects", unknown);
                self.put(PebState::Alien, ec);
            }
        }
    }

    fn remember_ec(&mut self, ec: EcSummary) {
        if let (Some(record), Some(header)) = (self.all.pebs.last_mut(), ec.header) {
            record.ec = header.erase_count.get();
        }
    }

    fn add(&mut self, ec: EcSummary, header: &VidHeader, scrub: Scrub) {
        if ec.header.is_none() {
            let message = "the EC header is damaged: the erase counter is lost";
            self.report.findings.warn(Location::peb(self.peb), codes::EC_HEADER_DAMAGED, message);
        }
        self.put(PebState::Used, ec);
        if let Some(record) = self.all.pebs.last_mut() {
            record.scrub = ec.bitflips || scrub == Scrub::Yes;
        }
        self.all.candidates.push(Candidate::new(self.peb, header));
    }

    fn erase(&mut self, order: Order, ec: EcSummary) {
        self.put(PebState::Erase, ec);
        self.all.erase_list(order).push(self.peb);
    }

    fn put(&mut self, state: PebState, ec: EcSummary) {
        let header = ec.header.as_ref();
        self.all.pebs.push(PebRecord {
            ec: header.map_or(UNKNOWN_EC, |header| header.erase_count.get()),
            image_seq: header.map_or(0, |header| header.image_seq),
            state,
            scrub: false,
            garbage: false,
        });
        if let Some(header) = header {
            self.all.erase_counters.add(header.erase_count);
        }
    }
}

fn is_marked(ec: &HeaderState<EcHeader>) -> bool {
    matches!(ec, HeaderState::Ok(header) | HeaderState::Bitflips(header) if header.end_mark)
}

impl EraseCounters {
    pub(super) fn add(&mut self, count: EraseCount) {
        let count = count.get();
        self.min = if self.known == 0 { count } else { self.min.min(count) };
        self.max = self.max.max(count);
        self.known += 1;
        self.sum += u64::from(count);
    }
}

impl Collected {
    /// Returns the result for blocks that are known without reading them.
    pub(super) fn known(pebs: Vec<PebRecord>, image_seq: u32, sqnum_floor: SqNum) -> Self {
        Self { pebs, image_seq, sqnum_floor, ..Self::default() }
    }

    /// Chooses the image number of most blocks; blocks of other images are ignored.
    ///
    /// Linux uses the first and refuses the device when it finds another (spec: ubi 7).
    fn judge_image_seq(&mut self, report: &mut Report) {
        let first = self.pebs.iter().map(|peb| peb.image_seq).find(|seq| *seq != 0);
        self.image_seq = first.unwrap_or(0);
        if self.pebs.iter().all(|peb| peb.image_seq == 0 || peb.image_seq == self.image_seq) {
            return;
        }
        self.image_seq = self.most_common_image_seq();
        let mut foreign = Vec::new();
        for (number, peb) in (0..).zip(self.pebs.iter_mut()) {
            if peb.image_seq != 0 && peb.image_seq != self.image_seq {
                peb.state = PebState::Foreign;
                foreign.push((Peb::new(number), peb.image_seq));
            }
        }
        for (peb, found) in foreign {
            let message = format!("image_seq is {found}, expected {}: ignored", self.image_seq);
            report.refuse(Location::peb(peb), "image-seq-differs", message);
        }
        let pebs = &self.pebs;
        let ours = |peb: &Peb| pebs[peb.index()].state != PebState::Foreign;
        self.candidates.retain(|candidate| ours(&candidate.peb));
        self.anchors.retain(|(_, peb)| ours(peb));
        self.erase_first.retain(ours);
        self.erase_last.retain(ours);
    }

    /// Returns the super blocks of fastmaps that are not in use, the oldest first.
    pub(super) fn anchors(&self) -> Vec<Peb> {
        let mut anchors = self.anchors.clone();
        anchors.sort_unstable();
        anchors.into_iter().map(|(_, peb)| peb).collect()
    }

    fn most_common_image_seq(&self) -> u32 {
        let mut seqs: Vec<u32> =
            self.pebs.iter().map(|peb| peb.image_seq).filter(|seq| *seq != 0).collect();
        seqs.sort_unstable();
        let best = seqs.chunk_by(|a, b| a == b).map(<[u32]>::len).max().unwrap_or(0);
        let is_best = |seq: u32| {
            let start = seqs.partition_point(|other| *other < seq);
            seqs.get(start + best - 1) == Some(&seq)
        };
        self.pebs
            .iter()
            .map(|peb| peb.image_seq)
            .find(|seq| *seq != 0 && is_best(*seq))
            .unwrap_or(0)
    }

    fn erase_list(&mut self, order: Order) -> &mut Vec<Peb> {
        match order {
            Order::First => &mut self.erase_first,
            Order::Last => &mut self.erase_last,
        }
    }

    /// Adds a block that was assumed to hold a LEB to the erase list.
    pub(super) fn discard(&mut self, peb: Peb, order: Order) {
        self.pebs[peb.index()].state = PebState::Erase;
        self.erase_list(order).push(peb);
    }

    /// Ignores a block that breaks a rule.
    pub(super) fn ignore(&mut self, peb: Peb) {
        self.pebs[peb.index()].state = PebState::Foreign;
    }

    /// The highest sequence number that may be in use. A header that cannot be read now may be
    /// readable at a later attach, where wrong bits fall elsewhere: what is written meanwhile must
    /// be newer.
    pub(super) fn highest_sqnum(&self) -> SqNum {
        let known = self.max_sqnum.get();
        SqNum::new(if self.hides_header { known.saturating_add(HIDDEN) } else { known })
    }

    pub(super) fn finish_counters(&mut self) {
        let counters = &mut self.erase_counters;
        let mean = counters.sum.checked_div(u64::from(counters.known)).unwrap_or(0);
        counters.mean = u32::try_from(mean).expect("a mean of 31-bit numbers");
    }

    pub(super) fn counts(&self) -> PebCounts {
        let mut counts = PebCounts { empty: self.empty, ..PebCounts::default() };
        for peb in &self.pebs {
            *match peb.state {
                PebState::Free => &mut counts.free,
                PebState::Used => &mut counts.used,
                PebState::Erase => &mut counts.erase,
                PebState::Corrupted => &mut counts.corrupted,
                PebState::Alien => &mut counts.alien,
                PebState::Bad => &mut counts.bad,
                PebState::Fastmap => &mut counts.fastmap,
                PebState::Foreign => &mut counts.foreign,
                PebState::Unreadable => &mut counts.unreadable,
            } += 1;
        }
        counts
    }

    /// Reports one finding for each run of blocks without any readable header.
    pub(super) fn report_garbage(&self, report: &mut Report) {
        let mut start = 0_u32;
        for run in self.pebs.chunk_by(|a, b| a.garbage == b.garbage) {
            let len = u32::try_from(run.len()).expect("PEB numbers are 32 bits");
            if run[0].garbage {
                let message = format!("{len} eraseblocks from here on have no readable UBI header");
                report.findings.warn(
                    Location::peb(Peb::new(start)),
                    codes::NO_UBI_HEADERS,
                    message,
                );
            }
            start += len;
        }
    }

    /// Reports where the image ends, and what a Linux without support for the mark would see there.
    pub(super) fn report_end_marks(&self, report: &mut Report) {
        let Some(EndMarks { pebs, hidden }) = &self.end_marks else { return };
        let Some(first) = pebs.first() else { return };
        if hidden.is_empty() {
            return;
        }
        let message = format!(
            "the image ends here; {} eraseblocks after it have older UBI headers and count as \
             erased. Linux without OpenWrt's end marks reads them",
            hidden.len()
        );
        report.findings.warn(Location::peb(*first), codes::AFTER_END_MARK, message);
    }

    /// Returns the blocks to erase; the ones put at the head of the list come last, in reverse
    /// order.
    pub(super) fn erase_order(&self) -> Vec<Peb> {
        self.erase_first.iter().rev().chain(&self.erase_last).copied().collect()
    }

    pub(super) fn into_pebs(self) -> Vec<PebInfo> {
        self.pebs
            .iter()
            .map(|peb| PebInfo {
                state: peb.state,
                scrub: peb.scrub,
                erase_count: EraseCount::new(u64::from(peb.ec)),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_up_in_any_order() {
        for counts in [[3, 5, 9], [9, 5, 3], [5, 3, 9]] {
            let mut counters = EraseCounters::default();
            for count in counts {
                counters.add(EraseCount::new(count).unwrap());
            }
            let found = (counters.known, counters.min, counters.max, counters.sum);
            assert_eq!(found, (3, 3, 9, 17), "{counts:?}");
        }
    }
}
