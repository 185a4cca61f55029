//! The published tables of raw NAND, measured again in process: file systems on simulated chips.
//!
//! # Invariants
//! 1. The same sources give the same rows: contents are seeded, time is that of the chip's data
//!    sheet, and memory is the bytes requested from the allocator.
//! 2. A published number has its source: the number of the text, the line, and words of it. A chart
//!    whose numbers are lost says so; its claims are judged by rules.

mod bootlin;
mod claims;
mod flash;
mod fujitsu;
mod linux;
mod recorded;
mod steps;
mod toshiba;
mod tree;

use super::kept::Trust;
use super::lab::Lab;
use super::rows::{self, Row};
use crate::command::repository;
use crate::oracle::{Checks, our_command};
use anyhow::{Context, Result, bail, ensure};
use claims::Results;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// All tables, in the order of the texts.
const TABLES: [&str; 22] = [
    "BL1", "BL2", "BL3", "BL4", "BL5", "BL6", "BL7", "BL8", "BL9", "BL10", "T1", "T2", "T3", "T4",
    "T5", "T6", "T7", "T8", "T9", "T10", "F5", "R1",
];
/// Where the results are written by default.
const RESULTS: &str = "target/evaluate/nand/results.json";

/// Where the Linux column comes from.
#[derive(Debug)]
enum Linux {
    /// It stays empty.
    NotRun,
    Guest,
    /// Results of an earlier run.
    Earlier(PathBuf),
}

/// What to measure.
#[derive(Debug)]
struct Options {
    tables: Vec<&'static str>,
    partitions: Vec<u32>,
    json: PathBuf,
    linux: Linux,
    writes_page: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            tables: TABLES.to_vec(),
            partitions: bootlin::PARTITIONS.to_vec(),
            json: repository().join(RESULTS),
            linux: Linux::NotRun,
            writes_page: false,
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--table" => {
                    options.tables = value()?.split(',').map(table).collect::<Result<_>>()?;
                }
                "--partition" => {
                    let sizes = value()?.split(',').map(partition);
                    options.partitions = sizes.collect::<Result<_>>()?;
                }
                "--json" => options.json = PathBuf::from(value()?),
                "--write" => options.writes_page = true,
                "--linux" => options.linux = Linux::Guest,
                "--linux-from" => options.linux = Linux::Earlier(PathBuf::from(value()?)),
                other => bail!("unknown argument {other}"),
            }
        }
        Ok(options)
    }
}

fn table(name: &str) -> Result<&'static str> {
    let found = TABLES.into_iter().find(|table| table.eq_ignore_ascii_case(name));
    found.with_context(|| format!("no table {name}; there are {}", TABLES.join(", ")))
}

fn partition(text: &str) -> Result<u32> {
    let known = bootlin::PARTITIONS.into_iter().find(|size| size.to_string() == text);
    known.with_context(|| format!("no partition of {text} MiB; there are 8, 32 and 120"))
}

/// `cargo xtask evaluate nand`.
pub(super) fn run(args: &[String]) -> Result<bool> {
    let options = Options::parse(args)?;
    let start = Instant::now();
    let mut rows = measure(&options.tables, &options.partitions)?;
    let seconds = start.elapsed().as_secs_f64();
    let agrees = match &options.linux {
        Linux::NotRun => true,
        Linux::Guest => {
            let mut lab = Lab::new(our_command(None, &["evaluate".to_owned()])?, Trust::Kept)?;
            linux::run(&mut lab, &mut rows, &options.tables, &options.partitions)?.finish()
        }
        Linux::Earlier(path) => {
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            linux::take(&mut rows, &rows::from_json(&text)?);
            true
        }
    };
    print!("{}", rows::to_text(&rows, title));
    let [holds, no_longer, open] = rows::counts(&rows);
    println!(
        "{} rows in {seconds:.1} s; of the published numbers and claims {holds} hold, {no_longer} hold no \
         longer, {open} are not comparable",
        rows.len(),
    );
    if let Some(folder) = options.json.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let json = rows::to_json(&rows)?;
    ensure!(rows::from_json(&json)? == rows, "the results read back are others");
    fs::write(&options.json, json).with_context(|| options.json.display().to_string())?;
    println!("results: {}", options.json.display());
    if options.writes_page {
        super::whole::update_page(&rows)?;
    }
    Ok(agrees)
}

pub(super) use linux::archive;
pub(super) use tree::{noise, text};

/// Returns the rows of all tables, with `partitions` of the tables BL in process.
pub(super) fn rows_in_process(partitions: &[u32]) -> Result<Vec<Row>> {
    measure(&TABLES, partitions)
}

/// The partitions of the tables BL.
pub(super) const PARTITIONS: [u32; 3] = bootlin::PARTITIONS;

/// Fills in the Linux column, with these partitions of the tables BL.
pub(super) fn ask_linux(lab: &mut Lab, rows: &mut [Row], partitions: &[u32]) -> Result<Checks> {
    linux::run(lab, rows, &TABLES, partitions)
}

/// Returns the chips in words: of the tables BL and of the tables T.
pub(super) fn media() -> [String; 2] {
    [bootlin::medium(), toshiba::medium().to_owned()]
}

/// Returns the rows of these tables.
fn measure(tables: &[&str], partitions: &[u32]) -> Result<Vec<Row>> {
    let mut results = Results::default();
    let is_bootlin = |table: &&&str| table.starts_with("BL");
    if tables.iter().filter(is_bootlin).any(|table| bootlin::needs_runs(table)) {
        bootlin::measure(partitions, &mut results)?;
    }
    if tables.contains(&"BL9") {
        bootlin::measure_small(&mut results)?;
    }
    let mut rows = Vec::new();
    for table in tables {
        rows.extend(match *table {
            "F5" => fujitsu::rows()?,
            "R1" => recorded::rows()?,
            name if name.starts_with('T') => toshiba::rows(name)?,
            name => bootlin::rows(name, &results)?,
        });
    }
    Ok(rows)
}

/// Returns the title of a table.
pub(super) fn title(table: &str) -> &'static str {
    match table {
        "F5" => "mount time by the number of files",
        "R1" => "recordings of applications, repeated",
        name if name.starts_with('T') => toshiba::title(name),
        name => bootlin::title(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::rows::{Cell, to_json};

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn tables_and_partitions_are_chosen_by_name() {
        let options = Options::parse(&words("--table bl1,T4 --partition 8,120")).unwrap();
        assert_eq!((options.tables, options.partitions), (vec!["BL1", "T4"], vec![8, 120]));
        for wrong in ["--table X1", "--partition 9", "--table", "x"] {
            assert!(Options::parse(&words(wrong)).is_err(), "{wrong}");
        }
    }

    /// The smallest partition, all its tables, twice. Other tests allocate memory at the same time.
    #[test]
    fn the_smallest_partition_is_measured_the_same_in_every_run() {
        let tables: Vec<&str> =
            TABLES.into_iter().filter(|table| table.starts_with("BL") && *table != "BL2").collect();
        let rows = measure(&tables, &[8]).unwrap();
        let again = measure(&tables, &[8]).unwrap();
        let differing = rows.iter().zip(&again).find(|(one, other)| one != other);
        assert_eq!(differing, None);
        assert!(to_json(&rows).unwrap() == to_json(&again).unwrap(), "other rows");
        assert!(rows.iter().all(|row| row.linux == Cell::not_run() && row.ours != Cell::not_run()));
        for table in tables {
            assert!(rows.iter().any(|row| row.table == table), "{table}");
        }
    }

    /// Every published number is where its source says. Needs the texts in `ERASEBLOCK_SEEDS`.
    #[test]
    fn published_numbers_are_in_the_texts() {
        if std::env::var_os("ERASEBLOCK_SEEDS").is_none() {
            println!("left out: ERASEBLOCK_SEEDS names no folder with the published texts");
            return;
        }
        rows::check_sources(&measure(&TABLES, &[8]).unwrap());
    }
}
