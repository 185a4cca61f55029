//! `cargo xtask evaluate`: published measurements against our models, our file systems and those of
//! real Linux. A module for each subject, and a report of everything.

mod card;
mod cuts;
mod disk;
mod kept;
mod lab;
mod manifest;
mod nand;
mod page;
mod report;
mod rows;
mod whole;

use anyhow::Result;
use report::Words;

/// Runs one subject or all; returns false if a check failed.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    match args.split_first() {
        Some((subject, rest)) if subject == "card" => card::run(rest),
        Some((subject, rest)) if subject == "cuts" => cuts::run(rest),
        Some((subject, rest)) if subject == "disk" => disk::run(rest),
        Some((subject, rest)) if subject == "nand" => nand::run(rest),
        _ => whole::run(args),
    }
}

/// Returns a SHA-256 as text.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    kept::hex(&sha2::Sha256::digest(bytes))
}

/// Returns the words of a table.
fn words(table: &str) -> Words {
    let titles = [card::title(table), cuts::title(table), disk::title(table), nand::title(table)];
    let title = titles.into_iter().find(|title| !title.is_empty()).unwrap_or_default();
    let note = [card::note(table), cuts::note(table), disk::note(table)].concat();
    Words { title, note }
}
