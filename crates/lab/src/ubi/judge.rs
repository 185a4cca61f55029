//! The judge: evaluates a chip after a power cut (spec: ubi 20).

use super::device::UbiTarget;
use super::model::{Allowed, Found, Model, VolumeModel};
use super::workload::style::{BY_FASTMAP, ERASED_EARLY, WITHOUT_FREE};
use crate::powercut::{Broken, Judge, Trial, Verdict};
use eraseblock_base::{Leb, Peb};
use eraseblock_mtd::{LebDevice, Mtd, MtdError};
use eraseblock_nandsim::{Chip, Recorded};
use eraseblock_ubi::{AttachOptions, Attachment, UbiDevice, Volume, VolumeInfo, attach, codes};
use eraseblock_ubi_format::constants::LAYOUT_VOLUME;
use eraseblock_ubi_format::{EraseCount, VolumeKind};
use std::sync::Arc;

/// What a device may hold after a cut of an operation.
#[derive(Debug)]
pub(crate) struct UbiJudge {
    pub(crate) target: UbiTarget,
    pub(crate) allowed: Arc<Allowed>,
    /// The minimum of each erase counter.
    pub(crate) floor: Arc<Vec<u32>>,
}

impl Judge for UbiJudge {
    fn judge<'s>(&'s self, chip: Chip, trial: &Trial<'_>) -> Verdict<'s> {
        let Self { target, allowed, floor } = self;
        let floor = floor.clone();
        let mut case = Case { target: *target, allowed, floor, trial, came_later: false };
        let (broken, events) = case.judge(chip);
        let came_later = case.came_later && broken.is_none();
        let then = trial.keep_events.then(|| {
            let (allowed, floor) = (allowed.clone(), case.floor);
            Box::new(Self { target: *target, allowed, floor }) as Box<dyn Judge>
        });
        Verdict { broken, events, came_later, then }
    }
}

/// A state to judge.
struct Case<'a> {
    target: UbiTarget,
    allowed: &'a Allowed,
    /// The minimum of each erase counter; after the verdict, that after another cut.
    floor: Arc<Vec<u32>>,
    trial: &'a Trial<'a>,
    /// Whether a device was refused at first.
    came_later: bool,
}

impl Case<'_> {
    /// Switches the chip on and judges the result. Also returns the flash events of the recovery,
    /// if requested.
    fn judge(&mut self, chip: Chip) -> (Option<Broken>, Vec<Recorded>) {
        let chip = Arc::new(chip);
        chip.power_on();
        chip.set_recording(self.trial.keep_events);
        let mut events = Vec::new();
        let recovered = self.recover(&chip);
        if let Some(diary) = self.trial.diary {
            diary.keep(chip.snapshot());
        }
        let verdict = recovered.and_then(|()| {
            events = chip.take_recording();
            chip.set_recording(false);
            self.again(&chip)
        });
        (verdict.err(), events)
    }

    /// Attaches. A full device cannot do without a block whose header is damaged and whose data is
    /// not: it is kept, as Linux keeps it, and the attach is refused. Cells that decay make it one
    /// of those that can be erased.
    fn open(&mut self, chip: &Arc<Chip>) -> Result<(UbiDevice, Attachment), Broken> {
        let mut opened = self.open_once(chip);
        for _ in 0..DECAY {
            if opened.is_ok() || !self.trial.unstable {
                break;
            }
            self.came_later = true;
            chip.power_on();
            opened = self.open_once(chip);
        }
        opened
    }

    fn open_once(&self, chip: &Arc<Chip>) -> Result<(UbiDevice, Attachment), Broken> {
        let layout = self.target.shape.layout();
        let options = self.target.open_options();
        let (before, counters) = (chip.next_event(), chip.counters());
        let opened = UbiDevice::open_with_report(chip.clone(), &layout, &options)
            .map_err(|error| ("attach-refused", error.to_string()));
        if let (Some(tally), Ok((_, attachment))) = (self.trial.tally, &opened) {
            let has_erased = chip.counters().erases > counters.erases;
            for what in self.kinds_of(attachment, has_erased) {
                tally.count(what);
            }
        }
        if let Some(diary) = self.trial.diary {
            let events = chip.next_event() - before;
            let pages = chip.counters().page_reads - counters.page_reads;
            diary.note([format!(
                "{pages} page reads and {events} flash events while attaching, from {before} on"
            )]);
            match &opened {
                Ok((ubi, attachment)) => diary.note(seen(ubi, attachment)),
                Err((_, message)) => diary.note([format!("refused: {message}")]),
            }
        }
        opened
    }

    /// Returns what is rare in an attach.
    fn kinds_of(
        &self,
        attachment: &Attachment,
        has_erased: bool,
    ) -> impl Iterator<Item = &'static str> {
        let is_full = attachment.counts.free == 0;
        let by_fastmap = attachment.is_by_fastmap();
        let how = if by_fastmap { BY_FASTMAP } else { why_scanned(attachment).0 };
        let how = self.target.shape.uses_fastmap().then_some(how);
        let full = is_full.then_some(WITHOUT_FREE);
        let early = (is_full && has_erased).then_some(ERASED_EARLY);
        how.into_iter().chain(full).chain(early)
    }

    fn begin(&self, by: &str) {
        if let Some(diary) = self.trial.diary {
            diary.begin(by);
        }
    }

    fn recover(&mut self, chip: &Arc<Chip>) -> Result<(), Broken> {
        let compare = self.target.shape.uses_fastmap() && !self.trial.unstable;
        let before = compare.then(|| self.scan(chip));
        self.begin("first attach");
        let (ubi, attachment) = self.open(chip)?;
        ubi.check_invariants().map_err(|message| ("invariants", message))?;
        if !self.trial.unstable {
            ubi.verify_flash().map_err(|error| ("flash-differs", error.to_string()))?;
        }
        if !attachment.is_by_fastmap() {
            self.check_counters(&attachment)?;
        }
        self.lower(&attachment, before.as_deref());
        self.check_volumes(&ubi)?;
        ubi.flush().map_err(|error| ("background-failed", error.to_string()))?;
        ubi.check_invariants().map_err(|message| ("invariants", message))?;
        before.map_or(Ok(()), |before| check_rise(&before, &self.scan(chip)))
    }

    /// Returns the erase counters on flash; `None` where they cannot be read.
    fn scan(&self, chip: &Arc<Chip>) -> Vec<Option<EraseCount>> {
        let options = AttachOptions::default();
        let scanned = attach(chip.as_ref(), &self.target.shape.layout(), &options);
        let pebs = chip.geometry().pebs();
        scanned.map_or(Vec::new(), |scanned| {
            pebs.map(|peb| scanned.peb(peb).and_then(|info| info.erase_count)).collect()
        })
    }

    /// Attaches once more: the result must be the same, and nothing written.
    fn again(&mut self, chip: &Arc<Chip>) -> Result<(), Broken> {
        let before = chip.next_event();
        self.begin("second attach, with all work in the background done");
        let (ubi, attachment) = self.open(chip)?;
        self.check_fastmap(&attachment)?;
        if !self.trial.unstable && chip.next_event() != before {
            let events = chip.next_event() - before;
            return Err(("second-attach-writes", format!("{events} flash events")));
        }
        self.check_volumes(&ubi)?;
        check_alive(&ubi)
    }

    /// Checks that a recovered device has a fastmap that can be used, if it has one.
    fn check_fastmap(&self, attachment: &Attachment) -> Result<(), Broken> {
        let (what, why) = why_scanned(attachment);
        if attachment.is_by_fastmap() || what == NO_FASTMAP || self.trial.unstable {
            return Ok(());
        }
        Err(("fastmap-refused", why))
    }

    /// Checks that counters never fall; a lost one may become the mean.
    fn check_counters(&self, attachment: &Attachment) -> Result<(), Broken> {
        for (number, before) in (0..).zip(self.floor.iter()) {
            let now = attachment.peb(Peb::new(number)).and_then(|peb| peb.erase_count);
            if let Some(now) = now.filter(|now| now.get() < *before) {
                let message = format!("peb {number} has {now}, expected at least {before}");
                return Err(("erase-counter", message));
            }
        }
        Ok(())
    }

    /// Lowers the limit of a counter whose header was lost. It restarts at the mean, or at the
    /// value in a fastmap; its old value can no longer be determined (spec: ubi 9.4, 20.1).
    fn lower(&mut self, attachment: &Attachment, scanned: Option<&[Option<EraseCount>]>) {
        let by_fastmap = attachment.is_by_fastmap();
        let mean = if by_fastmap { 0 } else { attachment.erase_counters.mean };
        let is_lost = |index: usize| match scanned {
            Some(scanned) => scanned.get(index).copied().flatten().is_none(),
            // Only the fastmap has been read.
            None if by_fastmap => true,
            None => {
                let peb = u32::try_from(index).ok().map(Peb::new);
                peb.and_then(|peb| attachment.peb(peb)?.erase_count).is_none()
            }
        };
        let lost: Vec<usize> = (0..self.floor.len()).filter(|index| is_lost(*index)).collect();
        if !lost.is_empty() {
            let floor = Arc::make_mut(&mut self.floor);
            for index in lost {
                floor[index] = floor[index].min(mean);
            }
        }
    }

    fn check_volumes(&self, ubi: &UbiDevice) -> Result<(), Broken> {
        let found = ubi.volumes();
        let (before, after) = (&self.allowed.before, &self.allowed.after);
        let is_wrong = |volume: &&VolumeInfo| {
            volume.upd_marker && Some(volume.id.get()) != self.allowed.updating
        };
        if let Some(marked) = found.iter().find(is_wrong) {
            let updating = self.allowed.updating.map_or_else(
                || "no volume was being updated".to_owned(),
                |id| format!("volume {id} was being updated"),
            );
            let message = format!("volume {} is marked as damaged; {updating}", marked.id);
            return Err(("update-marker", message));
        }
        if !same_table(&found, before) && !same_table(&found, after) {
            return Err(("volume-table", explain_table(&found, before, after)));
        }
        for volume in found.iter().filter(|volume| !volume.upd_marker) {
            self.check_volume(ubi, volume)?;
        }
        Ok(())
    }

    fn check_volume(&self, ubi: &UbiDevice, info: &VolumeInfo) -> Result<(), Broken> {
        let id = info.id.get();
        let layout = self.target.shape.layout();
        let piece = self.target.shape.chip_page();
        let volume = ubi.volume(info.id).map_err(|error| ("volume-lost", error.to_string()))?;
        let unstable = self.trial.unstable;
        let mut sides = [true, true];
        let mut scratch = Vec::new();
        for leb in 0..info.reserved_lebs {
            let mut found = read_leb(&volume, leb, layout.data_offset(), piece, scratch)
                .map_err(|error| ("read-failed", error.to_string()))?;
            if info.kind == VolumeKind::Static && leb + 1 == info.used_lebs {
                found = found.padded(info.last_leb_bytes as usize, layout.min_io() as usize);
            }
            let permitted = self.allowed.permits(id, leb, &found)
                || (unstable && self.allowed.permits_lost(id, leb, &found));
            if !permitted {
                return Err(("leb-content", self.explain(id, leb, &found.bytes)));
            }
            for (side, model) in sides.iter_mut().zip([&self.allowed.before, &self.allowed.after]) {
                let leb = model.volumes.get(&id).and_then(|model| model.lebs.get(leb as usize));
                *side &= leb.is_some_and(|leb| {
                    leb.ghosts.iter().chain([&leb.content]).any(|content| found.is(content))
                });
            }
            if info.kind == VolumeKind::Static && leb < info.used_lebs && !unstable {
                let checked = volume.check_leb(Leb::new(leb));
                checked.map_err(|error| ("static-data", error.to_string()))?;
            }
            scratch = found.bytes;
        }
        if self.allowed.updating == Some(id) && sides == [false, false] && !unstable {
            return Err(("update-half-done", format!("volume {id} is neither old nor new")));
        }
        Ok(())
    }

    fn explain(&self, id: u32, leb: u32, bytes: &[u8]) -> String {
        let used = bytes.iter().rposition(|byte| *byte != 0xFF).map_or(0, |last| last + 1);
        let side = |model: &Model| {
            let leb = model.volumes.get(&id).and_then(|model| model.lebs.get(leb as usize));
            leb.map_or_else(
                || "no such LEB".to_owned(),
                |leb| match leb.ghosts.len() {
                    0 => format!("{} bytes", leb.content.len()),
                    older => {
                        format!("{} bytes, or one of {older} older contents", leb.content.len())
                    }
                },
            )
        };
        let start: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        format!(
            "volume {id} LEB {leb} has {used} bytes that begin with {}; before the operation it had \
             {}, after it {}",
            start.join(" "),
            side(&self.allowed.before),
            side(&self.allowed.after),
        )
    }
}

/// The most attaches until decaying cells stay as they are.
const DECAY: u32 = 4;

/// A device without a fastmap.
const NO_FASTMAP: &str = "attaches that scanned: no fastmap";

/// Returns why a device was scanned: the kind of reason, and the reason itself.
pub(crate) fn why_scanned(attachment: &Attachment) -> (&'static str, String) {
    const KINDS: [(&str, &str); 4] = [
        ("VID header", "attaches that scanned: a VID header could not be read"),
        ("EC header", "attaches that scanned: an EC header could not be read"),
        ("newer than", "attaches that scanned: a block newer than the fastmap"),
        ("CRC", "attaches that scanned: a fastmap with a wrong checksum"),
    ];
    let finding = attachment.findings.iter().find(|it| it.code == codes::FASTMAP_UNUSABLE);
    let Some(finding) = finding else { return (NO_FASTMAP, "there is no fastmap".to_owned()) };
    let kind = KINDS.iter().find(|(part, _)| finding.message.contains(part));
    let kind = kind.map_or("attaches that scanned: another fault of the fastmap", |(_, kind)| kind);
    (kind, finding.message.clone())
}

/// Checks that no counter on flash falls, even if a fastmap has a lower value than the block
/// itself.
fn check_rise(before: &[Option<EraseCount>], after: &[Option<EraseCount>]) -> Result<(), Broken> {
    for (number, pair) in before.iter().zip(after).enumerate() {
        if let (Some(before), Some(after)) = pair
            && after < before
        {
            let message = format!("peb {number} has {after}, expected at least {before}");
            return Err(("erase-counter-fell", message));
        }
    }
    Ok(())
}

/// Checks that the device can still be written to.
fn check_alive(ubi: &UbiDevice) -> Result<(), Broken> {
    let failed = |error: &dyn std::error::Error| ("dead", error.to_string());
    let usable = |volume: &&VolumeInfo| volume.kind == VolumeKind::Dynamic && !volume.upd_marker;
    let volumes = ubi.volumes();
    let Some(info) = volumes.iter().find(usable) else { return Ok(()) };
    let volume = ubi.volume(info.id).map_err(|error| failed(&error))?;
    let data = vec![0x2A; (volume.min_io() as usize).max(64)];
    volume.change(Leb::new(0), &data).map_err(|error| failed(&error))?;
    let mut now = vec![0; data.len()];
    volume.read(Leb::new(0), 0, &mut now).map_err(|error| failed(&error))?;
    if now == data { Ok(()) } else { Err(("dead", "what was written is not there".into())) }
}

fn table_line(volume: &VolumeInfo) -> (u32, String, bool, usize) {
    let is_static = volume.kind == VolumeKind::Static;
    (volume.id.get(), volume.name.to_string(), is_static, volume.reserved_lebs as usize)
}

fn table_words(lines: impl Iterator<Item = (u32, String, bool, usize)>) -> String {
    let words: Vec<String> = lines
        .map(|(id, name, is_static, lebs)| {
            let kind = if is_static { "static" } else { "dynamic" };
            format!("{id} `{name}` ({kind}, {lebs} LEBs)")
        })
        .collect();
    if words.is_empty() { "no volume".to_owned() } else { words.join(", ") }
}

fn explain_table(found: &[VolumeInfo], before: &Model, after: &Model) -> String {
    format!(
        "the table has {}; before the operation it had {}, after it {}",
        table_words(found.iter().map(table_line)),
        table_words(model_lines(before)),
        table_words(model_lines(after)),
    )
}

/// Describes the observations of an attach.
fn seen(ubi: &UbiDevice, attachment: &Attachment) -> Vec<String> {
    let how = if attachment.is_by_fastmap() { "by fastmap" } else { "by scan" };
    let sqnum = attachment.max_sqnum;
    let mut lines = vec![format!("attached {how}, highest sequence number {sqnum}")];
    if let Some(map) = attachment.map(LAYOUT_VOLUME) {
        let copies: Vec<String> =
            map.iter().map(|(leb, peb)| format!("copy {leb} in peb {peb}")).collect();
        lines.push(format!("volume table found: {}", copies.join(", ")));
    }
    lines.extend(ubi.volumes().iter().map(|volume| {
        let marked = if volume.upd_marker { ", marked as damaged by an update" } else { "" };
        format!("volume {}{marked}", table_words([table_line(volume)].into_iter()))
    }));
    lines.extend(attachment.findings.iter().map(|finding| format!("found: {finding}")));
    lines
}

fn model_lines(model: &Model) -> impl Iterator<Item = (u32, String, bool, usize)> {
    let line = |(id, volume): (&u32, &VolumeModel)| {
        (*id, volume.name.clone(), volume.is_static, volume.lebs.len())
    };
    model.volumes.iter().map(line)
}

fn same_table(found: &[VolumeInfo], model: &Model) -> bool {
    found.iter().map(table_line).eq(model_lines(model))
}

/// Returns the LEB on flash, in the pieces that the chip programs; nothing at all for an unmapped
/// one. Reuses the memory of `scratch`.
fn read_leb(
    volume: &Volume,
    leb: u32,
    data_offset: u32,
    piece: u32,
    scratch: Vec<u8>,
) -> Result<Found, MtdError> {
    let size = volume.leb_size() as usize;
    let mut found = Found { bytes: scratch, used: 0, pieces: Vec::new() };
    found.bytes.clear();
    if !volume.is_mapped(Leb::new(leb))? {
        return Ok(found);
    }
    found.bytes.resize(size, 0xFF);
    let outcome = volume.read(Leb::new(leb), 0, &mut found.bytes)?;
    if !outcome.uncorrectable && piece > 1 && data_offset.is_multiple_of(piece) {
        let ends = (piece as usize..=size).step_by(piece as usize);
        found.pieces = ends.map(|end| (end, true)).collect();
        return Ok(found.measure());
    }
    let mut start = 0;
    while start < size {
        let inside = (data_offset as usize + start) % piece as usize;
        let end = (start + piece as usize - inside).min(size);
        let offset = u32::try_from(start).expect("within a LEB");
        let outcome = volume.read(Leb::new(leb), offset, &mut found.bytes[start..end])?;
        found.pieces.push((end, !outcome.uncorrectable));
        start = end;
    }
    Ok(found.measure())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;
    use eraseblock_ubi::PebState;

    /// A scan finds everything that a fastmap lists, so a fastmap that is wrong was not noticed.
    #[test]
    fn a_fastmap_that_is_refused_breaks_a_rule() {
        let target = UbiTarget::new(Shape::MiniFastmap);
        let (chip, layout) = (Arc::new(target.shape.chip()), target.shape.layout());
        let ubi = UbiDevice::open(chip.clone(), &layout, &target.open_options()).unwrap();
        ubi.flush().unwrap();
        ubi.detach().unwrap();
        let by_fastmap =
            AttachOptions { whole_device: true, fastmap: true, ..AttachOptions::default() };
        let attach = || attach(chip.as_ref(), &layout, &by_fastmap).unwrap();
        let model = Arc::new(Model::default());
        let (before, after) = (model.clone(), model);
        let allowed = Allowed { before, after, torn: None, updating: None, shrinking: None };
        let check = |unstable| {
            let trial = Trial { unstable, ..Trial::default() };
            let floor = Arc::default();
            let case = Case { target, allowed: &allowed, floor, trial: &trial, came_later: false };
            case.check_fastmap(&attach())
        };
        assert!(attach().is_by_fastmap() && check(false).is_ok());
        let is_free = |peb: &Peb| attach().peb(*peb).unwrap().state == PebState::Free;
        let free = (0..32).map(Peb::new).find(is_free).unwrap();
        let at = chip.geometry().address_of(free) + u64::from(layout.vid_hdr_offset());
        chip.program(at, &[0x55; 512]).unwrap();
        let (rule, message) = check(false).unwrap_err();
        assert_eq!(rule, "fastmap-refused");
        assert!(message.contains("VID header of peb"), "{message}");
        assert!(check(true).is_ok(), "cells that decay excuse it");
        let kind = why_scanned(&attach()).0;
        assert_eq!(kind, "attaches that scanned: a VID header could not be read");
    }
}
