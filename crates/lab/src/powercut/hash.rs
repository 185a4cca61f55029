//! Hashes of chips, so that states that a driver cannot distinguish are judged once.

use super::cut::Cut;
use super::id::StateId;
use super::target::{Broken, Choice};
use eraseblock_base::Peb;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, Recorded, Snapshot, Variant};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

/// Number of out-of-band bytes that are compared, from the first page of a block.
const SPARE: usize = 32;

/// Hashes of the blocks of a chip. From one moment to the next, only those of the changed blocks
/// are computed again.
pub(super) struct Hashes {
    snapshot: Snapshot,
    pebs: Vec<u64>,
    choice: Choice,
    buffer: Vec<u8>,
}

impl Hashes {
    /// Computes the hashes of all blocks.
    pub(super) fn of(snapshot: &Snapshot, choice: Choice) -> Self {
        let chip = powered(snapshot);
        let mut buffer = Vec::new();
        let pebs = chip.geometry().pebs();
        let pebs = pebs.map(|peb| hash_peb(&chip, peb, choice, &mut buffer)).collect();
        Self { snapshot: snapshot.clone(), pebs, choice, buffer }
    }

    fn go_on_to(&mut self, snapshot: &Snapshot) {
        let chip = powered(snapshot);
        for peb in self.snapshot.differing_pebs(snapshot) {
            if let Some(hash) = self.pebs.get_mut(peb.index()) {
                *hash = hash_peb(&chip, peb, self.choice, &mut self.buffer);
            }
        }
        self.snapshot = snapshot.clone();
    }

    /// Returns the hash of everything a driver can read.
    pub(super) fn sum(&self) -> u64 {
        self.pebs.iter().fold(0, |sum, hash| sum.wrapping_add(*hash))
    }
}

/// Reading may wear unstable cells, so a copy is read.
fn powered(snapshot: &Snapshot) -> Chip {
    let chip = snapshot.to_chip();
    chip.power_on();
    chip
}

/// An event, and a hash of everything a driver can read of the chip before it without the event's
/// block: the sum of the hashes of the other blocks, because an event changes only its own.
pub(super) struct Marked {
    pub(super) event: Recorded,
    others: u64,
}

impl Marked {
    /// Adds the hash to an event. `hashes` are those before an earlier event of the same chip, if
    /// any.
    pub(super) fn new(event: Recorded, hashes: &mut Option<Hashes>, choice: Choice) -> Self {
        let hashes = match hashes {
            Some(hashes) => {
                hashes.go_on_to(&event.before);
                hashes
            }
            None => hashes.insert(Hashes::of(&event.before, choice)),
        };
        let own = hashes.pebs.get(event.event.kind.peb().index()).copied().unwrap_or(0);
        Self { others: hashes.sum().wrapping_sub(own), event }
    }

    /// Does without the hash, for an event whose states are not compared.
    pub(super) fn unhashed(event: Recorded) -> Self {
        Self { event, others: 0 }
    }

    /// Returns the hash of the chip after the event was cut.
    pub(super) fn after(
        &self,
        chip: &Chip,
        variant: Variant,
        choice: Choice,
        buffer: &mut Vec<u8>,
    ) -> u64 {
        let own = self.event.event.kind.peb();
        let own = hash_peb(&powered(&chip.snapshot()), own, choice, buffer);
        let unstable = Cut::During(variant).is_unstable();
        if !unstable && !choice.place {
            return self.others.wrapping_add(own);
        }
        let mut hasher = DefaultHasher::new();
        if unstable {
            variant.hash(&mut hasher);
        }
        hasher.write_u64(self.others);
        hasher.write_u64(own);
        hasher.finish()
    }
}

/// Returns a digest of a state and its verdict. `hash` is that of its chip.
pub(super) fn digest(id: &StateId, hash: u64, came_later: bool, broken: Option<&Broken>) -> u128 {
    let mut low = DefaultHasher::new();
    Hash::hash(&(id, hash, came_later, broken), &mut low);
    let mut high = low.clone();
    high.write_u8(1);
    u128::from(high.finish()) << 64 | u128::from(low.finish())
}

fn hash_peb(chip: &Chip, peb: Peb, choice: Choice, buffer: &mut Vec<u8>) -> u64 {
    let geometry = chip.geometry();
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(peb.get());
    buffer.resize(geometry.peb_size() as usize, 0);
    if let Ok(outcome) = chip.read(geometry.address_of(peb), buffer) {
        hasher.write_u32(eraseblock_base::crc::crc32(buffer));
        hasher.write_u16(outcome.corrected_bits);
        hasher.write_u8(u8::from(outcome.uncorrectable));
    }
    if choice.spare && geometry.oob_size() > 0 {
        let mut oob = [0; SPARE];
        let len = oob.len().min(geometry.oob_size() as usize);
        let read = chip.read_oob(geometry.address_of(peb), 0, &mut oob[..len]);
        hasher.write_u8(u8::from(read.is_ok()));
        hasher.write(&oob);
    }
    hasher.write_u8(u8::from(chip.is_bad(peb).unwrap_or(true)));
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn a_digest_depends_on_the_state_and_on_its_verdict() {
        let id = |text: &str| text.parse::<StateId>().unwrap();
        let (one, other) = (id("ubi/mini/7@137.P3"), id("ubi/mini/7@137.P4"));
        let broken = ("durable", "a file is lost".to_owned());
        let digests = [
            digest(&one, 1, false, None),
            digest(&other, 1, false, None),
            digest(&one, 2, false, None),
            digest(&one, 1, true, None),
            digest(&one, 1, false, Some(&broken)),
        ];
        assert_eq!(digests.iter().collect::<std::collections::HashSet<_>>().len(), 5);
        assert_eq!(digests[0], digest(&one, 1, false, None));
    }

    const SPARE_TOO: Choice = Choice { spare: true, place: false, counts_own_events: false };

    #[test]
    fn going_on_is_as_good_as_a_new_beginning() {
        let chip = Shape::Mini.chip();
        let mut hashes = Hashes::of(&chip.snapshot(), SPARE_TOO);
        chip.set_recording(true);
        for (peb, page) in [(3, 0), (3, 1), (40, 0)] {
            let at = chip.geometry().address_of(Peb::new(peb)) + page * 512;
            chip.program(at, &[0x5A; 512]).unwrap();
        }
        chip.erase(Peb::new(3)).unwrap();
        for event in chip.take_recording() {
            hashes.go_on_to(&event.before);
            assert_eq!(hashes.pebs, Hashes::of(&event.before, SPARE_TOO).pebs);
        }
        let before = hashes.sum();
        hashes.go_on_to(&chip.snapshot());
        assert_ne!(hashes.sum(), before);
        assert_eq!(hashes.sum(), Hashes::of(&chip.snapshot(), SPARE_TOO).sum());
    }

    /// A complete first event leaves the same content as a second one that has not begun.
    #[test]
    fn the_place_of_a_cut_counts_only_on_request() {
        let chip = Shape::Mini.chip();
        chip.set_recording(true);
        for peb in [3, 40] {
            chip.program(chip.geometry().address_of(Peb::new(peb)), &[0x5A; 512]).unwrap();
        }
        let events = chip.take_recording();
        let variants = [Variant::P1, Variant::P0];
        for place in [false, true] {
            let choice = Choice { place, ..SPARE_TOO };
            let mut hashes = None;
            let found: Vec<u64> = events
                .iter()
                .zip(variants)
                .map(|(event, variant)| {
                    let chip = event.cut(variant, 1).unwrap();
                    let marked = Marked::new(event.clone(), &mut hashes, choice);
                    marked.after(&chip, variant, choice, &mut Vec::new())
                })
                .collect();
            assert_eq!(found[0] != found[1], place);
        }
    }
}
