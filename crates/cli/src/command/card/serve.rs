//! `eraseblock card serve`: a card as a disk over NBD.

mod disk;
mod pace;

use super::stats::seconds;
use crate::failure::{Context, Failure};
use crate::session::{Session, say};
use disk::Served;
use eraseblock::raw::card::{Card, PowerCut};
use eraseblock::raw::nbd::Server;
use eraseblock::text;
use pace::Pace;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::path::PathBuf;

/// Arguments of `card serve`.
#[derive(Debug, clap::Args)]
pub(super) struct ServeArgs {
    /// The card's file
    file: PathBuf,
    /// The Unix socket to listen on; any client that reaches it can read and change everything
    #[arg(long, value_name = "SOCKET")]
    nbd: PathBuf,
    /// Answer when the card would, times this number: 1 for the speed of the card, 4 for a quarter
    /// of it. Without this, answer as fast as possible
    #[arg(long, value_name = "NUMBER", value_parser = pace)]
    pace: Option<f64>,
    /// Write a line for each request to this file, as CSV
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Cut the power after that many pages were written
    #[arg(long, value_name = "PAGES")]
    cut_after: Option<u64>,
    /// Chooses which pages of a volatile cache the cut loses
    #[arg(long, value_name = "NUMBER", default_value_t = 1, requires = "cut_after")]
    cut_seed: u64,
    /// Replace a log that exists
    #[arg(long)]
    force: bool,
}

fn pace(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=1000.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1000".to_owned())
}

/// Serves until a signal comes.
pub(super) fn run(args: &ServeArgs, session: &mut Session) -> Result<(), Failure> {
    let card = Card::open(&args.file).context(args.file.display())?;
    let log = args.log.as_ref().map(|path| log(path, &args.file, args.force)).transpose()?;
    card.arm_cut(args.cut_after.map(|pages| PowerCut { after_pages: pages, seed: args.cut_seed }));
    let server = Server::bind(&args.nbd).context(args.nbd.display())?;
    let stopper = server.stopper();
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            stopper.stop();
        }
    })?;
    session.remark(&format!(
        "{} at nbd+unix:///?socket={}",
        args.file.display(),
        args.nbd.display()
    ));
    let served = Served::new(card, Pace::new(args.pace.unwrap_or(0.0)), log)?;
    let is_quiet = session.options.quiet;
    let refused = |error: std::io::Error| {
        if !is_quiet {
            say(&format!("a connection ended: {error}"));
        }
    };
    let outcome = server.run(&served, &refused).context(args.nbd.display());
    let card = served.finish()?;
    card.sync().context(args.file.display())?;
    report(&card, session);
    outcome
}

fn report(card: &Card, session: &Session) {
    let counters = card.counters();
    let commands =
        text::count(counters.reads + counters.writes, "read or write", "reads and writes");
    let time = seconds(counters.total_ns());
    session.remark(&format!("{commands} since the card was made, {time}"));
    if card.is_off() {
        session.remark("the armed power cut fired; the card now holds its state after the cut");
    }
}

/// Makes the log.
fn log(path: &PathBuf, card: &PathBuf, force: bool) -> Result<File, Failure> {
    let shown = path.display();
    let is_card = std::fs::canonicalize(path).ok() == std::fs::canonicalize(card).ok();
    if path.exists() && (is_card || !force) {
        let failure = Failure::new(format!("{shown}: exists already"));
        return Err(if is_card { failure } else { failure.hint("--force replaces it") });
    }
    File::create(path).context(shown)
}
