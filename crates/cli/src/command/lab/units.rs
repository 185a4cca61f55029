//! Units of a campaign: its sequences, judged one by one and on any number of machines. What a
//! unit finds depends on its name and on the arguments of the campaign only.

use super::{LabTarget, PowercutArgs, filesystems, ubi, violation};
use crate::failure::{Context as _, Failure};
use crate::session::Session;
use eraseblock::raw::lab::powercut::{Options, Report, StateId, Target, Violation, explore};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::str::FromStr;

/// The file of a folder of rows that names its campaign.
const CAMPAIGN: &str = "campaign.json";

/// Arguments of `lab powercut` that divide a campaign.
#[derive(Debug, clap::Args)]
pub(crate) struct UnitArgs {
    /// Judge only the first N sequences of the campaign
    #[arg(long, value_name = "N", help_heading = "Several machines")]
    pub units: Option<u64>,
    /// List the units of the campaign, one a line, and judge none
    #[arg(long, conflicts_with_all = ["unit", "shard", "out", "thorough", "html"], help_heading = "Several machines")]
    pub list_units: bool,
    /// Judge this unit, completely
    #[arg(long, value_name = "ID", num_args = 1.., conflicts_with_all = ["shard", "thorough", "html"], help_heading = "Several machines")]
    pub unit: Vec<String>,
    /// Judge every N-th unit, beginning with number I, which is less than N
    #[arg(long, value_name = "I/N", conflicts_with_all = ["thorough", "html"], help_heading = "Several machines")]
    pub shard: Option<Shard>,
    /// Write the result of each unit to a file of its own in this folder; units with a file are not
    /// judged again
    #[arg(long, value_name = "DIR", conflicts_with_all = ["thorough", "html"], help_heading = "Several machines")]
    pub out: Option<PathBuf>,
}

impl UnitArgs {
    /// Returns whether units are listed or judged, and not a campaign as a whole.
    pub(super) fn is_divided(&self) -> bool {
        let Self { list_units, unit, shard, out, .. } = self;
        *list_units || !unit.is_empty() || shard.is_some() || out.is_some()
    }
}

/// A share of the units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shard {
    index: usize,
    of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parse = |text: &str| {
            let (index, of) = text.split_once('/')?;
            let (index, of) = (index.parse().ok()?, of.parse().ok()?);
            (index < of).then_some(Self { index, of })
        };
        let expected = "expected I/N with a number I from 0 to N-1";
        parse(text).ok_or_else(|| format!("`{text}` is no share of the units: {expected}"))
    }
}

/// A sequence of a campaign.
pub(super) struct Unit {
    /// What is tested.
    pub(super) target: Rc<dyn Target>,
    /// The sequence, and how it is judged.
    pub(super) options: Options,
}

impl Unit {
    fn id(&self) -> Option<String> {
        let plan = self.options.plans.first()?;
        Some(StateId::new(self.target.name(), *plan).to_string())
    }
}

/// The arguments that the result of a unit depends on.
#[derive(Serialize)]
struct Campaign<'a> {
    version: &'static str,
    target: &'static str,
    seed: u64,
    every: u32,
    nested: u32,
    length: u32,
    /// States to judge of each workload of UBI.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<u64>,
    units: usize,
    first: Option<&'a str>,
    last: Option<&'a str>,
}

/// The result of a unit.
#[derive(Serialize)]
struct Row<'a> {
    unit: &'a str,
    states: u64,
    distinct_states: u64,
    nested_states: u64,
    duplicates: u64,
    came_later: u64,
    operations: u64,
    events: u64,
    digest: String,
    kinds: BTreeMap<&'static str, u64>,
    variants: BTreeMap<String, u64>,
    cut_events: BTreeMap<&'static str, u64>,
    cut_operations: BTreeMap<String, u64>,
    happened: BTreeMap<&'static str, u64>,
    violations: Vec<Violation>,
}

/// Lists or judges units.
pub(super) fn run(args: &PowercutArgs, session: &mut Session) -> Result<(), Failure> {
    let units: Vec<(String, Unit)> = match args.target {
        LabTarget::Ubi => ubi::units(args)?,
        _ => filesystems::units(args)?,
    }
    .into_iter()
    .filter_map(|unit| Some((unit.id()?, unit)))
    .collect();
    session.take_out()?;
    if args.division.list_units {
        return session.lines(units.iter().map(|(id, _)| id));
    }
    if let Some(folder) = &args.division.out {
        fs::create_dir_all(folder).context(folder.display())?;
        name_campaign(&folder.join(CAMPAIGN), &campaign(args, &units), session)?;
    }
    for (id, unit) in chosen(&args.division, &units)? {
        judge(id, unit, args.division.out.as_deref(), session)?;
    }
    Ok(())
}

fn campaign<'a>(args: &PowercutArgs, units: &'a [(String, Unit)]) -> Campaign<'a> {
    let first = units.first();
    Campaign {
        version: env!("CARGO_PKG_VERSION"),
        target: first.map_or("", |(_, unit)| unit.target.name().0),
        seed: args.seed,
        every: args.every,
        nested: args.nested,
        length: args.length,
        budget: first.and_then(|(_, unit)| unit.options.budget_states),
        units: units.len(),
        first: first.map(|(id, _)| id.as_str()),
        last: units.last().map(|(id, _)| id.as_str()),
    }
}

/// Names the campaign of a folder, or refuses a folder of another one.
fn name_campaign(
    path: &Path,
    campaign: &Campaign<'_>,
    session: &mut Session,
) -> Result<(), Failure> {
    let wanted = line(campaign)?;
    match fs::read(path) {
        Ok(found) if found == wanted => Ok(()),
        Ok(_) => {
            let message = format!("{}: the folder has another campaign", path.display());
            Err(Failure::new(message)
                .hint("use another folder, or the same arguments and the same version"))
        }
        // Another process may name it at this moment: with the same bytes.
        Err(_) => write(path, &wanted, session),
    }
}

/// Returns the units that were asked for.
fn chosen<'a>(
    args: &UnitArgs,
    units: &'a [(String, Unit)],
) -> Result<Vec<&'a (String, Unit)>, Failure> {
    if let Some(Shard { index, of }) = args.shard {
        return Ok(units.iter().skip(index).step_by(of).collect());
    }
    let mut asked: HashSet<&str> = args.unit.iter().map(String::as_str).collect();
    if asked.is_empty() {
        return Ok(units.iter().collect());
    }
    let found = units.iter().filter(|(id, _)| asked.remove(id.as_str())).collect();
    match asked.into_iter().min() {
        Some(id) => Err(Failure::usage(format!("the campaign has no unit `{id}`"))
            .hint("--list-units with the same arguments lists them")),
        None => Ok(found),
    }
}

/// Judges a unit, unless its row is there.
fn judge(
    id: &str,
    unit: &Unit,
    folder: Option<&Path>,
    session: &mut Session,
) -> Result<(), Failure> {
    let path = folder.map(|folder| folder.join(format!("{}.json", id.replace('/', "_"))));
    if path.as_ref().is_some_and(|path| path.is_file()) {
        return Ok(());
    }
    let report = explore(unit.target.as_ref(), &unit.options)?;
    for found in &report.violations {
        violation(session, &found.id.to_string(), found.rule, &found.message);
    }
    let line = line(&row(id, report))?;
    match path {
        Some(path) => write(&path, &line, session),
        None => session.lines([String::from_utf8_lossy(&line).trim_end()]),
    }
}

fn row(unit: &str, report: Report) -> Row<'_> {
    Row {
        unit,
        states: report.states,
        distinct_states: report.distinct_states,
        nested_states: report.nested_states,
        duplicates: report.duplicates,
        came_later: report.came_later,
        operations: report.operations,
        events: report.events,
        digest: digest(&report),
        kinds: report.kinds,
        variants: report.variants,
        cut_events: report.cut_events,
        cut_operations: report.cut_operations,
        happened: report.happened,
        violations: report.violations,
    }
}

/// Refuses a budget, which would end a unit early or not, depending on the machine or on the units
/// before it.
pub(super) fn budget_refused() -> Failure {
    Failure::usage("--budget and --states end a campaign as a whole; units are judged completely")
        .hint("--units N takes the first N sequences of the campaign")
}

/// Returns the digest of a report as text.
pub(super) fn digest(report: &Report) -> String {
    format!("{:032x}", report.digest)
}

fn line(document: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut line = serde_json::to_vec(document).context("a row of a campaign")?;
    line.push(b'\n');
    Ok(line)
}

/// Writes a file that has either all of its content or is not there.
fn write(path: &Path, content: &[u8], session: &mut Session) -> Result<(), Failure> {
    let mut output = session.create_named(path)?;
    output.file.write_all(content).context(path.display())?;
    output.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_units_are_counted_from_0() {
        assert_eq!("0/1".parse(), Ok(Shard { index: 0, of: 1 }));
        assert_eq!("6/7".parse(), Ok(Shard { index: 6, of: 7 }));
        for text in ["", "1", "7/7", "0/0", "-1/7", "a/b", "1/7/9"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
    }
}
