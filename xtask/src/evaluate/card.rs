//! Simulated SD cards: tables of measured cards against the model, our own flash on a block device
//! on a card, and flashbench, which must find the sizes of our cards by itself.

mod flashbench;
mod measured;
pub(super) mod ours;
pub(super) mod served;
mod stranger;

use super::kept::Trust;
use super::lab::Lab;
use super::rows::{self, Row};
use crate::oracle::{Checks, our_command};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// `cargo xtask evaluate card`.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let (mut ours, mut only_tables) = (None, false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--tables" => only_tables = true,
            "--bin" => ours = Some(PathBuf::from(rest.next().context("--bin needs a value")?)),
            other => bail!("unknown argument {other}"),
        }
    }
    let mut checks = Checks::default();
    for table in measured::tables() {
        println!("{}", table.text());
        checks.record(&format!("measured/{}", table.name), table.judge());
    }
    let mut found = Vec::new();
    for peb_size in ours::PEB_SIZES {
        let rows = ours::rows(peb_size);
        checks.record(
            &format!("ours/ubifs-{}k", peb_size >> 10),
            rows.map(|rows| found.extend(rows)),
        );
    }
    print!("{}", rows::to_text(&found, title));
    if !only_tables {
        let ours = our_command(ours.as_deref(), &["flashbench".to_owned()])?;
        let mut lab = Lab::new(ours, Trust::Fresh)?;
        stranger::run(&mut lab, &mut checks)?;
    }
    Ok(checks.finish())
}

/// Returns the rows that need no guest: measured cards against the model, and UBIFS on a card.
pub(super) fn rows() -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = measured::tables().iter().flat_map(measured::Table::rows).collect();
    for peb_size in ours::PEB_SIZES {
        rows.extend(ours::rows(peb_size)?);
    }
    Ok(rows)
}

/// Returns the rows of flashbench in real Linux.
pub(super) fn stranger(lab: &mut Lab, checks: &mut Checks) -> Result<Vec<Row>> {
    stranger::run(lab, checks)
}

/// Returns the title of a table.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "C1" => "a card that flashbench measures in real Linux",
        "C2" => "measured cards and the model",
        "U1" => "UBIFS on a card, in process",
        _ => "",
    }
}

/// Returns what a reader of a table must know.
pub(super) fn note(table: &str) -> String {
    match table {
        "C1" => {
            "Debian's flashbench measures simulated cards that QEMU attaches over NBD. It knows nothing of them: the \
             Linux column is what its output alone shows, ours is the parameter or the rate of the model. 1 MB is \
             1,000,000 bytes in rates."
        }
        "C2" => {
            "Published measurements of cards against the model. Fitted rows chose a parameter of the preset; the \
             others are predictions."
        }
        "U1" => {
            "UBIFS on our flash on a block device on a simulated card: what each step costs the card. Caches \
             are cold after each mount."
        }
        _ => "",
    }
    .to_owned()
}
