//! What `lab replay` prints: the story of a state.

use super::{ReplayArgs, violation};
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::lab::story::{CutStory, Fate, Story, expected_by};
use serde_json::json;
use std::path::{Path, PathBuf};

/// A broken rule, and what was found.
pub(super) type Broken<'a> = (&'a str, &'a str);

/// Prints how a state came about and what is wrong with it, and saves its chips if asked for.
pub(super) fn print(
    args: &ReplayArgs,
    session: &mut Session,
    story: &Story,
    found: Option<Broken<'_>>,
) -> Result<(), Failure> {
    let saved = args.chip.as_deref().map(|path| save(path, story)).transpose()?;
    if let Some((rule, message)) = found {
        violation(session, &args.id, rule, message);
    }
    if session.options.json {
        let found = found.map(|(rule, message)| {
            json!({ "rule": rule, "message": message, "expected": expected_by(rule) })
        });
        let saved = saved.map(|[before, after]| json!({ "before": before, "after": after }));
        let document = json!({ "id": args.id, "violation": found, "story": story, "chips": saved });
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
        session.lines([format!("chip before the last cut: {before}, after it: {after}")])?;
    }
    match found {
        Some((rule, message)) => session.lines([
            format!("rule      {rule}"),
            format!("found     {message}"),
            format!("expected  {}", expected_by(rule)),
        ]),
        None => session.lines([format!("{}: nothing wrong", args.id)]),
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

/// Writes both chips into new files.
fn save(path: &Path, story: &Story) -> Result<[PathBuf; 2], Failure> {
    let Some((before, after)) = &story.chips else {
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
    for (path, chip) in paths.iter().zip([before, after]) {
        chip.save(path).context(path.display())?;
    }
    Ok(paths)
}
