//! Random damage of a volume with a known past: nothing panics or hangs, every file that is left is one
//! that the past knew, what is lost is named, and a second run finds nothing to do.
//!
//! `ERASEBLOCK_DAMAGE=FROM..TO` damages that many volumes instead of a few; `cargo xtask damage` runs it.

use crate::volume::*;
use eraseblock_repair::{Level, Part, Plan};
use eraseblock_vfs::{FileSystem, SetAttr, WritableFileSystem};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a block.
const BLOCK: usize = 4096;
/// The most processor time that a repair may take; other programs take part of the time of day.
const LIMIT: Duration = Duration::from_secs(2);

/// A number that looks random.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below.max(1)
    }
}

/// Every version of every block that a file ever had, and the names that it had.
#[derive(Clone, Default)]
struct Past {
    blocks: BTreeMap<(u64, usize), BTreeSet<Vec<u8>>>,
    names: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    /// The files at the end: their inodes, names and content.
    last: BTreeMap<u64, (Vec<u8>, Vec<u8>)>,
    /// Whether the index leads to all of it.
    is_committed: bool,
}

impl Past {
    fn wrote(&mut self, ino: u64, content: &[u8]) {
        for (number, block) in content.chunks(BLOCK).enumerate() {
            let mut block = block.to_vec();
            block.resize(BLOCK, 0);
            self.blocks.entry((ino, number)).or_default().insert(block);
        }
    }

    /// Returns a file that is gone or not whole although the plan names no loss of it.
    fn unnamed_loss(&self, fs: &dyn FileSystem, plan: &Plan) -> Option<String> {
        let losses: Vec<_> = plan.losses().collect();
        // A scan cannot know what an erased LEB held. A LEB of the journal without nodes is like one
        // that nothing was written to.
        let is_unknown = !self.is_committed
            || plan.level() == Some(Level::Rebuild)
            || losses.iter().any(|loss| loss.part == Part::Journal);
        if is_unknown {
            return None;
        }
        for (ino, (path, content)) in &self.last {
            let is_named = losses
                .iter()
                .any(|loss| u64::from(loss.ino) == *ino || loss.path.as_ref() == Some(path));
            let mut held = vec![0; content.len()];
            let is_whole = fs.attr(*ino).is_ok_and(|attr| attr.size == content.len() as u64)
                && fs.read(*ino, 0, &mut held).is_ok()
                && held == *content;
            if !is_named && !is_whole {
                let size = fs.attr(*ino).map(|attr| attr.size);
                return Some(format!(
                    "inode {ino}, {}, is not whole (size {size:?}, expected {}), and no loss of it is named",
                    path.escape_ascii(),
                    content.len()
                ));
            }
        }
        None
    }

    fn named(&mut self, path: &[u8], ino: u64) {
        self.names.entry(path.to_vec()).or_default().insert(ino);
    }

    /// Every block is zeros or a version that was written; every name is one that was given.
    fn explains(&self, fs: &dyn FileSystem) -> Result<(), String> {
        let mut open = vec![(fs.root(), Vec::new())];
        while let Some((dir, path)) = open.pop() {
            for entry in fs.entries(dir).map_err(|error| error.to_string())? {
                let path = [&path[..], b"/", &entry.name].concat();
                let attr = fs.attr(entry.ino).map_err(|error| error.to_string())?;
                let is_found = path.starts_with(b"/lost+found");
                let is_known = self.names.get(&path).is_some_and(|inos| inos.contains(&entry.ino));
                if !is_known && !is_found {
                    return Err(format!("{} never was inode {}", path.escape_ascii(), entry.ino));
                }
                if attr.kind == eraseblock_vfs::FileKind::Directory {
                    open.push((entry.ino, path));
                    continue;
                }
                let mut bytes = vec![0; attr.size as usize];
                fs.read(entry.ino, 0, &mut bytes).map_err(|error| error.to_string())?;
                for (number, block) in bytes.chunks(BLOCK).enumerate() {
                    let is_zero = block.iter().all(|byte| *byte == 0);
                    let versions = self.blocks.get(&(entry.ino, number));
                    let is_known =
                        versions.is_some_and(|all| all.iter().any(|one| one.starts_with(block)));
                    if !is_zero && !is_known {
                        return Err(format!("{} block {number}", path.escape_ascii()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// A volume after some work: files written, cut, renamed and deleted, with commits in between.
fn worked(seed: u64) -> (Arc<Memory>, Past) {
    let volume = empty(50);
    let mut dice = Dice(seed);
    let mut past = Past::default();
    let fs = mount(&volume);
    let dirs: Vec<_> = (0..3)
        .map(|number| {
            let name = format!("d{number}");
            let ino = fs.create(1, name.as_bytes(), &folder(), NOW).unwrap();
            past.named(format!("/{name}").as_bytes(), ino);
            (ino, format!("/{name}"))
        })
        .collect();
    let mut files: Vec<(u64, usize, String)> = Vec::new();
    for step in 0..60_u32 {
        match dice.roll(8) {
            0..4 => {
                let dir = dice.roll(dirs.len());
                let name = format!("f{step}");
                let ino = fs.create(dirs[dir].0, name.as_bytes(), &file(), NOW).unwrap();
                let bytes = content(step, (dice.roll(20_000) + 1) as u32);
                fs.write(ino, 0, &bytes, NOW).unwrap();
                past.wrote(ino, &bytes);
                let path = format!("{}/{name}", dirs[dir].1).into_bytes();
                past.named(&path, ino);
                past.last.insert(ino, (path, bytes));
                files.push((ino, dir, name));
            }
            4 if !files.is_empty() => {
                let at = dice.roll(files.len());
                let (ino, _, _) = files[at];
                let bytes = content(step, 9000);
                fs.set_attr(ino, &SetAttr { size: Some(0), ..SetAttr::default() }, NOW).unwrap();
                fs.write(ino, 0, &bytes, NOW).unwrap();
                past.wrote(ino, &bytes);
                past.last.entry(ino).and_modify(|(_, held)| *held = bytes);
            }
            5 if !files.is_empty() => {
                let (ino, dir, name) = files.remove(dice.roll(files.len()));
                past.last.remove(&ino);
                fs.unlink(dirs[dir].0, name.as_bytes(), NOW).unwrap();
            }
            6 => fs.sync().unwrap(),
            _ => {}
        }
    }
    if seed % 3 == 2 {
        fs.unmount().unwrap();
        return (volume, past);
    }
    // Some volumes are not unmounted, and some are mounted once more, which commits all of the journal.
    fs.sync().unwrap();
    drop(fs);
    past.is_committed = seed % 3 == 1;
    if past.is_committed {
        mount(&volume).unmount().unwrap();
    }
    (volume, past)
}

/// Whether damage may have right checksums: such a node looks like one of the past.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sums {
    Wrong,
    Redone,
}

/// Damages a volume in one to four ways.
fn damage(volume: &Memory, dice: &mut Dice, sums: Sums) {
    for _ in 0..=dice.roll(4) {
        let nodes = volume.nodes();
        if nodes.is_empty() {
            return;
        }
        let node = nodes[dice.roll(nodes.len())];
        match dice.roll(6) {
            0 => volume.tear(node, dice.roll(node.len)),
            1 if sums == Sums::Redone => {
                let offset = 24 + dice.roll(node.len - 24);
                let byte = volume.bytes(node.leb)[node.at + offset] ^ (1 << dice.roll(8));
                volume.set(node, offset, &[byte]);
            }
            2 => volume.erase(dice.roll(50)),
            3 => {
                let bytes = volume.bytes(dice.roll(50));
                volume.put(dice.roll(50), 0, &bytes);
            }
            1 | 4 => volume.put(node.leb, node.at, &[dice.roll(256) as u8; 64][..node.len.min(64)]),
            _ => {
                let at = dice.roll(LEB / 8) * 8;
                volume.put(node.leb, at, &[0x31, 0x18, 0x10, 0x06]);
            }
        }
    }
}

/// What a campaign has seen.
#[derive(Default)]
struct Tally {
    /// Volumes by the level of their plan; `None` is an empty plan.
    levels: BTreeMap<Option<Level>, usize>,
    /// A refusal leaves the image as it was: the net below the rules, not a rule.
    refused: Vec<String>,
    failed: Vec<String>,
    slowest: Duration,
}

/// Volumes after some work, the last one kept: eight damages in a row are of the same one.
#[derive(Default)]
struct Shelf(Option<Kept>);

/// The seed of a volume, its LEBs and its past.
type Kept = (u64, Vec<Option<Vec<u8>>>, Past);

impl Shelf {
    fn take(&mut self, seed: u64) -> (Arc<Memory>, &Past) {
        if self.0.as_ref().is_none_or(|(kept, ..)| *kept != seed) {
            let (volume, past) = worked(seed);
            self.0 = Some((seed, volume.snapshot(), past));
        }
        let (_, lebs, past) = self.0.as_ref().expect("it was made above");
        (Memory::of(lebs.clone()), past)
    }
}

/// Damages one volume and repairs it; returns the level of the plan, or why it was refused.
fn one(
    seed: u64,
    volume: &Arc<Memory>,
    past: &Past,
    sums: Sums,
) -> Result<Result<Option<Level>, String>, String> {
    let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    damage(volume, &mut dice, sums);
    let repair = match examined(volume) {
        Ok(repair) => repair,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let plan = repair.plan();
    let lines: Vec<_> = plan.actions().iter().map(eraseblock_repair::Action::line).collect();
    repair.apply(&**volume).map_err(|error| error.to_string())?;
    let second = examined(volume).map_err(|error| format!("second run: {error}: {lines:#?}"))?;
    if !second.plan().is_empty() {
        return Err(format!("second run: {:?}", second.plan()));
    }
    if sums == Sums::Wrong {
        let fs = opened(volume);
        past.explains(&fs).map_err(|error| format!("{error}: {lines:#?}"))?;
        if let Some(loss) = past.unnamed_loss(&fs, plan) {
            return Err(format!("{loss}: {lines:#?}"));
        }
    }
    Ok(Ok(plan.level()))
}

#[expect(clippy::print_stdout, reason = "the figures of a campaign")]
fn campaign(seeds: Range<u64>, sums: Sums) {
    let seeds = asked_for().unwrap_or(seeds);
    let count = seeds.clone().count();
    let (mut tally, mut shelf) = (Tally::default(), Shelf::default());
    for seed in seeds {
        let (volume, past) = shelf.take(seed / 8);
        let started = processor_time();
        let outcome = catch_unwind(AssertUnwindSafe(|| one(seed, &volume, past, sums)));
        let took = processor_time().saturating_sub(started);
        tally.slowest = tally.slowest.max(took);
        if took > LIMIT {
            tally.failed.push(format!("{seed}: {took:?}"));
        }
        match outcome {
            Ok(Ok(Ok(level))) => *tally.levels.entry(level).or_default() += 1,
            Ok(Ok(Err(refusal))) => tally.refused.push(format!("{seed}: {refusal}")),
            Ok(Err(failure)) => tally.failed.push(format!("{seed}: {failure}")),
            Err(_) => tally.failed.push(format!("{seed}: panic")),
        }
        if seed % 1000 == 999 {
            println!("{seed}: {} failed, {} refused", tally.failed.len(), tally.refused.len());
        }
    }
    let Tally { levels, refused, failed, slowest } = tally;
    let sum = |level: Option<Level>| levels.get(&level).copied().unwrap_or_default();
    println!(
        "{count} volumes: {} safe, {} drop, {} rebuild, {} with nothing to do, {} refused, {} \
         failed; slowest {slowest:?}",
        sum(Some(Level::Safe)),
        sum(Some(Level::Drop)),
        sum(Some(Level::Rebuild)),
        sum(None),
        refused.len(),
        failed.len(),
    );
    assert!(failed.is_empty(), "{failed:#?}");
    assert!(refused.len() * 50 <= count, "{} of {count} refused: {refused:#?}", refused.len());
    assert!(sum(None) * 2 < count, "{} of {count} needed no repair", sum(None));
}

/// Returns the processor time of this thread; zero on a system that does not say.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next().and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(first.unwrap_or_default())
}

/// Returns the seeds in the environment.
fn asked_for() -> Option<Range<u64>> {
    let text = std::env::var("ERASEBLOCK_DAMAGE").ok()?;
    let (from, to) = text.split_once("..").expect("FROM..TO");
    Some(from.parse().expect("a number")..to.parse().expect("a number"))
}

#[test]
fn damage_that_checksums_show() {
    campaign(0..200, Sums::Wrong);
}

#[test]
fn damage_with_right_checksums() {
    campaign(1000..1200, Sums::Redone);
}
