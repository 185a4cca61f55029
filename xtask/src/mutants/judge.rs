//! Runs the tests that reach a mutant until one fails.

use super::coverage::{Covered, Group, Test, run};
use super::results::{Caught, Cuts, Outcome};
use anyhow::Result;

/// Tests of about this many seconds run together at first; each later batch takes twice as long.
const FIRST_BATCH: f64 = 0.5;
/// The longest batch.
const LAST_BATCH: f64 = 16.0;
/// A batch is killed after this many times its usual processor time.
const PATIENCE: f64 = 5.0;
/// More seconds for every batch.
const GRACE: f64 = 2.0;

/// Judges a mutant by all tests that reach it, cheapest first. With `with_cuts` the campaigns run
/// even if a test catches it.
pub(super) fn judge(
    number: usize,
    covered: &[Covered],
    with_cuts: bool,
) -> Result<(Outcome, Option<Cuts>)> {
    let is_reached = |it: &&Covered| it.tests.iter().any(|test| test.reached.contains(&number));
    let groups: Vec<&Covered> = covered.iter().filter(is_reached).collect();
    if groups.is_empty() {
        return Ok((Outcome::Unreached, None));
    }
    let mut outcome = Outcome::Survived;
    let mut cuts = None;
    for it in groups {
        let is_campaign = it.group == Group::Cuts;
        if outcome != Outcome::Survived && !(is_campaign && with_cuts) {
            continue;
        }
        let caught = group(number, it)?;
        if is_campaign {
            cuts = Some(if caught.is_some() { Cuts::Caught } else { Cuts::Missed });
        }
        if let (Some(caught), Outcome::Survived) = (caught, &outcome) {
            outcome = Outcome::Caught(caught);
        }
    }
    let is_known = with_cuts || cuts.is_some() || outcome == Outcome::Survived;
    Ok((outcome, cuts.or(is_known.then_some(Cuts::Unreached))))
}

/// Runs the tests of one program that reach a mutant.
fn group(number: usize, covered: &Covered) -> Result<Option<Caught>> {
    let mut tests: Vec<&Test> =
        covered.tests.iter().filter(|test| test.reached.contains(&number)).collect();
    tests.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    for batch in batches(&tests) {
        let names: Vec<&str> = batch.iter().map(|test| test.name.as_str()).collect();
        let usual: f64 = batch.iter().map(|test| test.seconds).sum();
        let args: Vec<&str> = ["--exact"].into_iter().chain(names).collect();
        let number = number.to_string();
        let setting = [("ERASEBLOCK_MUTANT", number.as_str())];
        let done = run(&covered.program, &args, usual * PATIENCE + GRACE, &setting)?;
        if !done.is_good {
            let test = failed(&done.text);
            return Ok(Some(Caught { by: covered.group, test, is_timeout: done.is_timeout }));
        }
    }
    Ok(None)
}

/// Splits tests, cheapest first, into batches of growing length.
fn batches<'a>(tests: &'a [&'a Test]) -> Vec<&'a [&'a Test]> {
    let (mut batches, mut begin, mut limit) = (Vec::new(), 0, FIRST_BATCH);
    let mut seconds = 0.0;
    for (index, test) in tests.iter().enumerate() {
        seconds += test.seconds;
        if seconds >= limit || index + 1 == tests.len() {
            batches.push(&tests[begin..=index]);
            (begin, seconds, limit) = (index + 1, 0.0, (limit * 2.0).min(LAST_BATCH));
        }
    }
    batches
}

/// Returns the test that failed or was running, going by what the test harness prints.
fn failed(text: &str) -> String {
    let tests = text.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let bad = tests.filter(|(_, result)| !result.starts_with("ok"));
    bad.map(|(name, _)| name).next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_have_every_test_once_and_grow() {
        let times = [0.1, 0.1, 0.2, 0.3, 0.4, 0.9, 1.0, 30.0, 40.0];
        let tests =
            times.map(|seconds| Test { name: seconds.to_string(), seconds, reached: [].into() });
        let tests: Vec<&Test> = tests.iter().collect();
        let batches = batches(&tests);
        let lengths: Vec<usize> = batches.iter().map(|batch| batch.len()).collect();
        assert_eq!(lengths, [4, 2, 2, 1]);
    }

    #[test]
    fn the_failed_or_interrupted_test_is_named() {
        let text = "test a::b ... ok\ntest c ... FAILED\ntest d ... ok\n";
        assert_eq!(failed(text), "c");
        assert_eq!(failed("test a::b ... ok\ntest e ... "), "e");
        assert_eq!(failed(""), "");
    }
}
