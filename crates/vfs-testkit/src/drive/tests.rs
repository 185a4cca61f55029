//! The harness accepts a correct file system, and finds planted bugs.

use super::*;
use crate::model::ModelRules;
use crate::ops::{Make, Place, strategy};
use eraseblock_vfs::Caller;
use eraseblock_vfs::Timestamp;
use eraseblock_vfs::fs::FileSystem as _;
use eraseblock_vfs::write::RenameMode;
use proptest::prelude::*;

/// A model with an optional bug at restarts.
struct Planted {
    fs: ModelFs,
    bug: fn(&ModelFs),
}

impl Subject for Planted {
    fn fs(&self) -> &dyn WritableFileSystem {
        &self.fs
    }

    fn restart(&mut self) -> Result<(), String> {
        self.fs.drop_open();
        self.fs.become_writable().map_err(|error| error.to_string())?;
        (self.bug)(&self.fs);
        Ok(())
    }

    fn power_cut(&mut self) -> Result<(), String> {
        self.restart()
    }

    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

fn run(rules: ModelRules, bug: fn(&ModelFs), ops: &[Op]) -> Result<DriveReport, Mismatch> {
    let mut subject = Planted { fs: ModelFs::new(rules, Timestamp::default()), bug };
    let model = ModelFs::new(ModelRules::UBIFS, Timestamp::default());
    drive(&mut subject, &model, ops, &DriveOptions::default())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_models_agree(ops in strategy::ops(60)) {
        let report = run(ModelRules::UBIFS, |_| {}, &ops);
        prop_assert!(report.is_ok(), "{}", report.unwrap_err());
    }
}

/// Returns the first failure that random operations find in 400 attempts, shrunk.
fn hunt(rules: ModelRules, bug: fn(&ModelFs)) -> Option<Vec<Op>> {
    let config =
        ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let found = runner.run(&strategy::ops(60), |ops| {
        run(rules, bug, &ops).map(|_| ()).map_err(|found| TestCaseError::fail(found.to_string()))
    });
    match found {
        Err(proptest::test_runner::TestError::Fail(_, ops)) => Some(ops),
        _ => None,
    }
}

#[test]
fn planted_bugs_are_found_and_shrunk() {
    let other_rules = ModelRules { xattr_value_max: 100, ..ModelRules::UBIFS };
    assert!(hunt(other_rules, |_| {}).is_some_and(|ops| ops.len() <= 3));
    let no_exchange = ModelRules { rename_forms: false, ..ModelRules::UBIFS };
    assert!(hunt(no_exchange, |_| {}).is_some());
    // After a restart the root has lost its mode.
    let bug = |fs: &ModelFs| {
        let root = fs.attr(ModelFs::ROOT).unwrap();
        fs.set_root_attr(&eraseblock_vfs::Attr { permissions: root.permissions & 0o777, ..root });
    };
    let found = hunt(ModelRules::UBIFS, bug).unwrap();
    assert!(found.len() <= 2, "{found:?}");
    // After a restart a file is gone.
    let bug = |fs: &ModelFs| {
        let _ = fs.unlink(ModelFs::ROOT, b"a", &Caller::owner(Timestamp::default()));
    };
    assert!(hunt(ModelRules::UBIFS, bug).unwrap().len() <= 2);
}

#[test]
fn every_kind_of_operation_succeeds_and_is_refused() {
    let at = |name| Place { dir: 0, name };
    let ops = [
        Op::Create(at(0), Make::Regular),
        Op::Create(at(0), Make::Regular),
        Op::Rename(at(0), at(1), RenameMode::Exchange),
        Op::Rename(at(0), at(1), RenameMode::Replace),
        Op::Restart,
        Op::SyncAndCut,
    ];
    let report = run(ModelRules::UBIFS, |_| {}, &ops).unwrap();
    assert_eq!(report, DriveReport { succeeded: 2, refused: 2, full: 0 });
}
