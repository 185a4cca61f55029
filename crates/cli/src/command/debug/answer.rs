//! What commands printed: at once as text, or at the end as JSON.

use super::store::Store;
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::documents::Sum;
use eraseblock::raw::census::debug::Debugger;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// A command and what it printed, as JSON.
#[derive(Debug, Serialize)]
struct Done {
    command: String,
    output: String,
}

/// A place that was changed, as JSON.
#[derive(Debug, Serialize)]
struct Change {
    offset: u64,
    bytes: usize,
}

/// Whether the expectations of a script hold, as JSON.
#[derive(Debug, Serialize)]
struct Judgement {
    script: String,
    as_expected: bool,
    differences: Vec<String>,
}

/// All answers, as JSON.
#[derive(Debug, Serialize)]
struct Document<'a> {
    census: BTreeMap<&'static str, Sum>,
    commands: &'a [Done],
    changes: Vec<Change>,
    written: bool,
    #[serde(skip_serializing_if = "<[Judgement]>::is_empty")]
    scripts: &'a [Judgement],
}

/// Answers.
pub(super) struct Answers {
    is_json: bool,
    commands: Vec<Done>,
    scripts: Vec<Judgement>,
}

impl Answers {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, commands: Vec::new(), scripts: Vec::new() }
    }

    /// Adds what a command printed.
    pub(super) fn add(
        &mut self,
        command: &str,
        output: String,
        session: &mut Session,
    ) -> Result<(), Failure> {
        if self.is_json {
            self.commands.push(Done { command: command.to_owned(), output });
        } else {
            session.out.write_all(output.as_bytes())?;
        }
        Ok(())
    }

    /// Adds what is wrong with the result of a script.
    pub(super) fn judged(
        &mut self,
        script: String,
        differences: Vec<String>,
        session: &mut Session,
    ) -> Result<(), Failure> {
        if self.is_json {
            let as_expected = differences.is_empty();
            self.scripts.push(Judgement { script, as_expected, differences });
            return Ok(());
        }
        if differences.is_empty() {
            writeln!(session.out, "{script}: check names what is expected")?;
        }
        for difference in differences {
            writeln!(session.out, "{script}: {difference}")?;
        }
        Ok(())
    }

    /// Prints the document.
    pub(super) fn finish(
        &self,
        debugger: &Debugger,
        store: &Store,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let sums = debugger.sums()?.into_iter();
        let census = sums.map(|(state, (records, bytes))| (state.name(), Sum { records, bytes }));
        let changes = debugger.changes()?.into_iter();
        let changes = changes.map(|one| Change { offset: one.offset, bytes: one.new.len() });
        session.json(&Document {
            census: census.collect(),
            commands: &self.commands,
            changes: changes.collect(),
            written: store.has_written(),
            scripts: &self.scripts,
        })
    }
}
