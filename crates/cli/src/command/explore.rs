//! `eraseblock explore`: a local page over an image, or the same page as one file.

use crate::args::{TargetArgs, size64};
use crate::command::nand;
use crate::failure::{Context, Failure};
use crate::session::Session;
use crate::spelling;
use eraseblock::error::Words;
use eraseblock::explore::{Explorer, Server, ServerOptions};
use eraseblock::target::Place;
use eraseblock::text;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::{Builder, NamedTempFile};

/// Arguments of `explore`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExploreArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// The port on 127.0.0.1 and ::1; 0 takes any free one
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// Print the address only, and open no browser
    #[arg(long)]
    no_open: bool,
    /// Write the page and what it shows into one file, and serve nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["port", "no_open", "idle"])]
    export: Option<PathBuf>,
    /// In the file, also contents of files and of their versions, with at most this many bytes together;
    /// small ones come first
    #[arg(long, value_name = "LIMIT", value_parser = size64, requires = "export")]
    with_contents: Option<u64>,
    /// For a raw dump: the built-in recipe of this name, or the one in this file, instead of a certain one
    #[arg(long, value_name = "NAME|FILE")]
    recipe: Option<String>,
    /// End after this many minutes without a request
    #[arg(long, value_name = "MINUTES")]
    idle: Option<u64>,
}

/// Bytes of the secret.
const SECRET: usize = 32;

/// Serves until a signal comes, or writes the file.
pub(crate) fn run(args: &ExploreArgs, session: &mut Session) -> Result<(), Failure> {
    let place = Place::parse(&args.target.target)?;
    let shape = args.target.shape.shape();
    let spelled = |words: &Words| words.spelled(spelling::of).to_string();
    let recipe = args.recipe.as_deref().map(|name| nand::recipe(name, session)).transpose()?;
    if recipe.is_some() && (!place.path.is_file() || place.at.is_some() || shape.format.is_some()) {
        return Err(Failure::usage("--recipe: only a whole file is a raw dump"));
    }
    let explorer = Explorer::open(&place, &shape, recipe.as_ref(), spelled, session)?;
    if let Some(path) = &args.export {
        let mut output = session.create(path)?;
        let mut out = BufWriter::new(&mut output.file);
        explorer
            .report(args.with_contents.unwrap_or(0), &mut out)
            .map_err(Failure::from)
            .context(path.display())?;
        out.flush().context(path.display())?;
        drop(out);
        return output.commit();
    }
    let token = text::hex(&secret()?);
    let idle = args.idle.map(|minutes| Duration::from_secs(minutes.saturating_mul(60)));
    let options = ServerOptions { port: args.port, token: token.clone(), idle };
    let server = Server::new(Arc::new(explorer), &options).context("cannot serve")?;
    let address = format!("http://127.0.0.1:{}/#{token}", server.port());
    let stop = server.stopper();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            stop();
        }
    })?;
    session.lines([&address])?;
    session.out.flush()?;
    // Kept until the end: the browser may read it late.
    let _door = if args.no_open { None } else { Some(open(&address)?) };
    server.run();
    Ok(())
}

fn secret() -> Result<[u8; SECRET], Failure> {
    const RANDOM: &str = "/dev/urandom";
    let mut bytes = [0; SECRET];
    File::open(RANDOM).and_then(|mut file| file.read_exact(&mut bytes)).context(RANDOM)?;
    Ok(bytes)
}

/// Opens the browser by a file that only this user can read: the arguments of a program can be seen by
/// everyone. A browser that does not open is no failure, since the address is printed.
fn open(address: &str) -> Result<NamedTempFile, Failure> {
    let mut file = Builder::new().prefix("eraseblock-").suffix(".html").tempfile()?;
    write!(
        file,
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={address}\"><title>eraseblock</title>"
    )?;
    let (quiet, path) = (Stdio::null, file.path());
    let _ =
        Command::new("xdg-open").arg(path).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn();
    Ok(file)
}
