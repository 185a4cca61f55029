//! `cargo xtask cuts`: power cuts of every layer, judged by the laboratory of the release build, and
//! the hunts for the bugs planted in it.
//!
//! A layer passes when no state broke a rule, every bug was found, and enough states were judged:
//! a campaign that shrinks by mistake is a failure, too.

use crate::command;
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::process::{Command, Stdio};

/// What is cut.
struct Layer {
    /// As `--target` names it.
    target: &'static str,
    /// States that all campaigns together must judge.
    least: u64,
    /// Arguments of each campaign.
    campaigns: &'static [&'static str],
}

const LAYERS: [Layer; 3] = [
    Layer {
        target: "ubi",
        least: 100_000,
        campaigns: &["--chip all --states 100000 --nested 512"],
    },
    Layer {
        target: "jffs2",
        least: 100_000,
        campaigns: &[
            "--chip nand --sequences single --thorough",
            "--chip nosum --sequences single --thorough",
            "--chip nor --sequences single --thorough",
            "--chip nand --sequences pair --states 14000",
            "--chip nor --sequences pair --states 14000",
            "--chip nand --sequences random --states 3000",
            "--chip nor --sequences random --states 3000",
        ],
    },
    // Every cut of every single operation, a sample of those of pairs, and of old file systems on
    // which everything happens that a file system does now and then.
    Layer {
        target: "ubifs",
        least: 200_000,
        campaigns: &[
            "--chip mini --sequences single --nested 101",
            "--chip mini --sequences pair --nested 211 --states 50000",
            "--chip mini-tight --sequences aged --every 7 --nested 211 --states 50000 --thorough",
            "--chip mini-tight --sequences aged --every 11 --nested 2003 --states 40000 --seed 11040",
            "--chip mini-big --sequences aged --every 7 --nested 211 --states 5000",
            "--chip mini-big --sequences aged --every 11 --nested 2003 --states 20000 --seed 12080",
            "--chip nor --sequences single --every 5 --nested 211",
            "--chip nor --sequences aged --every 11 --nested 2003 --states 10000 --seed 13010",
            "--chip nor-wide --sequences aged --every 11 --nested 211 --states 5000",
            "--chip subpage --sequences single --every 3 --nested 0",
            "--chip subpage --sequences aged --every 11 --nested 2003 --states 20000 --seed 21000",
            "--chip large --sequences single --every 5 --nested 0",
        ],
    },
];

/// What a campaign reports, as far as it counts here.
#[derive(Deserialize)]
struct Report {
    states: u64,
    processor_seconds: f64,
}

/// Runs every layer, or the one after `--only`.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let only = match args {
        [] => None,
        [option, target] if option == "--only" => Some(target.as_str()),
        _ => bail!("expected nothing or --only and a layer"),
    };
    let layers: Vec<&Layer> =
        LAYERS.iter().filter(|layer| only.is_none_or(|only| only == layer.target)).collect();
    ensure!(!layers.is_empty(), "--only takes ubi, jffs2 or ubifs");
    let (mut passed, mut failed) = (0, 0);
    for layer in layers {
        let mut states = 0;
        for campaign in layer.campaigns {
            let judged = campaign_of(layer, campaign)?;
            states += judged.unwrap_or(0);
            *(if judged.is_some() { &mut passed } else { &mut failed }) += 1;
        }
        let is_enough = states >= layer.least;
        let word = if is_enough { "pass" } else { "FAIL" };
        println!("{word}  {}: {states} states, wanted {}", layer.target, layer.least);
        let found = laboratory(layer.target)?.arg("--bugs").status()?.success();
        println!("{}  {}: planted bugs", if found { "pass" } else { "FAIL" }, layer.target);
        for is_good in [is_enough, found] {
            *(if is_good { &mut passed } else { &mut failed }) += 1;
        }
    }
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
}

/// The states a campaign judged; `None` when one of them, or the campaign, was not right.
fn campaign_of(layer: &Layer, campaign: &str) -> Result<Option<u64>> {
    let mut command = laboratory(layer.target)?;
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

fn laboratory(target: &str) -> Result<Command> {
    let program = command::repository().join("target/release/eraseblock");
    ensure!(program.is_file(), "{} is not there: build it first", program.display());
    let mut command = Command::new(program);
    command.args(["lab", "powercut", "--target", target]).stdin(Stdio::null());
    Ok(command)
}
