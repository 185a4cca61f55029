//! The checksummed records of a chip file (docs/format/chip-file.md 3, 4, 5).

use crate::config::ChipConfig;
use crate::counters::Counters;
use crate::overlay::{ALL_STEPS, BlockFaults, MAX_FLIPS, PageFault, Unstable};
use crate::plan::{ArmedCut, FaultPlan, Retention};
use crate::state::State;
use crate::store::{Block, PageMeta, Slot};
use eraseblock_base::crc::{crc32, crc32_continue};
use std::sync::Arc;

pub(super) const HEAD_SIZE: usize = 16;

/// A valid record.
pub(super) struct Found {
    pub(super) copy: usize,
    pub(super) sequence: u64,
    pub(super) payload: Vec<u8>,
}

/// The state of a possible record.
pub(super) enum Read {
    /// Never written.
    Never,
    /// Not a valid record.
    Damaged,
    /// A record.
    Found(Found),
}

/// Encodes a record: `sequence u64, length u32, checksum u32`, then the payload. The checksum
/// covers the rest.
pub(super) fn encode(sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_SIZE + payload.len());
    bytes.extend(sequence.to_le_bytes());
    bytes.extend(u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes());
    let crc = crc32_continue(crc32(&bytes), payload);
    bytes.extend(crc.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Returns the payload's length if the head is that of a possible record in `area` bytes.
pub(super) fn payload_len(head: &[u8; HEAD_SIZE], area: u64) -> Option<usize> {
    let mut input = Input(head);
    let sequence = input.u64()?;
    let len = input.u32()?;
    let fits = sequence > 0 && u64::from(len) + HEAD_SIZE as u64 <= area;
    fits.then_some(len as usize)
}

/// Classifies a head that is not that of a record.
pub(super) fn judge(head: &[u8; HEAD_SIZE]) -> Read {
    if head.iter().all(|byte| *byte == 0) { Read::Never } else { Read::Damaged }
}

pub(super) fn check(head: &[u8; HEAD_SIZE], payload: Vec<u8>, copy: usize) -> Read {
    let mut input = Input(head);
    let (Some(sequence), Some(_), Some(stored)) = (input.u64(), input.u32(), input.u32()) else {
        return Read::Damaged;
    };
    if crc32_continue(crc32(&head[..12]), &payload) != stored {
        return Read::Damaged;
    }
    Read::Found(Found { copy, sequence, payload })
}

pub(super) fn encode_state(state: &State, counters: &Counters) -> Vec<u8> {
    let words = [
        state.events,
        state.boots,
        counters.page_reads,
        counters.page_programs,
        counters.erases,
        counters.bad_marks,
        counters.bytes_read,
        counters.bytes_programmed,
        counters.corrected_bits,
        counters.failed_codewords,
        counters.virtual_ns,
    ];
    let mut out: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    encode_ageing(&mut out, state);
    if let Some(cut) = state.waiting_cut() {
        out.extend(cut.event.to_le_bytes());
        out.extend(cut.seed.to_le_bytes());
        out.extend(format!("{} {}", cut.program, cut.erase).bytes());
    }
    out
}

pub(super) fn decode_state(payload: &[u8], state: &mut State) -> Option<Counters> {
    let mut input = Input(payload);
    state.events = input.u64()?;
    state.boots = input.u64()?;
    let counters = Counters {
        page_reads: input.u64()?,
        page_programs: input.u64()?,
        erases: input.u64()?,
        bad_marks: input.u64()?,
        bytes_read: input.u64()?,
        bytes_programmed: input.u64()?,
        corrected_bits: input.u64()?,
        failed_codewords: input.u64()?,
        virtual_ns: input.u64()?,
    };
    decode_ageing(&mut input, state)?;
    if !input.0.is_empty() {
        let (event, seed) = (input.u64()?, input.u64()?);
        let (program, erase) = std::str::from_utf8(input.0).ok()?.split_once(' ')?;
        let (program, erase) = (program.parse().ok()?, erase.parse().ok()?);
        let cut = Some(ArmedCut { event, program, erase, seed });
        let retention = state.plan.retention;
        let since = state.leaks_since;
        state.set_plan(FaultPlan { cut, retention, ..FaultPlan::new(seed) });
        state.leaks_since = since;
    }
    Some(counters)
}

/// An armed cut cannot begin with these bytes: event numbers are smaller.
const AGEING: &[u8; 8] = b"ageing\r\n";

fn encode_ageing(out: &mut Vec<u8>, state: &State) {
    let retention = state.plan.retention;
    if retention.is_none() && state.idle == 0 {
        return;
    }
    out.extend(AGEING);
    out.extend(state.idle.to_le_bytes());
    out.extend(state.leaks_since.to_le_bytes());
    out.extend(retention.map_or(0, |retention| retention.seed).to_le_bytes());
    out.push(u8::from(retention.is_some()));
    out.extend(retention.map_or(0, |retention| retention.per_billion).to_le_bytes());
}

fn decode_ageing(input: &mut Input, state: &mut State) -> Option<()> {
    let Some(rest) = input.0.strip_prefix(AGEING) else { return Some(()) };
    input.0 = rest;
    state.idle = input.u64()?;
    let (since, seed, leaks) = (input.u64()?, input.u64()?, input.u8()? != 0);
    let retention = Retention { per_billion: input.u32()?, seed };
    state.set_plan(FaultPlan { retention: leaks.then_some(retention), ..FaultPlan::default() });
    state.leaks_since = since;
    Some(())
}

const BAD: u8 = 1;
const TORN_MARK: u8 = 2;
const INTERRUPTED: u8 = 4;
const REFUSES_PROGRAMS: u8 = 8;
const PAGE_INTERRUPTED: u8 = 1;
const UNSTABLE: u8 = 2;
const UNSTABLE_IN_PART: u8 = 4;

pub(super) fn encode_slot(slot: &Slot) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(slot.erases.to_le_bytes());
    out.extend(slot.reads.to_le_bytes());
    let faults = slot.faults.as_deref();
    let refuses = faults.is_some_and(|faults| faults.refuses_programs);
    out.push(
        flag(slot.bad, BAD)
            | flag(slot.torn_mark, TORN_MARK)
            | flag(slot.interrupted, INTERRUPTED)
            | flag(refuses, REFUSES_PROGRAMS),
    );
    let pages = slot.block.as_ref().map_or(&[][..], |block| &block.pages);
    out.extend(u32::try_from(pages.len()).unwrap_or(u32::MAX).to_le_bytes());
    for page in pages {
        out.extend([page.programs, page.oob_programs]);
        out.extend(page.mask.to_le_bytes());
    }
    let count = faults.map_or(0, |faults| faults.pages.len());
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    for (page, fault) in faults.iter().flat_map(|faults| &faults.pages) {
        encode_fault(&mut out, *page, fault);
    }
    if pages.iter().any(|page| page.born > 0) {
        out.extend(pages.iter().flat_map(|page| page.born.to_le_bytes()));
    }
    out
}

fn flag(on: bool, bit: u8) -> u8 {
    if on { bit } else { 0 }
}

fn encode_fault(out: &mut Vec<u8>, page: u32, fault: &PageFault) {
    out.extend(page.to_le_bytes());
    out.extend(fault.bad_steps.to_le_bytes());
    let part = fault.unstable.map(|unstable| unstable.steps).filter(|steps| *steps != ALL_STEPS);
    out.push(
        flag(fault.interrupted, PAGE_INTERRUPTED)
            | flag(fault.unstable.is_some(), UNSTABLE)
            | flag(part.is_some(), UNSTABLE_IN_PART),
    );
    if let Some(unstable) = fault.unstable {
        out.extend(unstable.good_reads.to_le_bytes());
        out.extend(unstable.reads.to_le_bytes());
        out.extend(unstable.seed.to_le_bytes());
        out.extend(part.into_iter().flat_map(u64::to_le_bytes));
    }
    let count = fault.flips.len().min(MAX_FLIPS);
    out.extend(u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(fault.flips.iter().take(count).flat_map(|bit| bit.to_le_bytes()));
}

/// Decodes the record of a block; returns `None` if anything in it is impossible for the chip.
pub(super) fn decode_slot(payload: &[u8], config: &ChipConfig) -> Option<Slot> {
    let mut input = Input(payload);
    let mut slot = Slot { erases: input.u32()?, reads: input.u32()?, ..Slot::default() };
    let flags = input.u8()?;
    slot.bad = flags & BAD != 0;
    slot.torn_mark = flags & TORN_MARK != 0;
    slot.interrupted = flags & INTERRUPTED != 0;
    let pages = input.u32()?;
    if pages > config.pages_per_peb() {
        return None;
    }
    let mut block = Block::default();
    for _ in 0..pages {
        let (programs, oob_programs, mask) = (input.u8()?, input.u8()?, input.u64()?);
        block.pages.push(PageMeta { programs, oob_programs, mask, born: 0 });
    }
    let count = input.u32()?;
    if count > config.pages_per_peb() {
        return None;
    }
    let mut faults =
        BlockFaults { refuses_programs: flags & REFUSES_PROGRAMS != 0, ..BlockFaults::default() };
    for _ in 0..count {
        let (page, fault) = decode_fault(&mut input, config)?;
        faults.pages.insert(page, fault);
    }
    if faults.refuses_programs || !faults.pages.is_empty() {
        slot.faults = Some(Arc::new(faults));
    }
    if !input.0.is_empty() {
        for page in &mut block.pages {
            page.born = input.u64()?;
        }
    }
    slot.block = (pages > 0).then(|| Arc::new(block));
    input.0.is_empty().then_some(slot)
}

fn decode_fault(input: &mut Input, config: &ChipConfig) -> Option<(u32, PageFault)> {
    let page = input.u32().filter(|page| *page < config.pages_per_peb())?;
    let bad_steps = input.u64()?;
    let flags = input.u8()?;
    let mut unstable = None;
    if flags & UNSTABLE != 0 {
        let (good_reads, reads, seed) = (input.u16()?, input.u32()?, input.u64()?);
        let in_part = flags & UNSTABLE_IN_PART != 0;
        let steps = if in_part { input.u64()? } else { ALL_STEPS };
        unstable = Some(Unstable { good_reads, reads, seed, steps });
    }
    let count = usize::from(input.u16()?);
    let limit = config.stride() as u64 * 8;
    if count > MAX_FLIPS {
        return None;
    }
    let mut fault = PageFault {
        bad_steps,
        unstable,
        interrupted: flags & PAGE_INTERRUPTED != 0,
        flips: Vec::new(),
    };
    for _ in 0..count {
        fault.flips.push(input.u32().filter(|bit| u64::from(*bit) < limit)?);
    }
    fault.flips.is_sorted().then_some((page, fault))
}

/// Input bytes; every read is checked.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }
}
