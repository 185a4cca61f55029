//! `cargo xtask mutants`: mistakes made by machine in the write paths, which the tests and the power
//! cuts must catch.
//!
//! A scratch copy of the sources gets every mutant at once; the environment chooses one at run time,
//! so that one build serves all. A record of what each test reaches limits a mutant to the tests
//! that can catch it.
//!
//! # Invariants
//! 1. The repository is only read; `--report` alone writes, and only `docs/mutants.md`.
//! 2. The same sources and seed give the same mutants in the same order; the name of a mutant stays
//!    when lines move.
//! 3. A test that fails without a mutant is an error: no mutant is caught by it.

mod coverage;
mod edit;
mod judge;
mod operators;
mod report;
mod results;
mod scope;
mod tree;
mod values;

use self::coverage::Covered;
use self::report::Reasons;
use self::results::Judged;
use self::tree::Judges;
use crate::command::repository;
use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Instant;

/// One of this many mutants that a test catches is judged by power cuts as well.
const SAMPLE: u8 = 4;

/// Mutants that are judged without `--count`.
const COUNT: usize = 600;

/// What to judge.
#[derive(Debug)]
struct Options {
    count: usize,
    seed: String,
    /// The part of the mutants, and the number of parts.
    shard: (usize, usize),
    /// A part of the names.
    only: Option<String>,
    jobs: usize,
    /// Survivors, or all.
    again: Again,
    judges: Judges,
    /// Whether only mutants with a reason are judged.
    is_listed_only: bool,
    is_report: bool,
    is_list: bool,
}

/// Which mutants with a result are judged again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Again {
    None,
    Survivors,
    All,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            count: COUNT,
            seed: "1".to_owned(),
            shard: (1, 1),
            only: None,
            jobs: 1,
            again: Again::None,
            judges: Judges::All,
            is_listed_only: false,
            is_report: false,
            is_list: false,
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--count" => options.count = value()?.parse()?,
                "--seed" => options.seed.clone_from(value()?),
                "--shard" => options.shard = shard(value()?)?,
                "--only" => options.only = Some(value()?.clone()),
                "--jobs" => options.jobs = value()?.parse()?,
                "--survivors" => options.again = Again::Survivors,
                "--again" => options.again = Again::All,
                "--quick" => options.judges = Judges::OfTheCrates,
                "--listed" => options.is_listed_only = true,
                "--report" => options.is_report = true,
                "--list" => options.is_list = true,
                other => bail!("unknown argument {other}"),
            }
        }
        Ok(options)
    }

    /// Returns the mutants to judge, in the order of their hashes.
    fn select<'a>(&self, mutants: impl Iterator<Item = Chosen<'a>>) -> Vec<Chosen<'a>> {
        let is_wanted =
            |it: &Chosen<'_>| self.only.as_ref().is_none_or(|only| it.name.contains(only));
        let mut chosen: Vec<Chosen<'a>> = mutants.filter(is_wanted).collect();
        chosen.sort_by_cached_key(|it| hash(&self.seed, it.name));
        chosen.truncate(self.count);
        let (part, parts) = self.shard;
        chosen.into_iter().skip(part - 1).step_by(parts).collect()
    }
}

/// A mutant that may be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chosen<'a> {
    number: usize,
    name: &'a str,
    line: usize,
}

fn shard(text: &str) -> Result<(usize, usize)> {
    let parsed = text.split_once('/').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    let shard = parsed.filter(|(part, parts)| (1..=*parts).contains(part));
    shard.with_context(|| {
        format!("--shard takes a part and the number of parts, as 1/4, not {text}")
    })
}

fn hash(seed: &str, name: &str) -> [u8; 32] {
    Sha256::digest(format!("{seed}:{name}")).into()
}

/// Whether the campaigns run on a mutant that a test catches.
fn is_sampled(name: &str) -> bool {
    hash("cuts", name)[0].is_multiple_of(SAMPLE)
}

/// Plants all mutants and judges those that the options choose; returns whether every survivor has
/// a reason.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let options = Options::parse(args)?;
    let reasons = Reasons::read(&repository().join("docs/mutants.toml"))?;
    let mut tree = tree::Tree::open()?;
    if !(options.is_list || options.is_report) {
        tree.build(options.judges)?;
    }
    let planted: BTreeSet<&str> = tree.viable().map(|(_, it)| it.name.as_str()).collect();
    println!("{} mutants, {} more do not compile", planted.len(), tree.refused.len());
    let all = tree.viable().map(|(number, it)| Chosen { number, name: &it.name, line: it.line });
    let listed = reasons.names();
    let chosen =
        options.select(all.filter(|it| !options.is_listed_only || listed.contains(it.name)));
    if options.is_list {
        for it in &chosen {
            println!("line {}: {}", it.line, it.name);
        }
        return Ok(true);
    }
    let folder = tree.root.join("results");
    if !options.is_report {
        let rooms = chosen.iter().filter_map(|it| it.name.split('/').next()).collect();
        let covered = coverage::coverage(&tree, &rooms)?;
        let known = results::read(&folder)?;
        let is_open = |it: &&Chosen<'_>| match (options.again, known.get(it.name)) {
            (Again::All, _) | (_, None) => true,
            (Again::None, Some(_)) => false,
            (Again::Survivors, Some(judged)) => !judged.is_caught(),
        };
        let open: Vec<Chosen<'_>> = chosen.iter().filter(is_open).copied().collect();
        judge_all(&open, &covered, &options, &folder)?;
        fs::remove_dir_all(repository().join(coverage::SCRATCH)).ok();
    }
    let results = results::read(&folder)?;
    let judged: Vec<&Judged> = chosen.iter().filter_map(|it| results.get(it.name)).collect();
    let table = report::table(&judged, &planted, &reasons, is_sampled);
    if options.is_report {
        let head = fs::read_to_string(repository().join("xtask/mutants/head.md"))?;
        let page = report::page(&head, &table, &judged, &reasons)?;
        fs::write(repository().join("docs/mutants.md"), page)?;
    }
    print!("{table}");
    let faults = reasons.faults(&judged, &planted);
    for fault in &faults {
        println!("FAIL  {fault}");
    }
    let caught = judged.iter().filter(|it| it.is_caught()).count();
    println!("{caught} of {} mutants caught", judged.len());
    println!("{} passed, {} failed", judged.len().saturating_sub(faults.len()), faults.len());
    Ok(faults.is_empty())
}

/// Judges mutants, `jobs` at a time, and appends each result to the file of the shard.
fn judge_all(
    open: &[Chosen<'_>],
    covered: &[Covered],
    options: &Options,
    folder: &Path,
) -> Result<()> {
    let file =
        results::append(folder, &format!("{}-of-{}.jsonl", options.shard.0, options.shard.1))?;
    let shared = Mutex::new((open.iter().enumerate(), file));
    let work = || -> Result<()> {
        loop {
            let next = shared.lock().expect("no worker panics").0.next();
            let Some((index, it)) = next else { return Ok(()) };
            let begun = Instant::now();
            let with_cuts = options.judges == Judges::All && is_sampled(it.name);
            let (outcome, cuts) = judge::judge(it.number, covered, with_cuts)?;
            let seconds = (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0;
            let judged = Judged { name: it.name.to_owned(), line: it.line, outcome, cuts, seconds };
            println!(
                "{}/{} {seconds} s {:?} {:?} {}",
                index + 1,
                open.len(),
                judged.outcome,
                cuts,
                it.name
            );
            if options.judges == Judges::OfTheCrates && !judged.is_caught() {
                // The lab may catch it.
                continue;
            }
            let line = serde_json::to_string(&judged)? + "\n";
            shared.lock().expect("no worker panics").1.write_all(line.as_bytes())?;
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs.max(1)).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|it| it.join().expect("no worker panics"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_the_mutants() {
        let names: Vec<String> = (0..50).map(|number| format!("ubi/{number}")).collect();
        let all =
            || names.iter().enumerate().map(|(number, name)| Chosen { number, name, line: 1 });
        let select = |args: &[&str]| {
            let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
            Options::parse(&args).unwrap().select(all())
        };
        let whole = select(&["--count", "40"]);
        let mut parts: Vec<Chosen<'_>> = Vec::new();
        for part in 1..=3 {
            parts.extend(select(&["--count", "40", "--shard", &format!("{part}/3")]));
        }
        assert_eq!((whole.len(), parts.len()), (40, 40));
        assert!(whole.iter().all(|it| parts.contains(it)));
        // A smaller selection is a beginning of a larger one.
        assert_eq!(select(&["--count", "7"]), whole[..7]);
        assert_ne!(select(&["--count", "40", "--seed", "2"]), whole);
    }

    #[test]
    fn wrong_shards_are_refused() {
        for text in ["", "1", "0/2", "3/2", "a/b"] {
            assert!(shard(text).is_err(), "{text}");
        }
        assert_eq!(shard("2/2").unwrap(), (2, 2));
    }
}
