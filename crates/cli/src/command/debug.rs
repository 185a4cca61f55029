//! `eraseblock debug`: questions about the structures of an image. Nothing is written.

use crate::args::TargetArgs;
use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::census::Census;
use eraseblock::raw::census::debug::{Debugger, HELP, Refusal};
use eraseblock::target::Place;
use eraseblock::target::structures;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal, Write, stdin};

/// Arguments of `debug`.
#[derive(Debug, clap::Args)]
pub(crate) struct DebugArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// Run COMMAND; may be repeated [default: commands from standard input]
    #[arg(short, long = "command", value_name = "COMMAND")]
    command: Vec<String>,
}

/// A command and what it printed, as JSON.
#[derive(Debug, Serialize)]
struct Done {
    command: String,
    output: String,
}

/// Records and bytes of one state, as JSON.
#[derive(Debug, Serialize)]
struct Sum {
    records: u64,
    bytes: u64,
}

/// The answers, as JSON.
#[derive(Debug, Serialize)]
struct Answers {
    census: BTreeMap<&'static str, Sum>,
    commands: Vec<Done>,
}

/// Answers.
pub(crate) fn run(args: &DebugArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    let cut = structures::cut(&place, &args.target.shape.shape(), session)?;
    let debugger = Debugger::new(Census::new(cut.image, cut.plan).context(place.path.display())?);
    if args.command.is_empty() {
        return prompt(&debugger, session);
    }
    let mut commands = Vec::new();
    for command in &args.command {
        let mut output = String::new();
        debugger.run(command, &mut output).map_err(|refusal| failure(command, refusal))?;
        if !session.options.json {
            session.out.write_all(output.as_bytes())?;
            continue;
        }
        commands.push(Done { command: command.clone(), output });
    }
    if !session.options.json {
        return Ok(());
    }
    let sums = debugger.sums()?.into_iter();
    let census =
        sums.map(|(state, (records, bytes))| (state.name(), Sum { records, bytes })).collect();
    session.json(&Answers { census, commands })
}

/// Reads commands until `quit`; one that makes no sense ends a script, but not a conversation.
fn prompt(debugger: &Debugger, session: &mut Session) -> Result<(), Failure> {
    let is_terminal = stdin().is_terminal();
    loop {
        if is_terminal {
            write!(session.out, "debug> ")?;
            session.out.flush()?;
        }
        let mut line = String::new();
        if stdin().lock().read_line(&mut line)? == 0 || line.trim() == "quit" {
            return Ok(());
        }
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        let mut output = String::new();
        match debugger.run(line, &mut output) {
            Err(Refusal::Usage(message)) if is_terminal => {
                writeln!(session.out, "{message}\n{HELP}")?;
            }
            Err(refusal) => return Err(failure(line, refusal)),
            Ok(()) => session.out.write_all(output.as_bytes())?,
        }
    }
}

fn failure(command: &str, refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Usage(message) => Failure::usage(message).context(command),
        Refusal::Host(error) => Failure::from(error).context(command),
    }
}
