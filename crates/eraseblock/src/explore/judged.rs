//! What `check` finds, and what `repair` would do.

use super::later::Later;
use super::{Found, Spelling, Volumes, answered, failed};
use crate::documents::{Outcome, Verdict};
use crate::observe::Notes;
use crate::target::check_place;
use crate::target::repair::{Examined, examine};
use eraseblock_explore::{Question, Refusal};
use eraseblock_mtd::Access;
use eraseblock_repair::Level;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Findings, and plans of the volumes.
#[derive(Debug)]
pub(super) struct Judged {
    volumes: Volumes,
    spelling: Spelling,
    checked: Later<Vec<u8>>,
    plans: Mutex<BTreeMap<String, Later<Vec<u8>>>>,
}

#[derive(Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    verdict: Verdict,
    #[serde(flatten)]
    found: Found<'a>,
}

#[derive(Serialize)]
struct Planned<'a> {
    #[serde(flatten)]
    outcome: Outcome<'a>,
    #[serde(flatten)]
    found: Found<'a>,
}

impl Judged {
    pub(super) fn new(volumes: Volumes, spelling: Spelling) -> Self {
        Self { volumes, spelling, checked: Later::default(), plans: Mutex::default() }
    }

    /// Answers with what `check` prints.
    pub(super) fn findings(&self) -> Result<Vec<u8>, Refusal> {
        let (place, shape) = (self.volumes.place.clone(), self.volumes.shape.clone());
        let spelling = self.spelling;
        let checked = self.checked.get(move || {
            let report = check_place(&place, &shape, &mut Notes::new(false));
            let report = report.map_err(|error| failed(&error))?;
            let next_steps = report.next_steps().iter().map(spelling).collect();
            let verdict = Verdict { consistent: report.is_consistent(), next_steps };
            answered(&Checked { verdict, found: Found::of(report.findings()) })
        })?;
        Ok(checked.to_vec())
    }

    /// Answers with what `repair` prints.
    pub(super) fn plan(&self, question: &Question) -> Result<Vec<u8>, Refusal> {
        let place = self.volumes.place(question)?;
        let shape = self.volumes.shape.clone();
        let name = question.text("vol").unwrap_or_default().to_owned();
        let later = {
            let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            plans.entry(name).or_default().clone()
        };
        let plan = later.get(move || {
            let mut notes = Notes::new(false);
            let examined: Examined =
                examine(&place, &shape, (Access::Read, Level::Safe), &mut notes)
                    .map_err(|error| failed(&error))?;
            let outcome = Outcome::of(&examined, Default::default());
            answered(&Planned { outcome, found: Found::of(&notes.findings) })
        })?;
        Ok(plan.to_vec())
    }
}
