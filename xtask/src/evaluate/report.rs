//! The report of all tables, in `target/evaluate`: `results.json`, `results.csv`, `manifest.json`, a
//! picture for each table that has numbers, and `index.html` with everything.
//!
//! # Invariants
//! 1. The same rows and inputs give the same bytes, except for `manifest.json`, which also has the time.
//! 2. Everything drawn is in the rows, and so in the table next to its picture and in the CSV.

mod csv;
mod html;
mod markup;
mod picture;

pub(super) use html::Words;

use super::manifest::Manifest;
use super::rows::{self, Row, tables};
use anyhow::{Context, Result, ensure};
use picture::{Picture, Standing};
use std::fs;
use std::path::Path;

/// Returns the files of a report, by name.
fn files(
    rows: &[Row],
    manifest: &Manifest,
    words: &dyn Fn(&str) -> Words,
) -> Result<Vec<(String, String)>> {
    let json = rows::to_json(rows)?;
    ensure!(rows::from_json(&json)? == rows, "the results read back are others");
    let mut files = vec![
        ("results.json".to_owned(), json),
        ("results.csv".to_owned(), csv::to_csv(rows)),
        ("manifest.json".to_owned(), manifest.to_json()?),
        ("index.html".to_owned(), html::page(rows, manifest, words)),
    ];
    for table in tables(rows) {
        let title = format!("{table}: {}", words(table).title);
        if let Some(svg) = picture(rows, table, &title) {
            files.push((format!("{table}.svg"), svg));
        }
    }
    Ok(files)
}

/// Returns the picture of a table as a file of its own; `None` if it has nothing to draw.
pub(super) fn picture(rows: &[Row], table: &str, title: &str) -> Option<String> {
    let of_table: Vec<&Row> = rows.iter().filter(|row| row.table == table).collect();
    Some(Picture::of(title, &of_table)?.to_svg(Standing::Alone))
}

/// Writes the report into a folder; pictures of earlier reports are removed.
pub(super) fn write(
    folder: &Path,
    rows: &[Row],
    manifest: &Manifest,
    words: &dyn Fn(&str) -> Words,
) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "svg") {
            fs::remove_file(&path)?;
        }
    }
    for (name, content) in files(rows, manifest, words)? {
        let path = folder.join(name);
        fs::write(&path, content).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluate::rows::Fidelity;

    fn words(_table: &str) -> Words {
        Words { title: "small files", note: String::new() }
    }

    fn rows() -> Vec<Row> {
        let row = |table: &str| Row::new(table, "write", "card time", "s");
        vec![row("L1").ours(1.5, Fidelity::Model), row("T9").ours("not run", Fidelity::None)]
    }

    #[test]
    fn the_report_is_the_same_in_two_runs() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("OLD.svg"), "").unwrap();
        let mut names = Vec::new();
        for folder in [&one, &other] {
            write(folder.path(), &rows(), &Manifest::default(), &words).unwrap();
        }
        for entry in fs::read_dir(one.path()).unwrap() {
            let name = entry.unwrap().file_name();
            let read = |folder: &tempfile::TempDir| fs::read(folder.path().join(&name)).unwrap();
            assert!(read(&one) == read(&other), "{name:?}");
            names.push(name.to_string_lossy().into_owned());
        }
        names.sort();
        assert_eq!(names, ["L1.svg", "index.html", "manifest.json", "results.csv", "results.json"]);
        assert!(!other.path().join("OLD.svg").exists());
    }
}
