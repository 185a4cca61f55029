//! `eraseblock edit`: a file system changed in its image, by commands from the command line, from
//! standard input or from a prompt.

pub(crate) mod editor;
mod words;

use crate::args::{TargetArgs, size64};
use crate::failure::{Context, Failure};
use crate::session::{Session, say};
use editor::Editor;
use eraseblock::target::writable::{self, Mode, Writable};
use eraseblock::text;
use serde::Serialize;
use serde_json::json;
use std::io::{self, BufRead, IsTerminal, Write};

/// Arguments of `edit`.
#[derive(Debug, clap::Args)]
#[command(after_help = editor::HELP)]
pub(crate) struct EditArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// A command; may be repeated. Without it they come from standard input
    #[arg(short, long = "command", value_name = "COMMAND")]
    commands: Vec<String>,
    /// Size of the target flash, if larger than the image
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// Leave a fastmap on the flash, so that the next attach need not scan it
    #[arg(long)]
    fastmap: bool,
}

/// Edits. The first command that fails ends a script; a prompt only reports the failure.
pub(crate) fn run(args: &EditArgs, session: &mut Session) -> Result<(), Failure> {
    let mode = Mode { size: args.size, fastmap: args.fastmap, ..Mode::default() };
    let opened = writable::open(&args.target.wanted(), mode, session)?;
    // What the commands before one that fails did is kept.
    opened.below().keep();
    let ran = commands(args, &opened, session)
        .map_err(|failure| failure.map(|error| opened.explained(error)));
    let closed = opened.close(session);
    let commands = ran.and_then(|done| Ok(closed.map(|()| done)?))?;
    if session.options.json { session.json(&json!({ "commands": commands })) } else { Ok(()) }
}

fn commands(
    args: &EditArgs,
    opened: &Writable,
    session: &mut Session,
) -> Result<Vec<Done>, Failure> {
    let mut done = Vec::new();
    let mut editor = Editor::new(opened.fs()).reading(session.inputs());
    if !args.commands.is_empty() {
        for command in &args.commands {
            line(&mut editor, opened, command.as_bytes(), session, &mut done).context(command)?;
        }
        return Ok(done);
    }
    if io::stdin().is_terminal() {
        if session.options.json {
            return Err(Failure::usage("--json: there is no document at a prompt")
                .hint("-c COMMAND, or commands on standard input"));
        }
        return prompt(&mut editor, opened, session).map(|()| done);
    }
    for (number, command) in (1..).zip(io::stdin().lock().split(b'\n')) {
        let goes_on = line(&mut editor, opened, &command?, session, &mut done);
        if !goes_on.context(format!("line {number}"))? {
            break;
        }
    }
    Ok(done)
}

/// A command and what it printed, for the document.
#[derive(Debug, Serialize)]
struct Done {
    command: String,
    output: String,
}

/// Prints the output of a command, or keeps it for the document.
fn deliver(
    command: &[u8],
    output: Vec<u8>,
    session: &mut Session,
    done: &mut Vec<Done>,
) -> Result<(), Failure> {
    if !session.options.json {
        return Ok(session.out.write_all(&output)?);
    }
    let command = text::name(command.trim_ascii());
    let output = String::from_utf8(output).unwrap_or_else(|error| text::name(error.as_bytes()));
    done.push(Done { command, output });
    Ok(())
}

fn prompt(
    editor: &mut Editor<'_>,
    opened: &Writable,
    session: &mut Session,
) -> Result<(), Failure> {
    let done = &mut Vec::new();
    say("`help` lists the commands, `quit` or the end of the input leaves");
    loop {
        write!(session.out, "> ")?;
        session.out.flush()?;
        let mut command = Vec::new();
        if io::stdin().lock().read_until(b'\n', &mut command)? == 0 {
            return Ok(());
        }
        match line(editor, opened, &command, session, done) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(failure) => {
                let failure = failure.map(|error| opened.explained(error));
                say(failure.message());
                if let Some(hint) = failure.next_step() {
                    say(&format!("hint: {hint}"));
                }
            }
        }
    }
}

/// Does one line; whether there may be another.
fn line(
    editor: &mut Editor<'_>,
    opened: &Writable,
    command: &[u8],
    session: &mut Session,
    done: &mut Vec<Done>,
) -> Result<bool, Failure> {
    let words = words::split(command)?;
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words.as_slice() {
        [] => return Ok(true),
        [b"quit" | b"exit"] => return Ok(false),
        [b"check"] => {
            let findings = opened.check()?;
            let verdict = if findings.has_problems() { "" } else { "consistent\n" };
            deliver(command, verdict.into(), session, done)?;
            session.report(findings);
        }
        words => {
            let ran = editor.run(words);
            deliver(command, editor.take_output(), session, done)?;
            session.report(editor.take_findings());
            ran?;
        }
    }
    Ok(true)
}
