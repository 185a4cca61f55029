//! All tables in one run, and their report.

use super::kept::Trust;
use super::lab::Lab;
use super::manifest::Manifest;
use super::rows::{self, Row};
use super::{card, disk, nand, page, report, words};
use crate::command::repository;
use crate::oracle::{Checks, our_command};
use anyhow::{Context, Result, bail};
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
    writes_page: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self> {
        let mut options = Self {
            folder: repository().join(FOLDER),
            ours: None,
            trust: Trust::Kept,
            extent: Extent::Full,
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
    let mut rows = nand::rows_in_process(&nand::PARTITIONS)?;
    let mut checks = Checks::default();
    let cards = card::rows()?;
    let mut disk = disk::Results::in_process(options.extent)?;
    if options.extent == Extent::NoGuest {
        rows.extend(cards);
    } else {
        let ours = our_command(options.ours.as_deref(), &["evaluate".to_owned()])?;
        let mut lab = Lab::new(ours, options.trust)?;
        let partitions: &[u32] = match options.extent {
            Extent::Full => &nand::PARTITIONS,
            _ => &nand::PARTITIONS[..1],
        };
        checks.add(&nand::ask_linux(&mut lab, &mut rows, partitions)?);
        match card::stranger(&mut lab, &mut checks) {
            Ok(found) => rows.extend(found),
            Err(error) => checks.record("flashbench", Err(error)),
        }
        rows.extend(cards);
        disk.ask_linux(&mut lab, options.extent, &mut checks)?;
        manifest.add_guest(&lab.guest)?;
        manifest.add_parts(&lab.kept);
    }
    rows.extend(disk.rows());
    manifest.add("evaluation", parameters(options.extent));
    report::write(&options.folder, &rows, &manifest, &words)?;
    println!("{}", summary(&rows));
    println!("report: {}", options.folder.join("index.html").display());
    if options.writes_page {
        write_page(&rows)?;
    }
    Ok(checks.finish())
}

fn parameters(extent: Extent) -> String {
    let [large, small] = nand::media();
    format!("{extent:?}; BL: {large}; T: {small}; L: {}", disk::parameters(extent))
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
        for wrong in ["--out", "nands", "--linux"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
