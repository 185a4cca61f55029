//! Bugs planted in the file systems on purpose, to see that campaigns find them.
//!
//! # Invariants
//! 1. The same searches over the file system as it is find nothing ([`BugHunt::control`]): what
//!    they find in a planted bug is the bug's.
//! 2. A state counts only if it is found again from its id.
//! 3. A panic is told apart from a verdict of the judge.

use super::jffs2::Jffs2Target;
use super::target::Target;
use super::ubifs::{sabotaged_ubifs, tight_ubifs};
use super::{
    CutId, FsLabError, FsOptions, FsReport, FsViolation, Plan, explore, replay, single_count,
};
use eraseblock_jffs2::rw::sabotage::Sabotage as Jffs2Sabotage;
use eraseblock_ubifs::rw::sabotage::Sabotage as UbifsSabotage;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a planted bug showed.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// In a state that breaks a rule, found again from its id.
    State {
        /// The state.
        id: CutId,
        /// The rule.
        rule: &'static str,
    },
    /// Before any cut: not even an empty file system came about.
    Unusable(String),
    /// Only in a panic of the file system: the judge had nothing to say.
    Panic(String),
    /// Not: the state that was found is fine when it is judged again.
    NotAgain(CutId),
    /// Not: no single power cut of these sequences shows it, for this reason.
    Elsewhere(&'static str),
    /// Not at all.
    Missed,
}

impl Shown {
    /// Whether the bug was caught, by the judge or by a panic.
    pub fn is_caught(&self) -> bool {
        matches!(self, Self::State { .. } | Self::Unusable(_) | Self::Panic(_))
    }

    /// Whether the bug should have been caught and was not.
    pub fn is_missed(&self) -> bool {
        matches!(self, Self::NotAgain(_) | Self::Missed)
    }
}

/// A planted bug.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Planted {
    /// Its name.
    pub bug: String,
    /// How it showed.
    pub shown: Shown,
    /// States judged until then.
    pub states: u64,
}

/// What became of all planted bugs of a file system.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct BugHunt {
    /// What the searches find where nothing is planted: nothing, or the judge is wrong.
    pub control: Option<FsViolation>,
    /// States judged for that.
    pub control_states: u64,
    /// The bugs.
    pub planted: Vec<Planted>,
}

/// A file system with or without a bug, and how to look for it.
type Search = (Box<dyn Target>, FsOptions);

/// Looks for all bugs planted in UBIFS, telling of each.
///
/// Errors: the chip cannot be prepared without a bug.
pub fn ubifs_bugs(tell: &mut dyn FnMut(&Planted)) -> Result<BugHunt, FsLabError> {
    let searches = |target: &dyn Fn() -> Box<dyn Target>| -> Vec<Search> {
        ubifs_searches().into_iter().map(|options| (target(), options)).collect()
    };
    let (control, control_states) = look(&searches(&|| Box::new(tight_ubifs())))?;
    let hunt = |bug: UbifsSabotage| {
        let found = hunt(&searches(&|| Box::new(sabotaged_ubifs(bug))));
        planted(format!("{bug:?}"), found, elsewhere_in_ubifs(bug))
    };
    let planted = UbifsSabotage::ALL.into_iter().map(hunt).inspect(|planted| tell(planted));
    let planted = planted.collect();
    Ok(BugHunt { control, control_states, planted })
}

/// Looks for all bugs planted in JFFS2, telling of each.
///
/// Errors: the chip cannot be prepared without a bug.
pub fn jffs2_bugs(tell: &mut dyn FnMut(&Planted)) -> Result<BugHunt, FsLabError> {
    let searches = |bug: Jffs2Sabotage| -> Vec<Search> {
        let targets = Jffs2Target::CHIPS.into_iter().filter_map(Jffs2Target::find);
        let with = targets.map(|target| Box::new(target.with_sabotage(bug)) as Box<dyn Target>);
        with.map(|target| (target, jffs2_search())).collect()
    };
    let (control, control_states) = look(&searches(Jffs2Sabotage::None))?;
    let hunt = |bug: Jffs2Sabotage| {
        let reason = elsewhere_in_jffs2(bug);
        // What cuts cannot show is not looked for.
        let found = reason.map_or_else(|| hunt(&searches(bug)), |_| (Shown::Missed, 0));
        planted(format!("{bug:?}"), found, reason)
    };
    let planted = Jffs2Sabotage::ALL.into_iter().map(hunt).inspect(|planted| tell(planted));
    let planted = planted.collect();
    Ok(BugHunt { control, control_states, planted })
}

fn planted(bug: String, found: (Shown, u64), reason: Option<&'static str>) -> Planted {
    let (shown, states) = found;
    let shown = match (shown, reason) {
        (Shown::Missed, Some(reason)) => Shown::Elsewhere(reason),
        (shown, _) => shown,
    };
    Planted { bug, shown, states }
}

/// Old file systems on which everything happens find most bugs soon, short sequences others; for
/// some, recoveries have to be cut, every one of them for those of what a recovery seldom does.
fn ubifs_searches() -> [FsOptions; 3] {
    let mut plans: Vec<Plan> = (1..=4).map(Plan::Aged).collect();
    plans.extend((0..single_count()).step_by(7).map(Plan::Single));
    let wide = FsOptions {
        plans,
        judge_every: 17,
        nested_every: 0,
        run_length: 240,
        max_violations: 1,
        ..FsOptions::default()
    };
    let plans = vec![Plan::Run(1), Plan::Run(2)];
    let deep =
        FsOptions { plans, judge_every: 101, nested_every: 2, run_length: 72, ..wide.clone() };
    let plans = vec![Plan::Aged(1)];
    let every = FsOptions { plans, nested_every: 1, run_length: 144, ..wide.clone() };
    [wide, deep, every]
}

fn jffs2_search() -> FsOptions {
    let mut plans = vec![Plan::Run(0), Plan::Run(1)];
    plans.extend((0..single_count()).step_by(7).map(Plan::Single));
    FsOptions {
        plans,
        judge_every: 5,
        run_length: 1200,
        nested_every: 256,
        max_violations: 1,
        ..FsOptions::default()
    }
}

/// What all searches find where nothing is planted.
fn look(searches: &[Search]) -> Result<(Option<FsViolation>, u64), FsLabError> {
    let mut states = 0;
    for (target, options) in searches {
        let report = explore(target.as_ref(), options)?;
        states += report.states;
        if let Some(found) = report.violations.into_iter().next() {
            return Ok((Some(found), states));
        }
    }
    Ok((None, states))
}

/// The first thing that shows a bug; a panic only if nothing else does.
fn hunt(searches: &[Search]) -> (Shown, u64) {
    let (mut states, mut panicked) = (0, None);
    for (target, options) in searches {
        match catch_unwind(AssertUnwindSafe(|| explore(target.as_ref(), options))) {
            Ok(Ok(FsReport { states: judged, violations, .. })) => {
                states += judged;
                if let Some(found) = violations.first() {
                    return (again(target.as_ref(), found, options), states);
                }
            }
            Ok(Err(error)) => return (Shown::Unusable(error.to_string()), states),
            Err(payload) => panicked = panicked.or(Some(words(payload.as_ref()))),
        }
    }
    (panicked.map_or(Shown::Missed, Shown::Panic), states)
}

/// Judges the state again. Without a cut a replay looks more often and may see the same bug sooner,
/// by another rule.
fn again(target: &dyn Target, found: &FsViolation, options: &FsOptions) -> Shown {
    let rule = catch_unwind(AssertUnwindSafe(|| replay(target, &found.id, options)));
    let rule = rule.ok().and_then(Result::ok).flatten().map(|again| again.rule);
    let is_same = rule == Some(found.rule) || found.id.cuts.is_empty() && rule.is_some();
    if is_same {
        Shown::State { id: found.id.clone(), rule: found.rule }
    } else {
        Shown::NotAgain(found.id.clone())
    }
}

fn words(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a message".to_owned())
}

/// Why cuts may miss a bug of UBIFS.
fn elsewhere_in_ubifs(_bug: UbifsSabotage) -> Option<&'static str> {
    None
}

/// Why no cut of these sequences shows a bug of JFFS2; the run time's own tests catch all of them.
fn elsewhere_in_jffs2(bug: Jffs2Sabotage) -> Option<&'static str> {
    match bug {
        Jffs2Sabotage::NoBufferRecovery => Some("shows when a page cannot be programmed"),
        Jffs2Sabotage::NoReserve => Some("shows on a full medium"),
        Jffs2Sabotage::ReuseTornSpace => Some("shows when a torn block is filled by later mounts"),
        Jffs2Sabotage::InodeNumbersReused => Some("shows after many mounts"),
        Jffs2Sabotage::NoCleanmarker | Jffs2Sabotage::UseUnmarked => {
            Some("shows when a block whose erasure was cut decays later")
        }
        Jffs2Sabotage::ContinueInPage => Some("shows in blocks that others left behind"),
        _ => None,
    }
}
