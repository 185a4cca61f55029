//! The dense LZO1X encoder, for images: the cheapest stream that the found matches allow.
//!
//! In a forward pass, the [`Finder`] records the possible matches at each position. A backward pass
//! computes the cost in bytes of the best stream from each position to the end. The cost is exact
//! for literal runs, whose cost depends on their length. Choices that take time and gain nothing
//! are left out: shortening a match by more than one byte, and the three-byte match allowed only
//! after four literals.
#![expect(
    clippy::cast_possible_truncation,
    reason = "positions, lengths and hashes are cut on purpose"
)]

use super::write::Writer;
use crate::finder::Finder;
use crate::text::{POSITIONS, Text, zeroed};
use std::hint::select_unpredictable;

/// Longest distance of a two-byte instruction.
const NEAR: u16 = 2048;

/// Longest match of a two-byte instruction.
const SHORT: u32 = 8;

/// Longest distance used: that of a three-byte instruction.
const FAR: u16 = 16384;

/// Longest match of a three-byte instruction.
const MEDIUM: u32 = 33;

/// A cost that no stream reaches, small enough that further costs can be added.
const NEVER: u32 = 0xC000_0000;

/// The upper half holds a cost in bytes; the lower half holds the choice that leads to it.
const COST: u32 = 0xFFFF_0000;

/// The best choices at one position.
#[derive(Clone, Copy, Default, Debug)]
struct Choice {
    /// Length of the match that starts here.
    len: u16,
    /// The same after one to three literals: 2 is the two-byte match.
    len_after_few: u16,
    /// Number of literals to follow if a match ended right before.
    literals: u16,
}

/// The encoder with its tables; the deep one is slower and half a percent denser.
#[derive(Debug)]
pub(crate) struct Dense<const DEEP: bool> {
    text: Text,
    finder: Finder<NEAR, FAR, DEEP>,
    cost: Box<[u32; POSITIONS]>,
    choices: Box<[Choice; POSITIONS]>,
}

impl<const DEEP: bool> Dense<DEEP> {
    /// Creates an encoder with empty tables.
    pub(crate) fn new() -> Self {
        Self { text: Text::new(), finder: Finder::new(), cost: zeroed(), choices: zeroed() }
    }

    /// Appends the stream of `block`, at most [`MAX_BLOCK`] bytes, to `out`.
    pub(crate) fn compress(&mut self, block: &[u8], out: &mut Vec<u8>) {
        self.text.set(block);
        self.finder.find(&self.text);
        self.price(block.len());
        self.write(block, out);
    }

    /// Computes the choices, from the end of the block to its start.
    #[inline(never)]
    fn price(&mut self, len: usize) {
        let found = self.finder.found();
        let cost = &mut *self.cost;
        let end = 3 << 16;
        cost[len] = end;
        // The costs of starting a match one, two, ... positions later, after few literals and after
        // any other number.
        let mut few = [end, NEVER, NEVER];
        let mut many = [end, NEVER, NEVER, NEVER];
        // Cost from the end of a literal run of this length.
        let (mut run, mut run_len) = (NEVER, 0_u32);
        for at in (0..len as u16).rev() {
            let here = found[usize::from(at)];
            cost[usize::from(at)] = NEVER;
            let step = |len: u32, bytes: u32| {
                cost[usize::from(at.wrapping_add(len as u16))].wrapping_add((bytes << 16) | len)
            };
            let near = here.near.len().min(SHORT);
            let shorter = near.wrapping_sub(u32::from(near > 3));
            let far = here.far.len();
            let mut best = step(near, 2).min(step(shorter, 2));
            if far <= MEDIUM {
                best = best.min(step(far, 3));
            } else {
                best = best.min(step(far, medium_cost(far))).min(step(MEDIUM, 3));
            }
            let pair = step(2, 2);
            // The outcome is random, so a branch would cost more than computing both results.
            let best_after_few = best.min(select_unpredictable(here.pair == 0, best, pair));

            run_len = run_len.wrapping_add(1);
            let mut long = run.wrapping_add(run_len.wrapping_add(run_control(run_len)) << 16);
            let fresh = many[3].wrapping_add(5 << 16);
            if fresh <= long {
                (long, run, run_len) = (fresh, many[3], 4);
            }
            let after = (best & COST)
                .min(few[0].wrapping_add((1 << 16) | 1))
                .min(few[1].wrapping_add((2 << 16) | 2))
                .min(few[2].wrapping_add((3 << 16) | 3))
                .min(long | run_len);
            few = [best_after_few & COST, few[0], few[1]];
            many = [best & COST, many[0], many[1], many[2]];
            cost[usize::from(at)] = after & COST;
            self.choices[usize::from(at)] = Choice {
                len: best as u16,
                len_after_few: best_after_few as u16,
                literals: after as u16,
            };
        }
    }

    fn write(&self, block: &[u8], out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        let mut at = 0;
        let mut literals = usize::from(self.choices[0].literals);
        while at < block.len() {
            writer.literals(&block[at..at + literals]);
            at += literals;
            if at == block.len() {
                break;
            }
            let found = self.finder.found()[at];
            let choice = self.choices[at];
            let after_few = (1..=3).contains(&literals);
            let len = u32::from(if after_few { choice.len_after_few } else { choice.len });
            if len == 2 {
                writer.tiny(usize::from(found.pair));
            } else if len <= found.near.len().min(SHORT) {
                writer.short(len as usize, usize::from(found.near.distance()));
            } else {
                writer.medium(len as usize, usize::from(found.far.distance()));
            }
            at += len as usize;
            literals = usize::from(self.choices[at].literals);
        }
        writer.end();
    }
}

/// Returns the number of instruction bytes of a medium match.
fn medium_cost(len: u32) -> u32 {
    if len <= MEDIUM { 3 } else { 4 + (len - MEDIUM - 1) / 255 }
}

/// Returns the number of bytes that announce a run of four or more literals.
fn run_control(len: u32) -> u32 {
    if len <= 18 { 1 } else { 2 + (len - 19) / 255 }
}
