//! What `lab replay` prints: the story of a state.

use super::violation;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::lab::powercut::Explained;
use eraseblock::raw::lab::story::{Chips, CutStory, Fate, Story, expected_by};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Prints how a state came about and what is wrong with it, and saves its chips if asked for.
/// `shrinking` goes into the document.
pub(super) fn print(
    id: &str,
    chip: Option<&Path>,
    session: &mut Session,
    explained: &Explained,
    shrinking: Option<serde_json::Value>,
) -> Result<(), Failure> {
    let Explained { violation: found, story } = explained;
    let found = found.as_ref().map(|found| (found.rule, found.message.as_str()));
    let saved = chip.map(|path| save(path, story)).transpose()?;
    if let Some((rule, message)) = found {
        violation(session, id, rule, message);
    }
    if session.options.json {
        let found = found.map(|(rule, message)| {
            json!({ "rule": rule, "message": message, "expected": expected_by(rule) })
        });
        let saved = saved.map(|[before, after]| json!({ "before": before, "after": after }));
        let mut document = json!({ "id": id, "violation": found, "story": story, "chips": saved });
        if let (Some(shrinking), Some(document)) = (shrinking, document.as_object_mut()) {
            document.insert("shrunk".to_owned(), shrinking);
        }
        return session.json(&document);
    }
    session.lines(["operations".to_owned()])?;
    session.lines(story.operations.iter().map(|operation| format!("  {operation}")))?;
    for (number, cut) in (1..).zip(&story.cuts) {
        session.lines(lines_of(number, cut))?;
    }
    session.lines([String::new()])?;
    if let Some([before, after]) = saved {
        let (before, after) = (before.display(), after.display());
        session.lines([format!("chip before the recovery: {before}, after it: {after}")])?;
    }
    match found {
        Some((rule, message)) => session.lines([
            format!("rule      {rule}"),
            format!("found     {message}"),
            format!("expected  {}", expected_by(rule)),
        ]),
        None => session.lines([format!("{id}: nothing wrong")]),
    }
}

fn lines_of(number: usize, cut: &CutStory) -> Vec<String> {
    let mut lines = vec![String::new(), format!("cut {number}: {}", cut.id)];
    for event in &cut.events {
        let mark = match event.fate {
            Fate::Done => "  ",
            Fate::Cut => "x ",
            Fate::Never => "- ",
        };
        lines.push(format!("  {mark}{}  {}", event.number, event.what));
    }
    lines.push(format!("  left by the cut: {}", cut.left));
    for look in &cut.looks {
        lines.push(look.by.clone());
        lines.extend(look.lines.iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Writes the chip before and after its recovery into new files.
fn save(path: &Path, story: &Story) -> Result<[PathBuf; 2], Failure> {
    let Some(Chips { cut, recovered, .. }) = &story.chips else {
        return Err(Failure::usage("--chip: no power is cut in this state")
            .hint("the id of a state ends with @EVENT.VARIANT"));
    };
    let with = |end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    let paths = [with(".before"), with(".after")];
    if let Some(there) = paths.iter().find(|path| path.exists()) {
        return Err(Failure::new(format!("{}: exists already", there.display()))
            .hint("--chip FILE writes FILE.before and FILE.after, which must be new"));
    }
    for (path, chip) in paths.iter().zip([cut, recovered]) {
        chip.save(path).context(path.display())?;
    }
    Ok(paths)
}
