//! What is wrong with a volume, as `check` and the readers say, and what of it follows from something
//! intact.

use crate::error::RepairError;
use crate::plan::{Action, Level, Loss, Part};
use crate::scan::Scan;
use eraseblock_base::{Finding, Findings, Location, Severity};
use eraseblock_mtd::LebDevice;
use eraseblock_ubifs::{MountOptions, OpenOptions, Ubifs, UbifsError, UbifsMount, codes};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Codes of leaves and of what they say about each other: the rules find them by themselves.
const OF_LEAVES: [&str; 9] = [
    "leaf-lost",
    "leaf-wrong",
    "inode-wrong",
    "sqnum-wrong",
    "keys-disordered",
    "entry-lost",
    "data-corrupt",
    "root-lost",
    "attribute-lost",
];

/// Codes about the scan that replaces a lost index: the plan says so in other words.
const OF_SCAN: [&str; 7] = [
    "main-area-scanned",
    "index-root-lost",
    "index-node-lost",
    "index-cyclic",
    "master-lost",
    "geometry-guessed",
    "check-incomplete",
];

/// Largest number of derived structures that a plan lists.
const MOST: usize = 200;

/// Returns everything that is wrong with a volume, notes included. Fails if it cannot be read at all.
pub(crate) fn of(device: &Arc<dyn LebDevice>) -> Result<Findings, RepairError> {
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    let mut all = Findings::new();
    match UbifsMount::mount(Arc::clone(device), options) {
        Ok((fs, findings)) => {
            all.append(findings);
            match fs.check() {
                Ok(found) => all.append(found),
                Err(error) => refusal(&error, &mut all),
            }
        }
        Err(error) => refusal(&error, &mut all),
    }
    if all.has_problems() {
        let opened = Ubifs::open(Arc::clone(device), &OpenOptions { strict: false });
        let (_, found) = opened.map_err(RepairError::Unreadable)?;
        all.append(found);
    }
    Ok(all)
}

fn refusal(error: &UbifsError, all: &mut Findings) {
    match error {
        UbifsError::Refused { at, code, message } => all.error(*at, *code, message.clone()),
        UbifsError::Format(error) => all.error(error.at(), "not-mountable", error.to_string()),
        error => all.error(Location::Whole, "not-mountable", error.to_string()),
    }
}

/// What else is known of a volume.
pub(crate) struct Known {
    /// Rules about leaves have found something.
    pub(crate) has_rules: bool,
    /// A scan replaces the index.
    pub(crate) is_scanned: bool,
    /// A scan finds leaves of the journal that no mount sees.
    pub(crate) is_journal_lost: bool,
}

/// Returns whether a repair has something to do with it. The mount after a power cut drops a torn end of the
/// log, too, but Linux reports it as an error first.
fn is_repaired(finding: &Finding) -> bool {
    finding.severity > Severity::Note || finding.code == codes::LOG_RECOVERED
}

/// Returns whether there is anything to repair.
pub(crate) fn needs_repair(found: &Findings) -> bool {
    found.iter().any(is_repaired)
}

/// Returns an action for each structure that is written again, because it is derived from others.
pub(crate) fn derived(found: &Findings, scan: &Scan, known: &Known) -> Vec<Action> {
    let mut seen = BTreeSet::new();
    let mut actions = Vec::new();
    for finding in found.iter().filter(|finding| is_repaired(finding)) {
        let code = finding.code.name();
        let is_of_rules = known.has_rules && OF_LEAVES.contains(&code);
        let is_of_scan = known.is_scanned && OF_SCAN.contains(&code);
        let is_new = seen.insert((finding.at, finding.message.clone()));
        if is_of_rules || is_of_scan || !is_new || actions.len() == MOST {
            continue;
        }
        actions.push(action(finding, scan, known));
    }
    // A mount that is refused over a leaf says nothing new.
    if known.has_rules || known.is_scanned {
        actions.retain(|action: &Action| action.code != "not-mountable");
    }
    actions
}

fn action(finding: &Finding, scan: &Scan, known: &Known) -> Action {
    let code = finding.code.name();
    let (message, rule) = rows(&finding.message);
    let is_journal = code.starts_with("journal-");
    let is_damaged = match finding.at {
        Location::Leb(leb, _) => scan.lebs.get(&leb.get()).is_none_or(|state| !state.is_clean),
        _ => true,
    };
    let is_cut_off = finding.code == codes::LOG_RECOVERED && known.is_journal_lost;
    if is_journal && is_damaged || is_cut_off {
        let loss = Loss { path: None, ino: 0, part: Part::Journal };
        return Action::new(Level::Drop, code, rule, finding.at, "remake", message).losing(loss);
    }
    Action::new(Level::Safe, code, rule, finding.at, "remake", message)
}

/// Splits a message of `check` into its text and the rows of the specification that it ends with.
fn rows(message: &str) -> (&str, &str) {
    let split = message.strip_suffix(')').and_then(|text| text.rsplit_once(" ("));
    let is_row = |row: &str| {
        let mut signs = row.chars();
        signs.next().is_some_and(|sign| sign.is_ascii_uppercase())
            && row.len() > 1
            && signs.all(|sign| sign.is_ascii_digit())
    };
    match split {
        Some((text, rows)) if rows.split(", ").all(is_row) => (text, rows),
        _ => (message, ""),
    }
}
