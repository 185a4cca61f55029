//! What commands print as JSON, for everything that shows the same: docs/json.md lists the fields.

#[cfg(feature = "nand")]
pub mod dump;
pub mod listing;
#[cfg(feature = "history")]
pub mod past;

use serde::Serialize;

/// The result of a check.
#[derive(Debug, Serialize)]
pub struct Verdict {
    /// Whether nothing is wrong.
    pub consistent: bool,
    /// The next steps for the findings.
    pub next_steps: Vec<String>,
}

/// The plan of a repair, and whether it was carried out.
#[cfg(feature = "repair")]
#[derive(Debug, Serialize)]
pub struct Outcome<'a> {
    /// The level that the plan needs, if there is anything to do.
    pub level: Option<eraseblock_repair::Level>,
    /// What the repair does.
    pub actions: &'a [eraseblock_repair::Action],
    /// What it loses.
    pub loses: Vec<&'a eraseblock_repair::Loss>,
    /// Problems that no rule repairs, or none at this level.
    pub left: &'a [eraseblock_base::Finding],
    /// LEBs and eraseblocks that the repair writes or erases.
    pub lebs: usize,
    /// Whether something was repaired.
    pub repaired: bool,
}

#[cfg(feature = "repair")]
impl<'a> Outcome<'a> {
    /// Describes a repair.
    pub fn of(examined: &'a crate::target::repair::Examined, repaired: bool) -> Self {
        let plan = examined.plan();
        Self {
            level: plan.level(),
            actions: plan.actions(),
            loses: plan.losses().collect(),
            left: examined.left(),
            lebs: examined.changes(),
            repaired,
        }
    }
}

/// Records and bytes of one state or kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Sum {
    /// Records.
    pub records: u64,
    /// Bytes.
    pub bytes: u64,
}
