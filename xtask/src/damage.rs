//! `cargo xtask damage`: damages UBIFS volumes with a known past at random, and repairs them.
//!
//! The campaign is a test of the crate `repair`, which damages a few volumes; this runs it with as many
//! as wanted, half of them with right checksums.

use crate::command;
use anyhow::{Context, Result, ensure};

/// Runs `--count N` (default 100,000) volumes, or part `I` of `N` of them with `--shard I/N`.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let option =
        |name: &str| args.iter().position(|arg| arg == name).and_then(|index| args.get(index + 1));
    let count: u64 = option("--count").map_or(Ok(100_000), |text| text.parse())?;
    let (part, parts) = option("--shard").map_or(Ok((1, 1)), |text| shard(text))?;
    let start = |part: u64| count / 2 * part / parts;
    let status = command::cargo()
        .args(["test", "-p", "eraseblock-repair", "--test", "it", "campaign"])
        .args(["--", "--nocapture", "--test-threads=1"])
        .env("ERASEBLOCK_DAMAGE", format!("{}..{}", start(part - 1), start(part)))
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}

/// Reads `I/N`.
fn shard(text: &str) -> Result<(u64, u64)> {
    let (part, parts) = text.split_once('/').context("--shard: expected I/N")?;
    let (part, parts) = (part.parse()?, parts.parse()?);
    ensure!((1..=parts).contains(&part), "--shard {text}: expected I from 1 to N");
    Ok((part, parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_counted_from_one() {
        assert_eq!(shard("2/3").unwrap(), (2, 3));
        for wrong in ["0/3", "4/3", "3", "a/b"] {
            assert!(shard(wrong).is_err(), "{wrong}");
        }
    }
}
