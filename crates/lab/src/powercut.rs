//! Exhaustive power cuts: the engine. A [`Target`] performs a sequence of operations once on a
//! simulated chip. At every flash event the engine copies the chip for each variant of a cut, in
//! the state that the cut may leave. The target's [`Judge`] switches each copy on and judges it;
//! then the engine cuts the recovery itself.
//!
//! The engine owns what all targets have in common: the events and their variants, which states are
//! equal, the second cut, threads, budgets, ids, reports, replays and their stories. A target owns
//! the chip, the operations, the model of what they mean, and the verdict. Targets are
//! [`crate::ubi`] and, with one model for all file systems, [`crate::files`].
//!
//! # Invariants
//! 1. A violation is a pure function of its [`StateId`], of the seed of the cuts and of the length
//!    of random sequences: [`replay`] finds it again.
//! 2. What is judged in a sequence depends on no other sequence: a campaign is the sum of its
//!    sequences, in any order and on any machine. Only budgets end it between them.
//! 3. Threads do not change what is found, nor the order in which it is reported.
//! 4. The engine reads no clock. A campaign with a time budget passes a function that ends it; it
//!    is asked between two parts of a sequence only, so that a part is judged completely or not
//!    at all.
//! 5. Of the states that one judge decides on, those that a driver cannot distinguish are judged
//!    once ([`Choice`]). A budget of states and `judge_every` choose by position among all states,
//!    never by a verdict.
//! 6. The engine knows no target, and no target knows events, variants, hashes or budgets: they
//!    meet in `target` only.
//! 7. A judge uses only its model and the results of public operations. What it may expect after a
//!    cut during the recovery follows from the verdict on that recovery ([`Verdict::then`]).
//! 8. Modules depend in one direction: `cut`, `kept`, `id`, `target`, `hash`, `state`, `report`,
//!    `explore`, `replay`, `shrink`.

mod cut;
mod explore;
mod hash;
mod id;
mod kept;
mod replay;
mod report;
mod shrink;
mod state;
mod target;

pub use cut::Cut;
pub use explore::{explore, explore_until};
pub use id::{IdError, Plan, StateId};
pub use kept::Kept;
pub use replay::{explain, replay};
pub use report::{Explained, LabError, Options, Report, Violation};
pub use shrink::{Progress, Shrunk, shrink};
pub(crate) use target::recent;
pub use target::{
    Broken, Choice, Expected, Judge, Part, Prepared, Sequence, Step, Target, Trial, Uncut, Verdict,
};
