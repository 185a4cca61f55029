//! `cargo xtask damage`: damages UBIFS, UBI and JFFS2 with a known past at random, and repairs them; or
//! images of every format, which `disasm` and `asm` must make again.
//!
//! The campaigns are tests of `repair` and `cli`, which damage a few; this runs them with as many as
//! wanted. With `--linux`, real Linux judges the repaired images.

mod linux;
mod peer;

use crate::command;
use anyhow::{Context, Result, ensure};
use std::path::PathBuf;

/// A test that takes a range of numbers from the environment.
struct Campaign {
    package: &'static str,
    test: &'static str,
    variable: &'static str,
    /// Cases for each number.
    each: u64,
}

/// UBIFS with wrong and with right checksums, UBI, JFFS2.
const REPAIR: Campaign = Campaign {
    package: "eraseblock-repair",
    test: "campaign",
    variable: "ERASEBLOCK_DAMAGE",
    each: 4,
};

const ASM: Campaign = Campaign {
    package: "eraseblock-cli",
    test: "damaged_images_are_assembled_to_the_same_damage",
    variable: "ERASEBLOCK_ASM",
    each: 7,
};

/// Runs at least `--count N` (default 100,000) cases, or part `I` of `N` of them with `--shard I/N`; with
/// `--asm` those of `disasm` and `asm`. With `--linux`, real Linux mounts what was repaired (400 images
/// unless `--count` says another number; `--only NAME,NAME` selects some of them), and `fsck.ubifs` in the
/// folder `--peer` repairs the images of the damage scripts.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let option =
        |name: &str| args.iter().position(|arg| arg == name).and_then(|index| args.get(index + 1));
    if args.iter().any(|arg| arg == "--linux") {
        let count = option("--count").map_or(Ok(400), |text| text.parse::<u64>())?;
        let path = |name| option(name).map(PathBuf::from);
        let count = count.div_ceil(REPAIR.each);
        let only = option("--only").map(|names| names.split(',').map(str::to_owned).collect());
        let only = only.unwrap_or_default();
        let (peer, ours) = (path("--peer"), path("--bin"));
        return linux::run(&linux::Request { count, only, peer, ours });
    }
    let campaign = if args.iter().any(|arg| arg == "--asm") { ASM } else { REPAIR };
    let count: u64 = option("--count").map_or(Ok(100_000), |text| text.parse())?;
    let (part, parts) = option("--shard").map_or(Ok((1, 1)), |text| shard(text))?;
    let start = |part: u64| count.div_ceil(campaign.each) * part / parts;
    let status = command::cargo()
        .args(["test", "-p", campaign.package, "--test", "it", campaign.test])
        .args(["--", "--nocapture", "--test-threads=1"])
        .env(campaign.variable, format!("{}..{}", start(part - 1), start(part)))
        .status()
        .context("cannot run cargo")?;
    Ok(status.success())
}

/// Reads `I/N`.
fn shard(text: &str) -> Result<(u64, u64)> {
    let (part, parts) = text.split_once('/').context("--shard: expected I/N")?;
    let (part, parts): (u64, u64) = (part.parse()?, parts.parse()?);
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
