//! `cargo xtask cuts`: power cuts of every layer, judged by the lab of the command.
//!
//! A layer passes if no state broke a rule and enough states were judged: a campaign that shrinks
//! by mistake is a failure, too.

use crate::command;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::Path;
use std::process::{Command, Stdio};

/// A layer to test.
struct Layer {
    /// Its name for `--target`.
    target: &'static str,
    /// The minimum number of states that all campaigns together must judge: for `make test`, and
    /// for the full run.
    least: [u64; 2],
    campaigns: &'static [Campaign],
}

/// Arguments of a campaign: the common ones, and those for few and for all states.
struct Campaign(&'static str, [&'static str; 2]);

const LAYERS: [Layer; 4] = [
    Layer {
        target: "ubi",
        least: [20_000, 100_000],
        // A sample of the states of many operations, so that rare events occur.
        campaigns: &[Campaign(
            "--chip all --nested 512 --thorough",
            ["--every 29 --states 20000", "--every 7 --states 100000"],
        )],
    },
    Layer {
        target: "jffs2",
        least: [30_000, 100_000],
        campaigns: &[
            Campaign("--chip nand --sequences single --thorough", ["--every 4", ""]),
            Campaign("--chip nosum --sequences single --thorough", ["--every 4", ""]),
            Campaign("--chip nor --sequences single --thorough", ["--every 4", ""]),
            Campaign("--chip nand --sequences pair", ["--states 1400", "--states 14000"]),
            Campaign("--chip nor --sequences pair", ["--states 1400", "--states 14000"]),
            Campaign("--chip nand --sequences random", ["--states 700", "--states 3000"]),
            // Media that another driver collected.
            Campaign(
                "--chip nand --sequences aged --seed 6 --every 31 --nested 2003 --thorough",
                ["--states 300", "--states 5000"],
            ),
            Campaign("--chip nor --sequences random", ["--states 1000", "--states 3000"]),
        ],
    },
    Layer {
        target: "yaffs2",
        least: [12_000, 60_000],
        campaigns: &[
            Campaign("--chip nand --sequences single --thorough", ["--every 5", ""]),
            Campaign("--chip inband --sequences single --thorough", ["--every 5", ""]),
            Campaign("--chip large --sequences single --thorough", ["--every 7", ""]),
            Campaign("--chip failing --sequences single --thorough", ["--every 9", ""]),
            Campaign("--chip nand --sequences pair", ["--states 1400", "--states 14000"]),
            Campaign("--chip inband --sequences random", ["--states 1000", "--states 6000"]),
            Campaign(
                "--chip nand --sequences aged --every 11 --nested 197",
                ["--states 700", "--states 6000"],
            ),
            Campaign(
                "--chip inband --sequences aged --every 11 --nested 197",
                ["--states 700", "--states 6000"],
            ),
            Campaign(
                "--chip failing --sequences aged --every 11 --nested 197",
                ["--states 700", "--states 6000"],
            ),
        ],
    },
    // Every cut of every single operation, a sample of those of pairs, and of old file systems with
    // every occasional activity.
    Layer {
        target: "ubifs",
        least: [50_000, 200_000],
        campaigns: &[
            Campaign("--chip mini --sequences single --nested 101", ["--every 16", ""]),
            Campaign(
                "--chip mini --sequences pair --nested 211",
                ["--states 5000", "--states 50000"],
            ),
            // Few states of each sequence, so that those with habits all run, and every occasional
            // activity occurs.
            Campaign(
                "--chip mini-tight --sequences aged --seed 5 --thorough",
                [
                    "--every 61 --nested 4003 --states 6000",
                    "--every 61 --nested 211 --states 30000",
                ],
            ),
            Campaign(
                "--chip mini-tight --sequences aged --every 11 --nested 2003 --seed 11040",
                ["--states 2000", "--states 40000"],
            ),
            Campaign(
                "--chip mini-big --sequences aged --every 7 --nested 211",
                ["--states 1000", "--states 5000"],
            ),
            Campaign(
                "--chip mini-big --sequences aged --every 11 --nested 2003 --seed 12080",
                ["--states 1000", "--states 20000"],
            ),
            Campaign("--chip nor --sequences single --nested 211", ["--every 70", "--every 5"]),
            Campaign(
                "--chip nor --sequences aged --every 11 --nested 2003 --seed 13010",
                ["--states 1000", "--states 10000"],
            ),
            Campaign(
                "--chip nor-wide --sequences aged --every 11 --nested 211",
                ["--states 1000", "--states 5000"],
            ),
            Campaign("--chip subpage --sequences single --nested 0", ["--every 20", "--every 3"]),
            Campaign(
                "--chip subpage --sequences aged --every 11 --nested 2003 --seed 21000",
                ["--states 1000", "--states 20000"],
            ),
            Campaign("--chip large --sequences single --nested 0", ["--every 50", "--every 5"]),
        ],
    },
];

/// The evaluated parts of a campaign's report.
#[derive(Deserialize)]
struct Report {
    states: u64,
    processor_seconds: f64,
}

/// Runs every layer, or the one after `--only`, with few states or with `--full` all of them, by
/// the release build or the command after `--bin`.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let (mut only, mut extent) = (None, 0);
    let mut program = command::repository().join("target/release/eraseblock");
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--only" => only = Some(value()?.as_str()),
            "--bin" => program = value()?.into(),
            "--full" => extent = 1,
            other => bail!("unknown argument {other}"),
        }
    }
    ensure!(program.is_file(), "{} is not there: build it first", program.display());
    let layers: Vec<&Layer> =
        LAYERS.iter().filter(|layer| only.is_none_or(|only| only == layer.target)).collect();
    ensure!(!layers.is_empty(), "--only takes ubi, jffs2, yaffs2 or ubifs");
    let mut judged_in_all = 0;
    let (mut passed, mut failed) = (0, 0);
    for layer in layers {
        let mut states = 0;
        for Campaign(always, added) in layer.campaigns {
            let campaign = format!("{always} {}", added[extent]);
            let judged = campaign_of(&program, layer, campaign.trim_end())?;
            states += judged.unwrap_or(0);
            *(if judged.is_some() { &mut passed } else { &mut failed }) += 1;
        }
        judged_in_all += states;
        let least = layer.least[extent];
        let is_enough = states >= least;
        let word = if is_enough { "pass" } else { "FAIL" };
        println!("{word}  {}: {states} states, wanted {least}", layer.target);
        *(if is_enough { &mut passed } else { &mut failed }) += 1;
    }
    println!("{judged_in_all} states; {passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// Returns the states that a campaign judged, or `None` if one of them, or the campaign, failed.
fn campaign_of(program: &Path, layer: &Layer, campaign: &str) -> Result<Option<u64>> {
    let mut command = laboratory(program, layer.target);
    let done = command.args(campaign.split(' ')).arg("--json").stderr(Stdio::inherit()).output()?;
    let name = format!("{} {campaign}", layer.target);
    if !done.status.success() {
        println!("{}\nFAIL  {name}: {}", String::from_utf8_lossy(&done.stdout), done.status);
        return Ok(None);
    }
    let report: Report =
        serde_json::from_slice(&done.stdout).with_context(|| format!("the report of {name}"))?;
    #[allow(clippy::cast_precision_loss)] // a rate for people
    let rate = report.states as f64 / report.processor_seconds.max(0.001);
    println!("pass  {name}: {} states, {rate:.0} a second of processor time", report.states);
    Ok(Some(report.states))
}

fn laboratory(program: &Path, target: &str) -> Command {
    let mut command = Command::new(program);
    command.args(["lab", "powercut", "--target", target]).stdin(Stdio::null());
    command
}
