//! The results of the suites: one table, with the reasons for everything left out.

use super::mounts::Kind;
use std::fmt::Write as _;

/// The result of one suite on one kind of mount.
#[derive(Clone, Debug)]
pub(super) struct Score {
    pub(super) suite: &'static str,
    pub(super) kind: Kind,
    pub(super) passed: u32,
    pub(super) failed: u32,
    pub(super) excluded: u32,
    /// The unit of its tests.
    pub(super) unit: String,
    /// Failures, and what is left out for which reason.
    pub(super) remarks: Vec<String>,
}

impl Score {
    /// Creates the score of a suite of which all `passed` tests passed.
    pub(super) fn passed(suite: &'static str, kind: Kind, passed: u32, unit: String) -> Self {
        Self { suite, kind, passed, failed: 0, excluded: 0, unit, remarks: Vec::new() }
    }

    /// Creates the score of a suite that stopped at an error.
    pub(super) fn stopped(suite: &'static str, kind: Kind, error: &anyhow::Error) -> Self {
        let remarks = vec![format!("failed: {error:#}")];
        Self { failed: 1, remarks, ..Self::passed(suite, kind, 0, String::new()) }
    }
}

/// Returns all scores as a table.
pub(super) fn table(scores: &[Score]) -> String {
    let mut table = format!(
        "{:<10} {:<6} {:>6} {:>6} {:>8}  {}\n",
        "suite", "on", "passed", "failed", "excluded", "counted are"
    );
    for score in scores {
        let Score { suite, kind, passed, failed, excluded, unit, .. } = score;
        let name = kind.name();
        let _ =
            writeln!(table, "{suite:<10} {name:<6} {passed:>6} {failed:>6} {excluded:>8}  {unit}");
    }
    for score in scores {
        for remark in &score.remarks {
            let _ = writeln!(table, "{} on {}: {remark}", score.suite, score.kind.name());
        }
    }
    let sum = |of: fn(&Score) -> u32| scores.iter().map(of).sum::<u32>();
    let (passed, failed) = (sum(|score| score.passed), sum(|score| score.failed));
    let excluded = sum(|score| score.excluded);
    let _ = writeln!(table, "{passed} passed, {failed} failed, {excluded} excluded");
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_counted_and_explained() {
        let error = anyhow::anyhow!("cause").context("what");
        let good = Score::passed("fsx", Kind::Model, 2, "seeds".to_owned());
        let text = table(&[good, Score::stopped("load", Kind::Ubifs, &error)]);
        assert!(text.contains("fsx        model       2      0        0  seeds\n"), "{text}");
        assert!(text.contains("load       ubifs       0      1        0  \n"), "{text}");
        assert!(
            text.ends_with("load on ubifs: failed: what: cause\n2 passed, 1 failed, 0 excluded\n"),
            "{text}"
        );
    }
}
