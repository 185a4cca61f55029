//! Hashes of chips, so that states that a driver cannot distinguish are judged once.

use super::judge::is_unstable;
use eraseblock_base::Peb;
use eraseblock_mtd::Mtd;
use eraseblock_nandsim::{Chip, Recorded, Snapshot, Variant};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Hashes of the blocks of a chip. From one moment to the next, only those of the changed blocks
/// are computed again.
pub(super) struct Hashes {
    snapshot: Snapshot,
    pebs: Vec<u64>,
}

impl Hashes {
    /// Computes the hashes of all blocks.
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let chip = powered(snapshot);
        let pebs = chip.geometry().pebs().map(|peb| hash_peb(&chip, peb)).collect();
        Self { snapshot: snapshot.clone(), pebs }
    }

    fn go_on_to(&mut self, snapshot: &Snapshot) {
        let chip = powered(snapshot);
        for peb in self.snapshot.differing_pebs(snapshot) {
            if let Some(hash) = self.pebs.get_mut(peb.index()) {
                *hash = hash_peb(&chip, peb);
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

/// A hash of everything a driver can read of a chip before an event, without the event's block: the
/// sum of the hashes of the other blocks.
pub(super) struct BaseHash {
    sum: u64,
}

impl BaseHash {
    /// Returns the hash of the chip after the event was cut.
    pub(super) fn after(&self, event: &Recorded, chip: &Chip, variant: Variant) -> u64 {
        let own = hash_peb(&powered(&chip.snapshot()), event.event.kind.peb());
        if !is_unstable(variant) {
            return self.sum.wrapping_add(own);
        }
        let mut hasher = DefaultHasher::new();
        variant.hash(&mut hasher);
        hasher.write_u64(self.sum);
        hasher.write_u64(own);
        hasher.finish()
    }
}

/// Returns an event and the hash of the chip before it. `hashes` are those before an earlier event
/// of the same chip, if any.
pub(super) fn with_hash(event: Recorded, hashes: &mut Option<Hashes>) -> Arc<(Recorded, BaseHash)> {
    let hashes = match hashes {
        Some(hashes) => {
            hashes.go_on_to(&event.before);
            hashes
        }
        None => hashes.insert(Hashes::of(&event.before)),
    };
    let own = hashes.pebs.get(event.event.kind.peb().index()).copied().unwrap_or(0);
    let sum = hashes.sum().wrapping_sub(own);
    Arc::new((event, BaseHash { sum }))
}

fn hash_peb(chip: &Chip, peb: Peb) -> u64 {
    let geometry = chip.geometry();
    let mut hasher = DefaultHasher::new();
    hasher.write_u32(peb.get());
    let mut block = vec![0; geometry.peb_size() as usize];
    if let Ok(outcome) = chip.read(geometry.address_of(peb), &mut block) {
        hasher.write_u32(eraseblock_base::crc::crc32(&block));
        hasher.write_u16(outcome.corrected_bits);
        hasher.write_u8(u8::from(outcome.uncorrectable));
    }
    if geometry.oob_size() > 0 {
        let mut oob = [0; 32];
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
    use crate::powercut::Shape;

    #[test]
    fn going_on_is_as_good_as_beginning_anew() {
        let chip = Shape::Mini.chip();
        let mut hashes = Hashes::of(&chip.snapshot());
        chip.set_recording(true);
        for (peb, page) in [(3, 0), (3, 1), (40, 0)] {
            let at = chip.geometry().address_of(Peb::new(peb)) + page * 512;
            chip.program(at, &[0x5A; 512]).unwrap();
        }
        chip.erase(Peb::new(3)).unwrap();
        for event in chip.take_recording() {
            hashes.go_on_to(&event.before);
            assert_eq!(hashes.pebs, Hashes::of(&event.before).pebs);
        }
        let before = hashes.sum();
        hashes.go_on_to(&chip.snapshot());
        assert_ne!(hashes.sum(), before);
        assert_eq!(hashes.sum(), Hashes::of(&chip.snapshot()).sum());
    }
}
