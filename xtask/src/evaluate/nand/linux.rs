//! The Linux column: the same steps in real Linux, on its own simulated chip.
//!
//! Counts are those of the functions of the kernel that do the operations; chips of both sides have
//! the same geometry. Time is not measured: the guest is emulated.

use super::bootlin::{self, FITS, OVERHEAD};
use super::flash::System;
use super::fujitsu;
use super::recorded;
use super::steps;
use super::toshiba;
use super::tree;
use crate::bench::ubifs_rw::Entry;
use crate::command;
use crate::evaluate::lab::Lab;
use crate::evaluate::rows::{Cell, Row};
use crate::oracle::Checks;
use crate::oracle::batch::BatchCase;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const SCRIPT: &str = include_str!("../../../guest/evaluate-nand.sh");
/// The identification bytes of the chips.
const LARGE: &str = "0xec,0xda,0x10,0x95";
const SMALL: &str = "0x98,0x76";
/// Blocks in 1024 of the chip that `ubiattach -b` asks for, to get the published reserve.
const SMALL_BEB: u32 = 5;
/// The most bytes of the tree that fills a very small partition.
const ENOUGH: u64 = 20 << 20;

/// A cell of the Linux column: table, row, system, medium, metric.
type Place = [String; 5];
type Values = BTreeMap<Place, Cell>;

/// Operations of the chip up to a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Count {
    reads: u64,
    programs: u64,
    erases: u64,
}

impl std::ops::Add for Count {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            programs: self.programs + other.programs,
            erases: self.erases + other.erases,
        }
    }
}

/// The systems that Linux has, by the script's names.
const SYSTEMS: [(System, &str); 3] =
    [(System::Jffs2, "jffs2"), (System::Ubifs, "ubifs"), (System::UbifsNoz, "ubifs-noz")];

/// Returns the value of `ubiattach -b` that reserves this many blocks of the chip of the tables BL.
pub(super) const fn beb(reserve: u32) -> u32 {
    reserve / 2
}

/// Fills in the column, and compares what must be equal.
pub(super) fn run(
    lab: &mut Lab,
    rows: &mut [Row],
    tables: &[&str],
    partitions: &[u32],
) -> Result<Checks> {
    let work = tempfile::tempdir()?;
    let mut column = Column { lab, checks: Checks::default(), values: Values::new() };
    if tables.iter().any(|table| table.starts_with('T')) {
        column.collect(
            "small-page",
            &[case("small-page", "small", SMALL, 2048, SMALL_BEB, "ubifs")],
            &small_page,
        );
    }
    if tables.contains(&"BL9") {
        column.collect("overhead", &overhead_cases(), &overhead);
        column.collect("fits", &fits_cases(work.path())?, &fits);
    }
    if tables.contains(&"BL8") {
        column.record("favour", favour(work.path()));
    }
    if tables.contains(&"F5") {
        column.collect("files", &files_cases(work.path())?, &files);
    }
    if tables.contains(&"R1") {
        column.collect("recorded", &recorded_cases(&column.lab.paths.ours), &recorded);
    }
    let needs_steps = |table: &&str| table.starts_with("BL") && bootlin::needs_runs(table);
    for medium in partitions.iter().filter(|_| tables.iter().any(needs_steps)) {
        let entries = steps::entries(*medium, 8);
        let tar = archive(&entries, work.path(), &format!("tree{medium}"))?;
        for (system, name) in SYSTEMS {
            let label = format!("{name}-{medium}");
            let beb = beb(steps::reserve_2008(medium * 8));
            let mut one = case(&label, "steps", LARGE, medium * 8, beb, name);
            one.files = vec![("tree.tar", tar.clone())];
            column.collect(&label, &[one], &|_, dir| step_values(system, *medium, dir));
        }
        if tables.contains(&"BL7") {
            column.collect(&format!("random-{medium}"), &random_cases(*medium), &random);
        }
    }
    fill(rows, &column.values);
    for (what, outcome) in compare(rows) {
        column.checks.record(&what, outcome);
    }
    Ok(column.checks)
}

/// Returns the cells of a case from what it wrote into its directory.
type Reader<'a> = &'a dyn Fn(&str, &Path) -> Result<Values>;

/// The column as far as it was measured.
struct Column<'a> {
    lab: &'a mut Lab,
    checks: Checks,
    values: Values,
}

impl Column<'_> {
    fn record(&mut self, name: &str, outcome: Result<Values>) {
        let outcome = outcome.map(|found| self.values.extend(found));
        self.checks.record(&format!("linux/{name}"), outcome);
    }

    fn collect(&mut self, name: &str, cases: &[BatchCase], read: Reader<'_>) {
        let outcome = collect(self.lab, name, cases, read);
        self.record(name, outcome);
    }
}

fn collect(lab: &mut Lab, name: &str, cases: &[BatchCase], read: Reader<'_>) -> Result<Values> {
    let part = lab.batch(&format!("nand-{name}"), cases)?;
    let mut values = Values::new();
    for case in cases {
        values.extend(read(&case.name, &part.folder.join(&case.name))?);
    }
    Ok(values)
}

fn case(name: &str, mode: &str, id: &str, pebs: u32, beb: u32, system: &str) -> BatchCase {
    BatchCase {
        name: name.to_owned(),
        script: SCRIPT,
        variables: vec![
            ("MODE", mode.to_owned()),
            ("ID", id.to_owned()),
            ("PEBS", pebs.to_string()),
            ("BEB", beb.to_string()),
            ("SYSTEM", system.to_owned()),
        ],
        files: Vec::new(),
    }
}

/// Returns the tree as an archive.
pub(in crate::evaluate) fn archive(entries: &[Entry], work: &Path, name: &str) -> Result<PathBuf> {
    let (dir, tar) = (work.join(name), work.join(format!("{name}.tar")));
    fs::create_dir(&dir)?;
    tree::to_host(entries, &dir)?;
    let (from, to) = (dir.to_string_lossy(), tar.to_string_lossy());
    // The order of a directory is that of the host otherwise, and what is kept would never be taken.
    let owner = ["--sort=name", "--owner=0", "--group=0", "--format=gnu", "--mtime=@1700000000"];
    let words = [&owner[..], &["-C", from.as_ref(), "-cf", to.as_ref(), "."]].concat();
    command::run("tar", words)?;
    fs::remove_dir_all(&dir)?;
    Ok(tar)
}

fn place(table: &str, row: &str, system: &str, medium: &str, metric: &str) -> Place {
    [table, row, system, medium, metric].map(str::to_owned)
}

/// The images of table BL8 by mkfs.ubifs.
fn favour(work: &Path) -> Result<Values> {
    let tree = work.join("favour");
    fs::create_dir(&tree)?;
    tree::to_host(&steps::entries(bootlin::PARTITIONS[0], bootlin::PARTITIONS[0]), &tree)?;
    let flash = steps::partition(bootlin::PARTITIONS[0])?;
    let page = flash.layout.min_io();
    let sizes = [page, flash.layout.leb_size(), flash.blocks()].map(|size| size.to_string());
    let image = work.join("favour.ubifs");
    let (from, to) = (tree.to_string_lossy(), image.to_string_lossy());
    let mut pages = Vec::new();
    for compressor in [&["-x", "lzo"][..], &["-x", "favor_lzo", "-X", bootlin::FAVOUR]] {
        let place =
            ["-r", from.as_ref(), "-o", to.as_ref(), "-m", &sizes[0], "-e", &sizes[1], "-c"];
        let words = [&place[..], &[&sizes[2]], compressor].concat();
        command::run("mkfs.ubifs", words)?;
        let bytes = fs::read(&image)?;
        let is_used = |page: &&[u8]| page.iter().any(|byte| *byte != 0xFF);
        pages.push(bytes.chunks(usize::try_from(page)?).filter(is_used).count() as u64);
    }
    fs::remove_dir_all(&tree)?;
    let row = |what: &str, metric: &str| place("BL8", what, "ubifs", "8 MiB", metric);
    let [lzo, both] = pages[..] else { bail!("mkfs.ubifs made {} images", pages.len()) };
    let claim = "claim: only lzo makes at most 1 % of a difference";
    Ok(Values::from([
        (row("image, only lzo", "pages"), lzo.into()),
        (row("image, lzo and zlib", "pages"), both.into()),
        (row(claim, "pages"), bootlin::percent(lzo, both).into()),
    ]))
}

fn random_cases(medium: u32) -> Vec<BatchCase> {
    let chunks = steps::content(medium) >> 20;
    let beb = beb(steps::reserve_2008(medium * 8));
    let one = |(_, name): (System, &str)| {
        let label = format!("{name}-{medium}");
        let mut one = case(&label, "random", LARGE, medium * 8, beb, name);
        one.variables.push(("CHUNKS", chunks.to_string()));
        one
    };
    SYSTEMS.map(one).into()
}

/// Random chunks: as many as fit, each followed by a sync.
fn random(name: &str, dir: &Path) -> Result<Values> {
    let (system, medium) = name.rsplit_once('-').context("a case of random chunks")?;
    let system = SYSTEMS.iter().find(|(_, name)| *name == system).context("a system")?.0.name();
    let medium = format!("{medium} MiB");
    let [chunks] = numbers(&values_of(dir)?, "chunks")?[..] else {
        bail!("Linux wrote no number of chunks")
    };
    let cost = between(dir, "begin", &format!("chunk{chunks}"))?;
    let row = |metric: &str| place("BL7", "random write", system, &medium, metric);
    let mut values = Values::from([(row("chunks of 1 MiB"), chunks.into())]);
    values.extend(count_cells(cost).map(|(metric, value)| (row(metric), value)));
    Ok(values)
}

/// The files of table F5 that a guest can make in a minute.
fn files_cases(work: &Path) -> Result<Vec<BatchCase>> {
    let content = work.join("content");
    fs::write(&content, fujitsu::content())?;
    let blocks = steps::chip()?.geometry().peb_count();
    let [files, _] = fujitsu::FILES;
    let one = |name: &str| {
        let beb = beb(steps::reserve_2008(blocks));
        let mut one = case(&format!("{name}-{files}"), "files", LARGE, blocks, beb, name);
        let more = [("FILES", files), ("PER_DIR", fujitsu::PER_DIR)];
        one.variables.extend(more.map(|(name, value)| (name, value.to_string())));
        one.files = vec![("content", content.clone())];
        one
    };
    Ok(["jffs2", "ubifs"].map(one).into())
}

fn files(name: &str, dir: &Path) -> Result<Values> {
    let (system, files) = name.split_once('-').context("a case of many files")?;
    let mut cost = between(dir, "unmounted", "mounted")?;
    if system != "jffs2" {
        cost = cost + between(dir, "detached", "attached")?;
    }
    let row = format!("mount, {files} files");
    let key = place("F5", &row, system, "256 MiB", "page reads");
    Ok(Values::from([(key, cost.reads.into())]))
}

/// Recordings, replayed by our command in a file system of the guest.
fn recorded_cases(ours: &Path) -> Vec<BatchCase> {
    let mut cases = Vec::new();
    let beb = beb(steps::reserve_2008(recorded::MEDIUM * 8));
    for system in recorded::SYSTEMS {
        for (name, times) in recorded::RECORDINGS {
            let label = format!("{}-{name}", system.name());
            let blocks = recorded::MEDIUM * 8;
            let mut one = case(&label, "recorded", LARGE, blocks, beb, system.name());
            one.variables.push(("TIMES", times.to_string()));
            let files = [("eraseblock", ours.to_owned()), ("app.ops", recorded::path(name))];
            one.files = files.into();
            cases.push(one);
        }
    }
    cases
}

fn recorded(name: &str, dir: &Path) -> Result<Values> {
    let (system, name) = name.split_once('-').context("a case of a recording")?;
    let known = recorded::RECORDINGS.iter().find(|(known, _)| *known == name);
    let (_, times) = known.context("a recording")?;
    let cost = between(dir, "begin", "done")?;
    let listed = recorded::digest(&fs::read_to_string(dir.join("listed"))?);
    let (row, medium) = (recorded::row_name(name, *times), format!("{} MiB", recorded::MEDIUM));
    let row = |metric: &str| place("R1", &row, system, &medium, metric);
    let [_, programs, erases] = count_cells(cost);
    Ok(Values::from([
        (row("names and sizes"), Cell::text(listed)),
        (row(programs.0), programs.1),
        (row(erases.0), erases.1),
    ]))
}

fn count_cells(count: Count) -> [(&'static str, Cell); 3] {
    [
        ("page reads", count.reads.into()),
        ("page programs", count.programs.into()),
        ("erases", count.erases.into()),
    ]
}

/// Takes the column from earlier results.
pub(super) fn take(rows: &mut [Row], earlier: &[Row]) {
    let key = |row: &Row| place(&row.table, &row.row, &row.system, &row.medium, &row.metric);
    fill(rows, &earlier.iter().map(|row| (key(row), row.linux.clone())).collect());
}

/// Puts the values where they belong.
fn fill(rows: &mut [Row], values: &Values) {
    for row in rows {
        let key = place(&row.table, &row.row, &row.system, &row.medium, &row.metric);
        if let Some(value) = values.get(&key) {
            row.linux = value.clone();
        }
    }
}

/// Returns the numbers of the first line that begins with these words.
fn numbers(text: &str, words: &str) -> Result<Vec<u64>> {
    let line = text.lines().find_map(|line| line.strip_prefix(words)?.strip_prefix(' '));
    let line = line.with_context(|| format!("Linux wrote no line `{words}`"))?;
    line.split_whitespace().map(|word| Ok(word.parse()?)).collect()
}

/// Returns the counts at a moment. A read of out-of-band bytes is a read of a page for the kernel, so
/// it is counted once.
fn count(dir: &Path, name: &str) -> Result<Count> {
    let text = fs::read_to_string(dir.join("counts"))?;
    match numbers(&text, name)?[..] {
        [reads, _oob, programs, erases] => Ok(Count { reads, programs, erases }),
        _ => bail!("Linux counted no operations at `{name}`"),
    }
}

fn between(dir: &Path, from: &str, to: &str) -> Result<Count> {
    let (from, to) = (count(dir, from)?, count(dir, to)?);
    Ok(Count {
        reads: to.reads - from.reads,
        programs: to.programs - from.programs,
        erases: to.erases - from.erases,
    })
}

fn values_of(dir: &Path) -> Result<String> {
    Ok(fs::read_to_string(dir.join("values"))?)
}

/// Returns used and available KiB, and those of all blocks.
fn df(text: &str) -> Result<[u64; 3]> {
    match numbers(text, "df")?[..] {
        [size, blocks, free, available] => {
            Ok([blocks, blocks - free, available].map(|count| count * size / 1024))
        }
        _ => bail!("Linux wrote no df"),
    }
}

/// The cells of the steps of one system on one partition.
fn step_values(system: System, medium: u32, dir: &Path) -> Result<Values> {
    let medium = format!("{medium} MiB");
    let mut values = Values::new();
    let mut put = |table: &str, row: &str, metric: &str, value: Cell| {
        values.insert(place(table, row, system.name(), &medium, metric), value);
    };
    if values_of(dir).is_ok_and(|text| text.contains("full")) {
        for (table, row, metric) in [
            ("BL1", "mount", "time"),
            ("BL2", "after the mount", "memory"),
            ("BL3", "df", "used"),
            ("BL4", "read all files", "time"),
            ("BL5", "remove all files", "time"),
            ("BL6", "write", "time"),
        ] {
            put(table, row, metric, "does not fit".into());
        }
        return Ok(values);
    }
    let attach =
        if system.is_on_ubi() { between(dir, "detached", "attached")? } else { Count::default() };
    let mount = between(dir, "unmounted", "mounted")?;
    let steps = [
        ("BL6", "write", between(dir, "begin", "written")?),
        ("BL1", "mount", mount + attach),
        ("BL1", "of this, attaching UBI", attach),
        ("BL4", "read all files", between(dir, "idle", "read")?),
        ("BL5", "remove all files", between(dir, "read", "removed")?),
    ];
    for (table, row, count) in steps {
        for (metric, value) in count_cells(count) {
            put(table, row, metric, value);
        }
    }
    put("BL3", "df", "used", df(&values_of(dir)?)?[1].into());
    Ok(values)
}

fn overhead_cases() -> Vec<BatchCase> {
    let mut cases = Vec::new();
    for (medium, ..) in OVERHEAD {
        let blocks = medium * 8;
        for (name, beb) in [("2008", beb(steps::reserve_2008(blocks))), ("today", 0)] {
            cases.push(case(&format!("{name}-{medium}"), "overhead", LARGE, blocks, beb, "ubi"));
        }
    }
    cases
}

fn overhead(name: &str, dir: &Path) -> Result<Values> {
    let (reserve, medium) = name.split_once('-').context("a case of the overhead")?;
    let [lebs, leb_size] = numbers(&values_of(dir)?, "available")?[..] else {
        bail!("Linux wrote no number of LEBs")
    };
    let bytes = medium.parse::<u64>()? << 20;
    let row = format!("taken by UBI, reserve of {reserve}");
    let taken = bootlin::mebibytes(bytes - lebs * leb_size);
    let key = place("BL9", &row, "ubi", &format!("{medium} MiB"), "bytes");
    Ok(Values::from([(key, taken.into())]))
}

fn fits_cases(work: &Path) -> Result<Vec<BatchCase>> {
    let mut entries = Vec::new();
    let mut bytes = 0;
    for (number, content) in tree::contents().enumerate() {
        bytes += content.len() as u64;
        entries.push(Entry::File(format!("f{number}").into_bytes(), content));
        if bytes > ENOUGH {
            break;
        }
    }
    let tar = archive(&entries, work, "fits")?;
    let mut cases = Vec::new();
    for (medium, system, ..) in FITS {
        let name = if system == System::Jffs2 { "jffs2" } else { "ubifs" };
        let beb = beb(steps::reserve_2008(medium * 8));
        let mut one = case(&format!("{name}-{medium}"), "fits", LARGE, medium * 8, beb, name);
        one.files = vec![("tree.tar", tar.clone())];
        cases.push(one);
    }
    Ok(cases)
}

fn fits(name: &str, dir: &Path) -> Result<Values> {
    let (system, medium) = name.split_once('-').context("a case of what fits")?;
    let [bytes] = numbers(&values_of(dir)?, "fits")?[..] else { bail!("Linux wrote no size") };
    let key = place("BL9", "files that fit", system, &format!("{medium} MiB"), "content");
    Ok(Values::from([(key, bootlin::mebibytes(bytes).into())]))
}

/// The tables T of the chip with small pages.
fn small_page(_name: &str, dir: &Path) -> Result<Values> {
    let text = values_of(dir)?;
    let [subpage] = numbers(&text, "subpage")?[..] else { bail!("Linux wrote no sub-page") };
    ensure!(subpage == 256, "the chip of Linux has sub-pages of {subpage} bytes, expected 256");
    let mut values = Values::new();
    let markers = between(dir, "begin", "loaded")?.reads;
    let what = ("bad-block table in memory", "OOB reads of 16 bytes");
    values.insert(place("T2", what.0, "driver", "64 MiB chip", what.1), markers.into());
    let attach = between(dir, "detached", "attached")?.reads;
    let headers = attach.saturating_sub(toshiba::TABLE_PAGES);
    let what = "attach, headers of the blocks";
    values.insert(place("T3", what, "ubi", "32 MiB", "pages read"), headers.into());
    for (metric, value) in ["1k-blocks", "used", "available"].into_iter().zip(df(&text)?) {
        let row = format!("df, empty, {}", toshiba::RESERVES[0].0);
        values.insert(place("T4", &row, "ubifs", "32 MiB", metric), value.into());
    }
    for (size, ..) in toshiba::SPACE {
        let [bytes] = numbers(&text, &format!("space {size}"))?[..] else {
            bail!("Linux wrote no space for files of {size} bytes")
        };
        let row = toshiba::space_row(size, toshiba::RESERVES[0].0);
        let megabytes = toshiba::megabytes(bytes);
        values.insert(place("T5", &row, "ubifs", "32 MiB", "content"), megabytes.into());
    }
    for row in toshiba::rows_of_image(&dir.join("full"))? {
        let key = place(&row.table, &row.row, &row.system, &row.medium, &row.metric);
        values.insert(key, row.ours);
    }
    Ok(values)
}

/// Compares the rows that must be the same on both sides: layouts and formulas. What fits (T5) and what
/// steps cost may differ; the tables show it.
fn compare(rows: &[Row]) -> Vec<(String, Result<()>)> {
    let is_fixed = |row: &&Row| match row.table.as_str() {
        "T4" => true,
        "T6" => !row.row.starts_with("full"),
        "T7" => !row.unit.is_empty(),
        "BL9" => row.row.starts_with("taken by UBI"),
        "R1" => row.metric == "names and sizes",
        _ => false,
    };
    let was_run = |row: &&Row| row.linux != Cell::not_run();
    let judge = |row: &Row| {
        let (ours, linux, unit) = (&row.ours, &row.linux, &row.unit);
        ensure!(ours == linux, "ours {ours} {unit}, Linux {linux} {unit}");
        Ok(())
    };
    let name = |row: &Row| format!("same/{}/{}/{}/{}", row.table, row.row, row.medium, row.metric);
    rows.iter().filter(is_fixed).filter(was_run).map(|row| (name(row), judge(row))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::rows::Fidelity;

    #[test]
    fn values_find_their_rows_and_differences_are_named() {
        let row = Row::new("T4", "df, empty, reserve 20", "used", "KiB")
            .on("ubifs", "32 MiB")
            .ours(24_u64, Fidelity::Exact);
        let mut rows = vec![row];
        assert!(compare(&rows).is_empty());
        let key = place("T4", "df, empty, reserve 20", "ubifs", "32 MiB", "used");
        fill(&mut rows, &Values::from([(key.clone(), 24_u64.into())]));
        assert!(compare(&rows).iter().all(|(_, outcome)| outcome.is_ok()));
        fill(&mut rows, &Values::from([(key, 20_u64.into())]));
        let outcomes = compare(&rows);
        let text = format!("{:?}", outcomes[0].1.as_ref().unwrap_err());
        assert!(text.contains("ours 24 KiB, Linux 20 KiB"), "{text}");
    }

    #[test]
    fn lines_of_the_guest_are_read_by_their_first_words() {
        let text = "df 4096 10 4 3\nspace 1024 77\nspace 10 5\n";
        assert_eq!(df(text).unwrap(), [40, 24, 12]);
        assert_eq!(numbers(text, "space 10").unwrap(), [5]);
        assert!(numbers(text, "spa").is_err() && df("df 1 2").is_err());
    }

    #[test]
    fn the_guest_can_ask_for_every_published_reserve() {
        for medium in [4, 8, 32, 120, 128] {
            let reserve = steps::reserve_2008(medium * 8);
            // So many in 1024 of the 2048 blocks of the chip.
            assert_eq!(beb(reserve) * 2048 / 1024, reserve);
        }
    }
}
