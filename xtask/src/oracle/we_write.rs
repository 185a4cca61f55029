//! `we-write-ubifs` and `we-write-jffs2`: we and real Linux write one file system alternately, and
//! both are cut off.
//!
//! In each round we perform random operations on a simulated chip, which end in an unmount or in a
//! power cut at any flash event. Linux mounts the chip, UBIFS with its self-checks on, and must
//! list what we see in it. Then it writes itself, and our next round starts from its unmounted or
//! cut-off chip: we must see in it what Linux sees, and find nothing wrong.
//!
//! Host and guest exchange the chip through the directory of the case: `ours-N` and `linux-N` are
//! images, `done-N` means that Linux has finished round N, `stop` that it may stop.

use crate::guest::{Guest, complaints};
use crate::oracle::batch::{Batch, BatchCase};
use crate::oracle::compare::{Ignore, differences, summary};
use crate::oracle::{Checks, Paths};
use crate::turns::{NAND_2K, NAND_512, NOR, OurChip, Played, Shape};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reported for every small partition of a large chip.
const SMALL_RESERVE: &str = "cannot reserve enough PEBs for bad PEB handling";
/// Reported for a node of the log or of the orphans that a power cut tore, which is then recovered.
/// In other places the kernel reports more, which is not allowed.
const TORN_QUIETLY: &str = "ubifs_scan [ubifs]: bad node";
/// Reported for a JFFS2 that was cut: torn nodes, interrupted erases, and a directory with two
/// names, whose rename either side interrupted. The list of Linux shows the result, which must
/// equal ours.
const TORN: [&str; 5] =
    ["CRC failed", "crc error", "Not enough space", "Empty flash", "is also hard linked from dir"];

/// One file system in all its cases.
#[derive(Clone, Copy, Debug)]
struct Game {
    name: &'static str,
    /// Number of turns of each side.
    rounds: u32,
    script: &'static str,
    /// Allowed kernel messages.
    allowed: &'static [&'static str],
    cases: &'static [Case],
}

#[derive(Debug)]
struct Case {
    name: &'static str,
    flash: &'static Flash,
    played: Played,
}

#[derive(Debug)]
struct Flash {
    /// Shell function and arguments that load the same chip in the guest.
    load: &'static str,
    shape: Shape,
}

const NAND_2K_FLASH: Flash = Flash { load: "load_nand 0x20,0xa1,0x00,0x15 64", shape: NAND_2K };
const NAND_512_FLASH: Flash = Flash { load: "load_nand 0x98,0x76 384", shape: NAND_512 };
const NOR_FLASH: Flash = Flash { load: "load_nor 6144 64", shape: NOR };

const GAMES: [Game; 2] = [
    Game {
        name: "we-write-ubifs",
        rounds: 10,
        script: include_str!("../../guest/ping-pong.sh"),
        allowed: &[SMALL_RESERVE, TORN_QUIETLY],
        cases: &UBIFS,
    },
    Game {
        name: "we-write-jffs2",
        rounds: 10,
        script: include_str!("../../guest/ping-pong-jffs2.sh"),
        allowed: &TORN,
        cases: &JFFS2,
    },
];

const UBIFS: [Case; 3] = [
    Case { name: "nand2k-lzo", flash: &NAND_2K_FLASH, played: Played::Ubifs { compressor: "lzo" } },
    Case {
        name: "nand512-zstd",
        flash: &NAND_512_FLASH,
        played: Played::Ubifs { compressor: "zstd" },
    },
    Case { name: "nor-none", flash: &NOR_FLASH, played: Played::Ubifs { compressor: "none" } },
];

const JFFS2: [Case; 6] = [
    Case {
        name: "nand2k-with-oob",
        flash: &NAND_2K_FLASH,
        played: Played::Jffs2 { summary: false, oob: true },
    },
    Case {
        name: "nand512-with-oob",
        flash: &NAND_512_FLASH,
        played: Played::Jffs2 { summary: true, oob: true },
    },
    Case {
        name: "nand2k",
        flash: &NAND_2K_FLASH,
        played: Played::Jffs2 { summary: true, oob: false },
    },
    Case {
        name: "nand512",
        flash: &NAND_512_FLASH,
        played: Played::Jffs2 { summary: true, oob: false },
    },
    Case { name: "nor", flash: &NOR_FLASH, played: Played::Jffs2 { summary: true, oob: false } },
    Case {
        name: "nor-without-summary",
        flash: &NOR_FLASH,
        played: Played::Jffs2 { summary: false, oob: false },
    },
];

/// Names of all checks.
pub(crate) fn names() -> Vec<String> {
    let of_game = |game: &Game| -> Vec<String> {
        game.cases.iter().map(|case| check_name(game, case)).collect()
    };
    GAMES.iter().flat_map(of_game).collect()
}

fn check_name(game: &Game, case: &Case) -> String {
    format!("{}/{}", game.name, case.name)
}

/// Plays all requested cases, one boot for each file system, and at most `most` rounds of each.
pub(crate) fn run(guest: &Guest, paths: &Paths, most: u32, checks: &mut Checks) -> Result<()> {
    GAMES.iter().try_for_each(|game| {
        let game = Game { rounds: game.rounds.min(most), ..*game };
        play(&game, guest, paths, checks)
    })
}

fn play(game: &Game, guest: &Guest, paths: &Paths, checks: &mut Checks) -> Result<()> {
    let is_wanted = |case: &&Case| checks.wants(&check_name(game, case));
    let wanted: Vec<&Case> = game.cases.iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let batch_cases: Vec<BatchCase> = wanted.iter().map(|case| batch_case(game, case)).collect();
    let dir = paths.work.join(game.name);
    // Files of an earlier run must not be taken for those of this one.
    let _ = fs::remove_dir_all(&dir);
    let is_over = AtomicBool::new(false);
    let (batch, played) = std::thread::scope(|scope| {
        let host = scope.spawn(|| {
            let player = |case| Player { game, case, dir: dir.join(case.name), is_over: &is_over };
            wanted.iter().map(|case| player(*case).play()).collect::<Vec<_>>()
        });
        let batch = Batch::run(guest, paths, game.name, &[], &batch_cases);
        is_over.store(true, Ordering::Relaxed);
        (batch, host.join())
    });
    let batch = batch?;
    let Ok(played) = played else { bail!("our side panicked") };
    println!("      {}: {:.1} s in the guest", game.name, batch.seconds());
    for (case, played) in wanted.into_iter().zip(played) {
        let outcome = played.and_then(|()| batch.case_dir(case.name).map(drop));
        checks.record(&check_name(game, case), outcome);
    }
    paths.finish(batch)
}

/// Returns the number of turns of each side. Chips with out-of-band areas are slow.
fn rounds(game: &Game, case: &Case) -> u32 {
    if case.played.has_oob() { game.rounds.div_ceil(2) } else { game.rounds }
}

fn batch_case(game: &Game, case: &Case) -> BatchCase {
    let mut variables =
        vec![("LOAD", case.flash.load.to_owned()), ("ROUNDS", rounds(game, case).to_string())];
    if case.played.has_oob() {
        variables.push(("OOB", "1".to_owned()));
    }
    if let Played::Ubifs { compressor } = case.played {
        variables.push(("COMPRESSOR", compressor.to_owned()));
    }
    let name = case.name.to_owned();
    BatchCase { name, script: game.script, variables, files: Vec::new() }
}

/// Our side of a case.
struct Player<'a> {
    game: &'a Game,
    case: &'a Case,
    dir: PathBuf,
    is_over: &'a AtomicBool,
}

impl Player<'_> {
    fn play(&self) -> Result<()> {
        let played = self.rounds();
        if played.is_err() && self.dir.exists() {
            fs::write(self.dir.join("stop"), "")?;
        }
        played
    }

    fn rounds(&self) -> Result<()> {
        let mut chip = OurChip::new(self.case.flash.shape, self.case.played)?;
        self.wait_for(&self.dir.join("case.sh"))?;
        for round in 1..=rounds(self.game, self.case) {
            let turn = chip.work(round).with_context(|| format!("round {round}, our turn"));
            let (how, expected) = turn?;
            let image = self.dir.join(format!("ours-{round}"));
            if self.case.played.has_oob() {
                fs::write(self.file("tagged", round), chip.tagged()?)?;
            }
            // An existing image must be complete.
            let partly = self.dir.join("partly");
            fs::write(&partly, chip.image()?)?;
            fs::rename(partly, &image)?;
            self.wait_for(&self.dir.join(format!("done-{round}")))?;
            self.judge(round, &expected).with_context(|| format!("round {round}, {how}"))?;
            if self.case.played.has_oob() {
                let idle = fs::read(self.file("idle", round))?;
                chip.judge_markers(&idle).with_context(|| format!("round {round}, {how}"))?;
                fs::remove_file(self.file("idle", round))?;
            }
            let image_of_linux = fs::read(self.file("linux", round))?;
            chip = OurChip::of_image(self.case.flash.shape, self.case.played, &image_of_linux)?;
            let listed = fs::read_to_string(self.file("left", round))?;
            chip.hold_against(&listed).with_context(|| format!("round {round}, Linux's turn"))?;
            fs::remove_file(image)?;
        }
        Ok(())
    }

    fn file(&self, name: &str, round: u32) -> PathBuf {
        self.dir.join(format!("{name}-{round}"))
    }

    fn wait_for(&self, path: &Path) -> Result<()> {
        while !path.exists() {
            if self.is_over.load(Ordering::Relaxed) || self.dir.join("status").exists() {
                let output = fs::read_to_string(self.dir.join("output")).unwrap_or_default();
                bail!("Linux gave up:\n{}", output.trim());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Compares what Linux found in our image, and its messages about both images.
    fn judge(&self, round: u32, expected: &str) -> Result<()> {
        let found = fs::read_to_string(self.file("found", round))?;
        let differences = differences(expected, &found, Ignore::Nothing);
        ensure!(differences.is_empty(), "{}", summary(&differences));
        let log = String::from_utf8_lossy(&fs::read(self.file("dmesg", round))?).into_owned();
        let complaints = complaints(&log, self.game.allowed);
        ensure!(complaints.is_empty(), "the kernel complains: {}", complaints.join("; "));
        Ok(())
    }
}
