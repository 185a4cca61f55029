//! `eraseblock debug`: questions about the structures of an image, and changes of them in a copy, or
//! in place with an undo file.

mod answer;
pub(super) mod store;

use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use answer::Answers;
use eraseblock::raw::census::debug::{Debugger, HELP, Refusal};
use eraseblock::raw::census::script::Script;
use eraseblock::target::Place;
use eraseblock::target::structures;
use std::fs;
use std::io::{BufRead, IsTerminal, Write, stdin};
use std::path::PathBuf;
use store::Store;

/// Arguments of `debug`.
#[derive(Debug, clap::Args)]
pub(crate) struct DebugArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Run COMMAND; may be repeated [default: commands from standard input]
    #[arg(short, long = "command", value_name = "COMMAND")]
    command: Vec<String>,
    /// Run the commands in FILE, before those of --command; may be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: Vec<PathBuf>,
    /// Write the changes into a copy
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the changes into TARGET itself; needs --undo
    #[arg(short, long, conflicts_with = "output", requires = "undo")]
    write: bool,
    /// Keep what the changes replace in FILE, a new file: `eraseblock undo FILE TARGET` restores it
    #[arg(long, value_name = "FILE", requires = "write")]
    undo: Option<PathBuf>,
    /// What `fuzz ... random` does
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    seed: u64,
}

/// Answers, and writes changes.
pub(crate) fn run(args: &DebugArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    let mut store = Store::new(&place, args.output.as_deref(), args.undo.as_deref())?;
    let shape = args.target.shape.shape();
    let cut = match store.observer() {
        Some(mut alone) => structures::cut(&place, &shape, &mut alone)?,
        None => structures::cut(&place, &shape, session)?,
    };
    let context = place.path.display();
    let mut debugger = Debugger::new(cut.image, cut.plan, args.seed).context(context)?;
    let mut answers = Answers::new(session.options.json);
    let mut scripts = Vec::new();
    for path in &args.file {
        let text = fs::read_to_string(path).context(path.display())?;
        let script = Script::parse(&text).map_err(Failure::usage).context(path.display())?;
        for (line, command) in &script.commands {
            let mut work = Work { debugger: &mut debugger, store: &mut store };
            let run = work.run(command, &mut answers, session);
            run.context(format!("{}:{line}", path.display()))?;
        }
        scripts.push((path.clone(), script));
    }
    for command in &args.command {
        let mut work = Work { debugger: &mut debugger, store: &mut store };
        work.run(command, &mut answers, session)?;
    }
    if args.command.is_empty() && args.file.is_empty() {
        let mut work = Work { debugger: &mut debugger, store: &mut store };
        converse(&mut work, &mut answers, session)?;
    } else {
        store.write_rest(&debugger, session)?;
    }
    for (path, script) in scripts {
        store.judge(&path, &script, &mut answers, session)?;
    }
    if session.options.json {
        return answers.finish(&debugger, &store, session);
    }
    Ok(())
}

/// A session.
struct Work<'a> {
    debugger: &'a mut Debugger,
    store: &'a mut Store,
}

impl Work<'_> {
    fn run(
        &mut self,
        command: &str,
        answers: &mut Answers,
        session: &mut Session,
    ) -> Result<(), Failure> {
        let mut output = String::new();
        if command.trim() == "write" {
            self.store.write(self.debugger, session).context("write")?;
        } else {
            let run = self.debugger.run(command, &mut output);
            run.map_err(|refusal| failure(command, refusal))?;
        }
        answers.add(command, output, session)
    }
}

/// Reads commands until `quit`; one that makes no sense ends a script, but not a conversation.
/// Changes are written at the end of a script; a conversation writes them by `write`.
fn converse(
    work: &mut Work<'_>,
    answers: &mut Answers,
    session: &mut Session,
) -> Result<(), Failure> {
    let is_terminal = stdin().is_terminal();
    let is_prompted = is_terminal && !session.options.json;
    loop {
        if is_prompted {
            write!(session.out, "debug> ")?;
            session.out.flush()?;
        }
        let mut line = String::new();
        if stdin().lock().read_line(&mut line)? == 0 || line.trim() == "quit" {
            break;
        }
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match work.run(line, answers, session) {
            Err(failure) if is_prompted => {
                writeln!(session.out, "{}\n{HELP}", failure.message())?;
            }
            other => other?,
        }
    }
    if is_terminal {
        return work.store.warn_of_rest(work.debugger, session);
    }
    work.store.write_rest(work.debugger, session)
}

fn failure(command: &str, refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Usage(message) => Failure::usage(message).context(command),
        Refusal::Host(error) => Failure::from(error).context(command),
    }
}
