//! `cargo xtask evaluate`: published measurements against our models and file systems, and our models
//! as strangers measure them in real Linux. A module for each subject.

mod card;
mod nand;

use anyhow::{Result, bail};

/// Runs one subject; returns false if a claim does not hold.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    match args.split_first() {
        Some((subject, rest)) if subject == "card" => card::run(rest),
        Some((subject, rest)) if subject == "nand" => nand::run(rest),
        _ => bail!("evaluate needs a subject: card or nand"),
    }
}
