//! All tables in one run, and their report.

use super::kept::{Inputs, Trust};
use super::lab::Lab;
use super::manifest::Manifest;
use super::rows::{self, Cell, Row};
use super::{card, cuts, disk, nand, page, report, words};
use crate::command::repository;
use crate::oracle::{Checks, our_command};
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Where the report is written by default.
const FOLDER: &str = "target/evaluate";

/// How much is measured in Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Extent {
    NoGuest,
    /// The smallest partition, and one tree instead of three.
    Quick,
    #[default]
    Full,
}

#[derive(Debug)]
struct Options {
    folder: PathBuf,
    ours: Option<PathBuf>,
    trust: Trust,
    extent: Extent,
    /// The subjects whose guests run.
    guests: Vec<&'static str>,
    /// Results of an earlier run, for what no guest measures now.
    earlier: Option<PathBuf>,
    writes_page: bool,
}

const SUBJECTS: [&str; 4] = ["nand", "card", "disk", "cuts"];

fn subject(name: &str) -> Result<&'static str> {
    let found = SUBJECTS.into_iter().find(|subject| *subject == name);
    found.with_context(|| format!("no subject {name}; there are {}", SUBJECTS.join(", ")))
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            folder: repository().join(FOLDER),
            ours: None,
            trust: Trust::Kept,
            extent: Extent::Full,
            guests: SUBJECTS.to_vec(),
            earlier: None,
            writes_page: false,
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let mut value = || rest.next().with_context(|| format!("{arg} needs a value"));
            match arg.as_str() {
                "--out" => options.folder = PathBuf::from(value()?),
                "--bin" => options.ours = Some(PathBuf::from(value()?)),
                "--fresh" => options.trust = Trust::Fresh,
                "--quick" => options.extent = Extent::Quick,
                "--no-guest" => options.extent = Extent::NoGuest,
                "--guests" => {
                    options.guests = value()?.split(',').map(subject).collect::<Result<_>>()?;
                }
                "--linux-from" => options.earlier = Some(PathBuf::from(value()?)),
                "--write" => options.writes_page = true,
                other => bail!("unknown argument {other} (hint: card, nand, --quick, --write)"),
            }
        }
        Ok(options)
    }
}

/// `cargo xtask evaluate`.
pub(super) fn run(args: &[String]) -> Result<bool> {
    let options = Options::parse(args)?;
    let mut manifest = Manifest::of_here()?;
    let mut checks = Checks::default();
    let mut rows = nand::rows_in_process(&nand::PARTITIONS)?;
    let mut cards = card::rows()?;
    let mut disk = disk::Results::default();
    disk.measure(options.extent)?;
    let mut cut = cuts::Results::default();
    cut.measure_all()?;
    if options.extent != Extent::NoGuest {
        let ours = our_command(options.ours.as_deref(), &["evaluate".to_owned()])?;
        let mut lab = Lab::new(ours, options.trust)?;
        let asks = |subject: &str| options.guests.contains(&subject);
        if asks("nand") {
            checks.add(&nand::ask_linux(&mut lab, &mut rows, partitions(options.extent))?);
        }
        if asks("card") {
            match card::stranger(&mut lab, &mut checks) {
                Ok(found) => drop(cards.splice(..0, found)),
                Err(error) => checks.record("flashbench", Err(error)),
            }
        }
        if asks("disk") {
            disk.ask_linux(&mut lab, options.extent, &disk::System::ALL, &mut checks)?;
        }
        if asks("cuts") {
            cut.ask_all(&mut lab, options.extent, &mut checks);
        }
        manifest.add_guest(&lab.guest)?;
        manifest.add_parts(&lab.kept);
    }
    rows.extend(cards);
    rows.extend(disk.rows());
    rows.extend(cut.rows());
    manifest.add("evaluation", parameters(options.extent));
    if let Some(path) = &options.earlier {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        take_earlier(&mut rows, &rows::from_json(&text)?);
        manifest.add("earlier results", Inputs::default().with("results", text).stamp());
    }
    report::write(&options.folder, &rows, &manifest, &words)?;
    println!("{}", summary(&rows));
    println!("report: {}", options.folder.join("index.html").display());
    if options.writes_page {
        write_page(&rows)?;
    }
    Ok(checks.finish())
}

/// Returns the partitions of the tables BL that a guest measures.
fn partitions(extent: Extent) -> &'static [u32] {
    let all: &'static [u32] = &nand::PARTITIONS;
    if extent == Extent::Full { all } else { &all[..1] }
}

/// Takes cells of the Linux column that no guest measured from earlier results.
fn take_earlier(rows: &mut [Row], earlier: &[Row]) {
    let place = |row: &Row| {
        [&row.table, &row.row, &row.system, &row.medium, &row.metric].map(String::clone)
    };
    let known: BTreeMap<_, &Cell> = earlier.iter().map(|row| (place(row), &row.linux)).collect();
    for row in rows.iter_mut().filter(|row| row.linux == Cell::not_run()) {
        if let Some(cell) = known.get(&place(row)) {
            row.linux = (*cell).clone();
        }
    }
}

fn parameters(extent: Extent) -> String {
    let [large, small] = nand::media();
    format!(
        "{extent:?}; BL: {large}; T: {small}; L: {}; F3: {}",
        disk::parameters(extent),
        cuts::parameters(extent)
    )
}

/// Returns a line for each table, and the sum.
fn summary(rows: &[Row]) -> String {
    let mut text = String::new();
    for table in rows::tables(rows) {
        let [holds, no_longer, open] = rows::counts(rows.iter().filter(|row| row.table == table));
        let title = words(table).title;
        let _ = writeln!(
            text,
            "{table:<5} {title:<52} {holds:>3} hold, {no_longer:>2} no longer, {open:>2} not comparable"
        );
    }
    let [holds, no_longer, open] = rows::counts(rows);
    let _ = write!(
        text,
        "{} rows; of the published numbers and claims {holds} hold, {no_longer} hold no longer, {open} are \
         not comparable",
        rows.len()
    );
    text
}

/// Writes these tables into the page, and leaves its others alone.
pub(super) fn update_page(rows: &[Row]) -> Result<()> {
    let path = repository().join(page::PATH);
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    fs::write(&path, page::updated(&text, rows))?;
    println!("page: {}", path.display());
    Ok(())
}

fn write_page(rows: &[Row]) -> Result<()> {
    let path = repository().join(page::PATH);
    fs::write(&path, page::page(rows)).with_context(|| path.display().to_string())?;
    println!("page: {}", path.display());
    if let Some(picture) = page::picture(rows) {
        fs::write(repository().join(page::PICTURE), picture)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options> {
        Options::parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_choose_extent_and_trust() {
        let options = parse("--quick --fresh --out x").unwrap();
        assert_eq!((options.extent, options.trust), (Extent::Quick, Trust::Fresh));
        assert_eq!(options.folder, PathBuf::from("x"));
        assert_eq!(parse("").unwrap().extent, Extent::Full);
        assert_eq!(parse("").unwrap().guests, SUBJECTS);
        assert_eq!(parse("--guests disk,nand").unwrap().guests, ["disk", "nand"]);
        for wrong in ["--out", "nands", "--linux", "--guests disks"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn earlier_results_fill_what_was_not_run() {
        let row = |name: &str, linux: Cell| Row::new("T4", name, "used", "KiB").linux(linux);
        let earlier = [row("a", 1_u64.into()), row("b", 2_u64.into())];
        let mut rows =
            [row("a", 7_u64.into()), row("b", Cell::not_run()), row("c", Cell::not_run())];
        take_earlier(&mut rows, &earlier);
        let found = rows.map(|row| row.linux);
        assert_eq!(found, [7_u64.into(), 2_u64.into(), Cell::not_run()]);
    }
}
