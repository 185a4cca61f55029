//! Random damage of a UBIFS with a known past: nothing panics or hangs, every file that is left is one
//! that the past knew, what is lost is named, and a second run finds nothing to do.
//!
//! `ERASEBLOCK_DAMAGE=FROM..TO` damages that many volumes instead of a few; `cargo xtask damage` runs it.

use crate::past::{Grain, Past};
use crate::random::{Dice, Outcome, Shelf, Violation, campaign, keep};
use crate::volume::*;
use eraseblock_repair::{Level, Loss, Part, Repair};
use std::ops::Range;
use std::sync::Arc;

/// A volume after some work.
struct Worked {
    lebs: Vec<Option<Vec<u8>>>,
    past: Past,
    /// Whether the index leads to all of it.
    is_committed: bool,
}

impl Worked {
    /// Some volumes are not unmounted, and some are mounted once more, which commits all of the journal.
    fn new(seed: u64) -> Self {
        let volume = empty(50);
        let fs = mount(&volume);
        let past = Past::of(&fs, seed);
        let is_committed = leave(fs, seed, || mount(&volume));
        Self { lebs: volume.snapshot(), past, is_committed }
    }
}

/// Whether damage may have right checksums: such a node looks like one of the past.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sums {
    Wrong,
    Redone,
}

/// Damages a volume in one to four ways.
fn damage(volume: &Memory, dice: &mut Dice, sums: Sums) {
    for _ in 0..=dice.roll(4) {
        let nodes = volume.nodes();
        if nodes.is_empty() {
            return;
        }
        let node = nodes[dice.roll(nodes.len())];
        match dice.roll(6) {
            0 => volume.tear(node, dice.roll(node.len)),
            1 if sums == Sums::Redone => {
                let offset = 24 + dice.roll(node.len - 24);
                let byte = volume.bytes(node.leb)[node.at + offset] ^ (1 << dice.roll(8));
                volume.set(node, offset, &[byte]);
            }
            2 => volume.erase(dice.roll(50)),
            3 => {
                let bytes = volume.bytes(dice.roll(50));
                volume.put(dice.roll(50), 0, &bytes);
            }
            1 | 4 => volume.put(node.leb, node.at, &[dice.roll(256) as u8; 64][..node.len.min(64)]),
            _ => {
                let at = dice.roll(LEB / 8) * 8;
                volume.put(node.leb, at, &[0x31, 0x18, 0x10, 0x06]);
            }
        }
    }
}

/// Damages one volume and repairs it.
fn one(seed: u64, worked: &Worked, sums: Sums) -> Result<Outcome, Violation> {
    let volume = Memory::of(worked.lebs.clone());
    damage(&volume, &mut Dice::of(seed), sums);
    let repair = match examined(&volume) {
        Ok(repair) => repair,
        Err(error) => return Ok(Outcome::Refused(error.to_string())),
    };
    let lines: Vec<_> =
        repair.plan().actions().iter().map(eraseblock_repair::Action::line).collect();
    let told = |error: String| format!("{error}: {lines:#?}");
    repair.apply(&*volume).map_err(|error| error.to_string())?;
    let second = examined(&volume).map_err(|error| told(format!("second run: {error}")))?;
    if !second.plan().is_empty() {
        return Err(told(format!("second run: {:?}", second.plan())));
    }
    let kind = if sums == Sums::Wrong { "ubifs" } else { "ubifs-sums" };
    keep(kind, seed, || volume.image(), &opened(&volume));
    if sums == Sums::Wrong {
        let losses: Vec<_> = repair.plan().losses().collect();
        judge(&volume, worked, &repair, &losses).map_err(told)?;
    }
    Ok(Outcome::Repaired(repair.plan().level()))
}

/// Compares what is left with the past.
fn judge(
    volume: &Arc<Memory>,
    worked: &Worked,
    repair: &Repair,
    losses: &[&Loss],
) -> Result<(), Violation> {
    let fs = opened(volume);
    worked.past.explains(&fs, Grain::Block)?;
    let is_unknown = !worked.is_committed || is_unknown(repair);
    let files = worked.past.files();
    let unnamed = worked.past.unnamed_loss(&files, &fs, losses).filter(|_| !is_unknown);
    unnamed.map_or(Ok(()), Err)
}

/// A scan cannot know what an erased LEB held. A LEB of the journal without nodes is like one that
/// nothing was written to.
pub(crate) fn is_unknown(repair: &Repair) -> bool {
    let is_journal = |loss: &Loss| loss.part == Part::Journal;
    repair.plan().level() == Some(Level::Rebuild) || repair.plan().losses().any(is_journal)
}

fn volumes(seeds: Range<u64>, sums: Sums) {
    let mut shelf = Shelf::new();
    campaign(seeds, 50, |seed| one(seed, shelf.take(seed / 8, Worked::new), sums));
}

#[test]
fn damage_that_checksums_show() {
    volumes(0..200, Sums::Wrong);
}

#[test]
fn damage_with_right_checksums() {
    volumes(1000..1200, Sums::Redone);
}
