//! Selects one eraseblock for each LEB (spec: ubi 9.2, 9.3).

use super::collect::{Candidate, Collected, NewestCopy, Order, VolumeTraits};
use super::report::Report;
use super::scan::Scanner;
use crate::codes;
use crate::map::VolumeMap;
use eraseblock_base::crc::crc32;
use eraseblock_base::{Location, Peb, VolumeId};
use eraseblock_ubi_format::constants::LAYOUT_VOLUME;
use eraseblock_ubi_format::{HeaderState, ReadQuality, SqNum};
use std::collections::BTreeMap;

/// Decides which block holds which LEB; all others are added to the erase list.
pub(super) fn resolve(
    scanner: &Scanner<'_>,
    collected: &mut Collected,
    report: &mut Report,
) -> BTreeMap<VolumeId, ResolvedVolume> {
    let mut candidates = std::mem::take(&mut collected.candidates);
    let highest = candidates.iter().map(|one| one.sqnum).max().unwrap_or_default();
    collected.max_sqnum = highest.max(collected.sqnum_floor);
    candidates.sort_unstable_by_key(|one| (one.volume, one.leb, one.peb));
    let (data, losers) = (Vec::new(), Vec::new());
    let mut resolver = Resolver { scanner, collected, report, data, proved: None, losers };
    candidates
        .chunk_by(|a, b| a.volume == b.volume)
        .map(|volume| (volume[0].volume, resolver.resolve_volume(volume)))
        .collect()
}

/// A volume as described by its LEBs.
#[derive(Clone, Debug)]
pub(super) struct ResolvedVolume {
    pub(super) map: VolumeMap,
    pub(super) traits: VolumeTraits,
    /// Data size in the header of the highest LEB.
    pub(super) last_data_size: u32,
}

struct Resolver<'a, 'b> {
    scanner: &'a Scanner<'b>,
    collected: &'a mut Collected,
    report: &'a mut Report,
    data: Vec<u8>,
    /// The copy of the current LEB that was found complete. It is not read again for a third block:
    /// unstable cells might give another result, and the second block has been given up by then.
    proved: Option<Peb>,
    /// The blocks of the current LEB that are given up.
    losers: Vec<Loser>,
}

/// A block that is given up.
struct Loser {
    sqnum: SqNum,
    peb: Peb,
    /// A copy that is not complete.
    /// A torn copy is erased before all others.
    order: Order,
}

impl Resolver<'_, '_> {
    fn resolve_volume(&mut self, candidates: &[Candidate]) -> ResolvedVolume {
        // Linux compares with the first block of the scan.
        let first = candidates.iter().min_by_key(|one| one.peb).expect("a chunk is never empty");
        let traits = first.traits();
        if candidates.iter().all(|one| one.traits() == traits) {
            return self.resolve_lebs(candidates, traits);
        }
        let usual = most_common_traits(candidates);
        let mut agreeing = Vec::with_capacity(candidates.len());
        for leb in candidates.chunk_by(|a, b| a.leb == b.leb) {
            let start = agreeing.len();
            for one in leb {
                if one.traits() == usual {
                    agreeing.push(*one);
                } else {
                    self.set_aside(one, &agreeing[start..], usual);
                }
            }
        }
        self.resolve_lebs(&agreeing, usual)
    }

    /// A block that disagrees with its volume counts only if no block found earlier makes it
    /// outdated.
    fn set_aside(&mut self, one: &Candidate, before: &[Candidate], usual: VolumeTraits) {
        if before.iter().any(|other| other.sqnum > one.sqnum) {
            self.collected.discard(one.peb, Order::Last);
        } else {
            self.report_disagreement(one, usual);
            self.collected.ignore(one.peb);
        }
    }

    /// Spec: ubi 9.2 step 3.
    fn report_disagreement(&mut self, one: &Candidate, usual: VolumeTraits) {
        let found = one.traits();
        let message = format!(
            "LEB {} of volume {} is {}, {} used LEBs, data pad {}; the others are {}, {}, {}",
            one.leb,
            one.volume,
            found.kind(),
            found.used_lebs,
            found.data_pad,
            usual.kind(),
            usual.used_lebs,
            usual.data_pad,
        );
        self.report.refuse(Location::peb(one.peb), "leb-disagrees", message);
    }

    fn resolve_lebs(&mut self, candidates: &[Candidate], traits: VolumeTraits) -> ResolvedVolume {
        let mut entries = Vec::new();
        let mut last_data_size = 0;
        for leb in candidates.chunk_by(|a, b| a.leb == b.leb) {
            self.proved = None;
            let winner = leb[1..].iter().fold(leb[0], |winner, next| self.duel(winner, *next));
            self.discard_losers();
            entries.push((winner.leb, winner.peb));
            last_data_size = winner.data_size;
        }
        ResolvedVolume { map: VolumeMap::new(entries), traits, last_data_size }
    }

    /// Erase the older blocks first. The winner may be a copy that cannot be read at the next
    /// attach, if its cells decay. If the power goes off in between, its direct predecessor must
    /// come back, not an older block.
    fn discard_losers(&mut self) {
        self.losers.sort_unstable_by_key(|loser| loser.sqnum);
        for loser in self.losers.drain(..) {
            self.collected.discard(loser.peb, loser.order);
        }
    }

    fn give_up(&mut self, loser: &Candidate, order: Order) {
        self.losers.push(Loser { sqnum: loser.sqnum, peb: loser.peb, order });
    }

    /// Decides which of two blocks is newer; the other one is given up (spec: ubi 9.3).
    fn duel(&mut self, current: Candidate, next: Candidate) -> Candidate {
        if current.sqnum == next.sqnum {
            let message = format!(
                "LEB {} of volume {} with sequence number {} is also in eraseblock {}: kept that",
                next.leb, next.volume, next.sqnum, current.peb
            );
            self.report.refuse(Location::peb(next.peb), "equal-sequence-numbers", message);
            self.collected.ignore(next.peb);
            return current;
        }
        let (old, new) = if current.sqnum < next.sqnum { (current, next) } else { (next, current) };
        if !new.copy_flag() {
            self.give_up(&old, Order::Last);
            return new;
        }
        if self.proved == Some(new.peb) {
            return self.replace(&old, new);
        }
        if let Some(quality) = self.copy_is_complete(&new) {
            self.collected.pebs[new.peb.index()].scrub |= quality != ReadQuality::Clean;
            return self.replace(&old, new);
        }
        let message = format!(
            "copy of LEB {} of volume {} is incomplete: the older eraseblock {} is used",
            new.leb, new.volume, old.peb
        );
        self.report.findings.note(Location::peb(new.peb), codes::COPY_INCOMPLETE, message);
        self.give_up(&new, Order::First);
        old
    }

    fn is_newest(&self, sqnum: SqNum) -> bool {
        let newest = self.collected.newest_copy.as_ref();
        newest.is_none_or(|copy| copy.header.sqnum < sqnum)
    }

    /// Replaces the old block if the copy is complete.
    fn replace(&mut self, old: &Candidate, new: Candidate) -> Candidate {
        self.proved = Some(new.peb);
        let newest = self.collected.newest_copy.as_mut().filter(|copy| copy.peb == new.peb);
        if let Some(newest) = newest {
            newest.rivals.push(old.peb);
        }
        self.give_up(old, Order::Last);
        new
    }

    /// Returns the quality of the read if the data of a copy has the checksum in its header.
    fn copy_is_complete(&mut self, new: &Candidate) -> Option<ReadQuality> {
        match self.read_copy(new) {
            Ok(result) => result,
            Err(message) => {
                self.report.refuse(Location::peb(new.peb), "peb-unreadable", message);
                None
            }
        }
    }

    fn read_copy(&mut self, new: &Candidate) -> Result<Option<ReadQuality>, String> {
        let header = match self.scanner.read_vid(new.peb) {
            Ok(HeaderState::Ok(header) | HeaderState::Bitflips(header)) => header,
            // It could be read a moment ago, so these cells were being programmed or erased when
            // the power went off. Linux fails here. The content of such a block cannot be trusted,
            // and the older one is complete.
            Ok(_) => return Ok(None),
            Err(error) => return Err(error.to_string()),
        };
        self.data.resize(header.data_size as usize, 0);
        let offset = self.scanner.layout.data_offset();
        let quality = self.scanner.read(new.peb, offset, &mut self.data);
        let quality = quality.map_err(|error| error.to_string())?;
        if crc32(&self.data) != header.data_crc {
            return Ok(None);
        }
        if new.volume == LAYOUT_VOLUME {
            self.collected.tables.push((new.peb, self.data.clone()));
        }
        if self.is_newest(new.sqnum) {
            let data = self.data.as_slice().into();
            let copy = NewestCopy { peb: new.peb, header, data, rivals: Vec::new() };
            self.collected.newest_copy = Some(copy);
        }
        Ok(Some(quality))
    }
}

fn most_common_traits(candidates: &[Candidate]) -> VolumeTraits {
    let mut found: Vec<(VolumeTraits, Peb)> =
        candidates.iter().map(|one| (one.traits(), one.peb)).collect();
    found.sort_unstable();
    let runs = found.chunk_by(|a, b| a.0 == b.0);
    // Among equally frequent ones the block that Linux finds first decides.
    let best = runs.max_by_key(|run| (run.len(), std::cmp::Reverse(run[0].1)));
    best.expect("a chunk is never empty")[0].0
}
