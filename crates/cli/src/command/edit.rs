//! `eraseblock edit`: a file system changed in its image, by commands from the command line, from
//! standard input or from a prompt.

pub(crate) mod editor;
mod words;

use crate::args::{TargetArgs, size64};
use crate::failure::{Context, Failure};
use crate::session::{Session, say};
use crate::target::writable::{self, Mode, Writable};
use editor::Editor;
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
    /// Size of the flash behind an image that is shorter
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// Leave a fastmap on the flash, so that the next attach need not scan it
    #[arg(long)]
    fastmap: bool,
}

/// Edits. The first command that fails ends a script; at a prompt it is only told.
pub(crate) fn run(args: &EditArgs, session: &mut Session) -> Result<(), Failure> {
    let mode = Mode { size: args.size, fastmap: args.fastmap, ..Mode::default() };
    let opened = writable::open(&args.target, mode, session)?;
    // What the commands before one that fails did is kept.
    opened.below().keep();
    let done = commands(args, &opened, session).map_err(|failure| opened.explained(failure));
    let closed = opened.close(session);
    done.and(closed)
}

fn commands(args: &EditArgs, opened: &Writable, session: &mut Session) -> Result<(), Failure> {
    let mut editor = Editor::new(opened.fs());
    if !args.commands.is_empty() {
        for command in &args.commands {
            line(&mut editor, opened, command.as_bytes(), session).context(command)?;
        }
        return Ok(());
    }
    if io::stdin().is_terminal() {
        return prompt(&mut editor, opened, session);
    }
    for (number, command) in (1..).zip(io::stdin().lock().split(b'\n')) {
        let goes_on = line(&mut editor, opened, &command?, session);
        if !goes_on.context(format!("line {number}"))? {
            break;
        }
    }
    Ok(())
}

fn prompt(
    editor: &mut Editor<'_>,
    opened: &Writable,
    session: &mut Session,
) -> Result<(), Failure> {
    say("`help` lists the commands, `quit` or the end of the input leaves");
    loop {
        write!(session.out, "> ")?;
        session.out.flush()?;
        let mut command = Vec::new();
        if io::stdin().lock().read_until(b'\n', &mut command)? == 0 {
            return Ok(());
        }
        match line(editor, opened, &command, session) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(failure) => {
                let failure = opened.explained(failure);
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
) -> Result<bool, Failure> {
    let words = words::split(command)?;
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    match words.as_slice() {
        [] => return Ok(true),
        [b"quit" | b"exit"] => return Ok(false),
        [b"check"] => {
            let findings = opened.check()?;
            if !findings.has_problems() {
                session.lines(["consistent"])?;
            }
            session.report(findings);
        }
        words => {
            let done = editor.run(words);
            session.out.write_all(&editor.take_output())?;
            session.report(editor.take_findings());
            done?;
        }
    }
    Ok(true)
}
