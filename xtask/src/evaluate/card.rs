//! Simulated SD cards: tables of measured cards against the model, our own flash on a block device
//! on a card, and flashbench, which must find the sizes of our cards by itself.

mod flashbench;
mod measured;
mod ours;
mod served;
mod stranger;

use crate::oracle::{Checks, machine, our_command};
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
    for peb_size in ours::PEB_SIZES {
        let name = format!("ours/ubifs-{}k", peb_size >> 10);
        checks.record(&name, ours::run(peb_size));
    }
    if !only_tables {
        let ours = our_command(ours.as_deref(), &["flashbench".to_owned()])?;
        let (guest, paths) = machine(ours, false)?;
        stranger::run(&guest, &paths, &mut checks)?;
    }
    Ok(checks.finish())
}
