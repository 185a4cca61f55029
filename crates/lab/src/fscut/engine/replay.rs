//! Judges one state again, and explains how it arose.

use super::super::hash::with_hash;
use super::super::id::{CutId, Plan};
use super::super::judge::{Case, Verdict};
use super::super::live::Live;
use super::super::target::Target;
use super::super::workload::short;
use super::super::{FsExplained, FsLabError, FsOptions, FsViolation};
use super::{Job, Lab, Ops, Origin, missing, uncut};
use crate::cuts::Cut;
use crate::story::{Diary, Story, left_by};
use eraseblock_nandsim::{Recorded, Rng};
use std::sync::Arc;

/// Judges one state again; returns the broken rule, if any.
pub fn replay(
    target: &dyn Target,
    id: &CutId,
    options: &FsOptions,
) -> Result<Option<FsViolation>, FsLabError> {
    explain(target, id, options).map(|explained| explained.violation)
}

/// Judges one state again and explains how it arose.
pub fn explain(
    target: &dyn Target,
    id: &CutId,
    options: &FsOptions,
) -> Result<FsExplained, FsLabError> {
    let options = &FsOptions { judge_every: 1, ..options.clone() };
    let lab = Lab::new(target, options)?;
    let mut live = lab.start(id.plan)?;
    let mut teller = Teller { id, met: id.cuts.is_empty(), story: Story::default() };
    let mut violation = None;
    match id.plan {
        Plan::Run(seed) | Plan::Aged(seed) => {
            let mut rng = Rng::new(seed, 0);
            for count in lab.batches() {
                let ops = Ops::Random(&mut rng, count);
                violation = lab.replay(&mut live, ops, &mut teller)?;
                if violation.is_some() {
                    break;
                }
            }
        }
        plan => {
            let ops = short(plan).ok_or_else(|| missing(id))?;
            violation = lab.replay(&mut live, Ops::Listed(&ops), &mut teller)?;
        }
    }
    if teller.met { Ok(FsExplained { violation, story: teller.story }) } else { Err(missing(id)) }
}

/// The goal of a replay, and its results so far.
struct Teller<'a> {
    id: &'a CutId,
    met: bool,
    story: Story,
}

impl Lab<'_> {
    /// Performs the operations again, and follows the cuts of the id when they occur.
    fn replay(
        &self,
        live: &mut Live<'_>,
        mut ops: Ops<'_>,
        teller: &mut Teller<'_>,
    ) -> Result<Option<FsViolation>, FsLabError> {
        let whole = CutId { cuts: Vec::new(), ..teller.id.clone() };
        let mut problem = None;
        let (mut jobs, mut hashes) = (Vec::new(), None);
        while let Some(op) = ops.next(live) {
            let step = live.step(&op);
            problem.clone_from(&step.problem);
            let events = step.events.clone();
            self.jobs(&whole, step, &mut jobs, &mut hashes, &mut 0);
            if let Some(violation) = self.follow_any(&mut jobs, &events, teller)? {
                return Ok(Some(violation));
            }
            if problem.is_some() {
                break;
            }
        }
        let (snapshot, allowed) = live.at_rest();
        let operations = allowed.operations.clone();
        let idle = whole.then(snapshot.next_event(), Cut::Idle);
        jobs.push(Job { origin: Origin::Idle(Arc::new(snapshot)), allowed, id: idle });
        if let Some(violation) = self.follow_any(&mut jobs, &[], teller)? {
            return Ok(Some(violation));
        }
        if teller.id.cuts.is_empty() {
            teller.story.tell_operations(&operations);
        }
        let broken = problem.or_else(|| live.compare());
        Ok(broken.filter(|_| teller.id.cuts.is_empty()).map(|it| uncut(&whole, operations, it)))
    }

    /// Follows the jobs whose id matches or is a prefix. `events` are those of the operation.
    fn follow_any(
        &self,
        jobs: &mut Vec<Job>,
        events: &[Recorded],
        teller: &mut Teller<'_>,
    ) -> Result<Option<FsViolation>, FsLabError> {
        for job in jobs.drain(..).filter(|job| teller.id.cuts.starts_with(&job.id.cuts)) {
            // The same idle cut may occur after several operations: the last one is used.
            teller.story = Story::default();
            teller.story.tell_operations(&job.allowed.operations);
            if let Some(violation) = self.follow(job, events, teller)? {
                return Ok(Some(violation));
            }
        }
        Ok(None)
    }

    /// Returns the verdict on the state of this id, which is that of the job or results from it. An
    /// empty id names no state.
    fn follow(
        &self,
        job: Job,
        events: &[Recorded],
        teller: &mut Teller<'_>,
    ) -> Result<Option<FsViolation>, FsLabError> {
        let id = teller.id;
        let Some((number, cut)) = job.id.cuts.last().copied() else { return Ok(None) };
        teller.met = true;
        let chip = job.make(self.options.seed).ok_or_else(|| missing(id))?;
        let left = match cut {
            Cut::During(variant) => left_by(variant),
            Cut::Idle => "off: the power went while nothing was happening".to_owned(),
        };
        let words = |event: &Recorded| self.target.describe(event);
        teller.story.tell_cut(job.id.to_string(), left, events, number, &words);
        let before = match &job.origin {
            Origin::Event(event, _) => event.0.before.clone(),
            Origin::Idle(snapshot) => (**snapshot).clone(),
        };
        teller.story.chips = Some((before, chip.snapshot()));
        let deeper = id.cuts.get(job.id.cuts.len());
        let diary = Diary::default();
        let case = Case { diary: Some(&diary), ..self.case(job.id.clone(), &job.allowed, true) };
        let Verdict { violation, events, .. } = case.judge(chip, deeper.is_some());
        teller.story.tell_looks(diary);
        let Some((number, Cut::During(variant))) = deeper else { return Ok(violation) };
        let event = events.iter().find(|event| event.event.number == *number).cloned();
        let event = with_hash(event.ok_or_else(|| missing(id))?, &mut None);
        let next = job.id.then(*number, Cut::During(*variant));
        let origin = Origin::Event(event, *variant);
        self.follow(Job { origin, allowed: job.allowed, id: next }, &events, teller)
    }
}
