//! Power cuts of file systems.

use super::page::Page;
use super::units::{self, Unit};
use super::{LabTarget, PowercutArgs, Sequences, Watch, speed, violation};
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::lab::Shape;
use eraseblock::raw::lab::files::{
    Jffs2Stack, Yaffs2Stack, big_lpt_ubifs, pair_count, singles, tight_ubifs, ubifs,
};
use eraseblock::raw::lab::powercut::{Options, Plan, Report, Target, Violation, explore_until};
use serde::Serialize;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Chips for what lives on UBI.
const SHAPES: [&str; 7] = ["mini", "mini-tight", "mini-big", "subpage", "large", "nor", "nor-wide"];

/// The file system of this name on the chip of this name.
pub(super) fn find(name: &str, chip: Option<&str>) -> Result<Box<dyn Target>, Failure> {
    let (target, chips): (Option<Box<dyn Target>>, &[&str]) = match name {
        "jffs2" => {
            let chips = &Jffs2Stack::CHIPS;
            let name = chip.unwrap_or(chips[0]);
            let target = Jffs2Stack::find(name).or_else(|| other(name).map(Jffs2Stack::on));
            (target.map(|target| Box::new(target) as Box<dyn Target>), chips)
        }
        "yaffs2" => {
            let chips = &Yaffs2Stack::CHIPS;
            let name = chip.unwrap_or(chips[0]);
            let target = Yaffs2Stack::find(name).or_else(|| other(name).and_then(Yaffs2Stack::on));
            (target.map(|target| Box::new(target) as Box<dyn Target>), chips)
        }
        "ubifs" if chip == Some(SHAPES[1]) => (Some(Box::new(tight_ubifs()) as _), &SHAPES),
        "ubifs" if chip == Some(SHAPES[2]) => (Some(Box::new(big_lpt_ubifs()) as _), &SHAPES),
        "ubifs" => {
            let shape = Shape::find(chip.unwrap_or(Shape::ALL[0].name()));
            let shape = shape.filter(|shape| shape.check_ubi().is_ok());
            (shape.map(|shape| Box::new(ubifs(shape)) as Box<dyn Target>), &SHAPES)
        }
        _ => (None, &[]),
    };
    target.ok_or_else(|| {
        let chip = chip.unwrap_or_default();
        Failure::usage(format!("there is no `{name}` on a chip `{chip}`"))
            .hint(format!("its chips are {}", chips.join(", ")))
    })
}

/// Returns a chip without a name of its own.
fn other(name: &str) -> Option<Shape> {
    Shape::find(name).filter(|shape| matches!(shape, Shape::Custom(_)))
}

fn plans(args: &PowercutArgs) -> Vec<Plan> {
    let most = args.most();
    match args.sequences {
        Sequences::Single => singles().into_iter().take(most).collect(),
        Sequences::Pair => pairs(args.seed).map(Plan::Pair).take(most).collect(),
        Sequences::Random | Sequences::Aged => {
            let is_open = args.states.is_none() && args.budget.is_none();
            let most = args.division.units.unwrap_or(if is_open { 16 } else { u64::MAX });
            let most = most.min(1 << 20);
            let plan = if args.sequences == Sequences::Aged { Plan::Aged } else { Plan::Run };
            (0..most).map(|number| plan(args.seed.wrapping_add(number))).collect()
        }
    }
}

/// Distance between the first pairs of consecutive seeds.
const PAIRS_OF_A_SEED: u64 = 4099;

/// All pairs in one order, in which neighbours have little in common; seeds begin at different ones.
fn pairs(seed: u64) -> impl Iterator<Item = u32> {
    let count = u64::from(pair_count());
    // A step that shares no factor with the count meets every number once.
    let step = (count / 2..count).find(|step| gcd(*step, count) == 1).unwrap_or(1);
    let first = seed % count * PAIRS_OF_A_SEED % count;
    (0..count).filter_map(move |number| u32::try_from((first + number) % count * step % count).ok())
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The JSON document of a campaign.
#[derive(Serialize)]
struct Document<'a> {
    target: &'a str,
    plans: u64,
    cut_short: bool,
    operations: u64,
    events: u64,
    states: u64,
    duplicates: u64,
    nested_states: u64,
    came_later: u64,
    variants: &'a BTreeMap<String, u64>,
    cut_events: &'a BTreeMap<&'static str, u64>,
    cut_operations: &'a BTreeMap<String, u64>,
    happened: &'a BTreeMap<&'static str, u64>,
    seconds: f64,
    violations: &'a [Violation],
    processor_seconds: f64,
    digest: String,
}

fn document<'a>(target: &'a str, report: &'a Report, times: (f64, f64)) -> Document<'a> {
    let (seconds, processor_seconds) = times;
    Document {
        target,
        plans: report.plans,
        cut_short: report.cut_short,
        operations: report.operations,
        events: report.events,
        states: report.states,
        duplicates: report.duplicates,
        nested_states: report.nested_states,
        came_later: report.came_later,
        variants: &report.variants,
        cut_events: &report.cut_events,
        cut_operations: &report.cut_operations,
        happened: &report.happened,
        seconds,
        violations: &report.violations,
        processor_seconds,
        digest: units::digest(report),
    }
}

/// Returns the target, and the options of the campaign.
fn campaign(args: &PowercutArgs) -> Result<(Box<dyn Target>, Options), Failure> {
    let name = match args.target {
        LabTarget::Ubi => "ubi",
        LabTarget::Ubifs => "ubifs",
        LabTarget::Jffs2 => "jffs2",
        LabTarget::Yaffs2 => "yaffs2",
    };
    let target = find(name, args.chip()?.as_deref())?;
    let options = Options {
        seed: args.seed,
        run_length: args.length,
        budget_states: args.states,
        nested_every: args.nested,
        judge_every: args.every,
        ..Options::of(plans(args))
    };
    Ok((target, options))
}

/// Returns the units of a campaign: its sequences.
pub(super) fn units(args: &PowercutArgs) -> Result<Vec<Unit>, Failure> {
    if args.budget.is_some() || args.states.is_some() {
        return Err(units::budget_refused());
    }
    let (target, mut options) = campaign(args)?;
    let target: Rc<dyn Target> = target.into();
    let plans = std::mem::take(&mut options.plans);
    let unit = |plan| Unit {
        target: Rc::clone(&target),
        options: Options { plans: vec![plan], ..options.clone() },
    };
    Ok(plans.into_iter().map(unit).collect())
}

/// Runs a campaign.
pub(super) fn powercut(args: &PowercutArgs, session: &mut Session) -> Result<(), Failure> {
    let (target, options) = campaign(args)?;
    let page = args.page(session)?;
    let watch = Watch::start();
    let report = explore_until(target.as_ref(), &options, &|| watch.is_over(args.budget))?;
    let (seconds, busy) = watch.seconds();
    let place = format!("{}/{}", report.target, report.chip);
    for found in &report.violations {
        violation(session, &found.id.to_string(), found.rule, &found.message);
    }
    if args.thorough {
        for (what, _) in report.happened.iter().filter(|(_, count)| **count == 0) {
            violation(session, &place, "thorough", &format!("no {what} in any sequence"));
        }
    }
    let every_one = report.cut_short && args.sequences == Sequences::Single;
    let left_out = every_one.then(|| {
        let (done, all) = (report.plans, options.plans.len());
        format!("stopped in sequence {done} of {all}: the cuts of the others were not judged")
    });
    if let Some(message) = &left_out
        && args.thorough
    {
        violation(session, &place, "thorough", message);
    }
    if let Some(output) = page {
        let demanded = report.happened.keys().copied().collect();
        Page { title: &place, report: &report, demanded, seconds: (seconds, busy) }
            .write(output)?;
    }
    if session.options.json {
        return session.json(&document(&place, &report, (seconds, busy)));
    }
    if let Some(message) = left_out
        && !args.thorough
    {
        session.lines([format!("{place}: {message}")])?;
    }
    let happened: Vec<String> =
        report.happened.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if !happened.is_empty() {
        session.lines([format!("{}: {}", place, happened.join(", "))])?;
    }
    let summary = format!(
        "{}: {} sequences, {} operations, {} flash events, {} states judged ({} of them cuts of a \
         recovery), {} equal ones, {} right at a later mount only, {} violations",
        place,
        report.plans,
        report.operations,
        report.events,
        report.states,
        report.nested_states,
        report.duplicates,
        report.came_later,
        report.violations.len(),
    );
    session.lines([summary, speed(report.states, seconds, busy)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_seed_meets_all_pairs_and_others_first() {
        let some = |seed| pairs(seed).take(4000).collect::<HashSet<_>>();
        assert!(some(1).is_disjoint(&some(2)) && some(u64::MAX).is_disjoint(&some(2)));
        assert_eq!(pairs(7).collect::<HashSet<_>>().len(), pair_count() as usize);
    }
}
