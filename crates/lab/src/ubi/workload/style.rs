//! The styles of workloads: what happens more often in each, and what a campaign must have met.

use crate::Shape;
use crate::powercut::Plan;

/// Programs and erases that failed, anywhere.
pub(crate) const FAILED: [&str; 2] = ["failed programs", "failed erases"];
/// Those of an append to a mapped LEB.
pub(crate) const FAILED_IN_APPEND: [&str; 2] =
    ["failed programs in appends to mapped LEBs", "failed erases in appends to mapped LEBs"];
/// Updates of volumes to no byte at all.
pub(crate) const EMPTY_UPDATES: &str = "empty volume updates";
/// Updates of volumes to one unit of programming.
pub(crate) const UNIT_UPDATES: &str = "volume updates of one unit";
/// Blocks that an operation unmapped and that were erased before the next operation.
pub(crate) const ERASED_AT_ONCE: &str = "blocks erased at once";
/// Attaches after a cut that found no free block.
pub(crate) const WITHOUT_FREE: &str = "attaches without a free block";
/// Those that had to erase before the device could be used.
pub(crate) const ERASED_EARLY: &str = "attaches that erased early";
/// Attaches after a cut that used the fastmap.
pub(crate) const BY_FASTMAP: &str = "attaches by fastmap";

/// LEBs that a device with failures has to spare.
const SPARE: u32 = 1;

/// A style of workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// Everything, in the proportions of ordinary use.
    Mixed,
    /// Many programs and erases fail, a third of them in appends to mapped LEBs, on a device with
    /// few free blocks.
    Failing,
    /// All LEBs are mapped, and few blocks are erased in the background.
    Full,
    /// Unmapped blocks are erased at once. Elsewhere they are erased as late as possible, which
    /// hides mistakes: after a cut the old content is there again.
    Eager,
}

impl Style {
    /// Returns the style and the seed of a plan; `None` if it is no workload of UBI.
    pub(crate) fn of(plan: Plan) -> Option<(Self, u64)> {
        match plan {
            Plan::Workload(seed) => Some((Self::Mixed, seed)),
            Plan::Failing(seed) => Some((Self::Failing, seed)),
            Plan::Full(seed) => Some((Self::Full, seed)),
            Plan::Eager(seed) => Some((Self::Eager, seed)),
            Plan::Single(_) | Plan::Pair(_) | Plan::Run(_) | Plan::Aged(_) => None,
        }
    }

    /// Returns whether the workload begins by mapping all LEBs.
    pub(super) fn fills(self) -> bool {
        matches!(self, Self::Failing | Self::Full)
    }

    /// Returns the LEBs that no volume gets when the device is filled: blocks that go bad need them.
    pub(super) fn spare_lebs(self) -> u32 {
        if self == Self::Failing { SPARE } else { 0 }
    }

    /// Returns how many blocks may go bad. On a full device the reserve is needed for blocks whose
    /// erase was cut: their remains may count as damaged data, which attaching leaves untouched.
    pub(super) fn most_bad(self) -> usize {
        match self {
            Self::Full => 0,
            Self::Failing => 1,
            Self::Mixed | Self::Eager => 2,
        }
    }

    /// Returns the kinds of operations and how often of a hundred times each is chosen; a kind is a
    /// number as `propose` takes it. Empty for the proportions that `propose` itself has.
    pub(super) fn weights(self) -> &'static [(u64, u64)] {
        const APPEND: u64 = 0;
        const CHANGE: u64 = 22;
        const MAP: u64 = 40;
        const UNMAP: u64 = 44;
        const READ: u64 = 56;
        const STEP: u64 = 60;
        const SCRUB: u64 = 76;
        const ATTACH: u64 = 81;
        const RESIZE: u64 = 88;
        const SWAP: u64 = 92;
        const UPDATE: u64 = 95;
        match self {
            Self::Mixed | Self::Eager => &[],
            Self::Failing => &[
                (APPEND, 60),
                (CHANGE, 9),
                (MAP, 3),
                (UNMAP, 5),
                (READ, 4),
                (STEP, 3),
                (SCRUB, 2),
                (ATTACH, 1),
                (RESIZE, 2),
                (SWAP, 5),
                (UPDATE, 6),
            ],
            // Erasing in the background would make room.
            Self::Full => &[
                (APPEND, 16),
                (CHANGE, 34),
                (UNMAP, 2),
                (READ, 4),
                (STEP, 2),
                (SCRUB, 2),
                (ATTACH, 2),
                (SWAP, 18),
                (UPDATE, 20),
            ],
        }
    }

    /// Returns the rare events that a thorough campaign on this chip must have met.
    pub(crate) fn demanded(self, shape: Shape) -> Vec<&'static str> {
        let mut demanded = match self {
            Self::Mixed => return Vec::new(),
            // Without bad blocks the first failure makes UBI read-only: nothing fails there.
            Self::Failing if shape.can_have_bad_blocks() => FAILED_IN_APPEND.to_vec(),
            Self::Failing => Vec::new(),
            Self::Full => vec![WITHOUT_FREE, ERASED_EARLY],
            Self::Eager => vec![ERASED_AT_ONCE],
        };
        demanded.extend([EMPTY_UPDATES, UNIT_UPDATES]);
        demanded.extend(shape.uses_fastmap().then_some(BY_FASTMAP));
        demanded
    }
}
