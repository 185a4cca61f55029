//! The rows of all tables: what was published, what Linux and this repository do today, and the
//! verdict.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write as _};

/// A published or measured value.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Cell {
    Number(f64),
    /// The smallest and the largest of several.
    Range([f64; 2]),
    Text(String),
}

impl Cell {
    /// A chart without numbers in the text of the publication.
    pub(super) fn lost() -> Self {
        Self::Text("no number in the text".to_owned())
    }

    pub(super) fn not_run() -> Self {
        Self::Text("not run".to_owned())
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Cell {
    #[allow(clippy::cast_precision_loss)] // counts and bytes of small chips
    fn from(number: u64) -> Self {
        Self::Number(number as f64)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Range([low, high]) => write!(f, "{low} to {high}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// What a row says about a published number or claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Verdict {
    Holds,
    HoldsNoLonger,
    NotComparable,
    /// The row has no published number and no claim.
    NoClaim,
}

impl Verdict {
    pub(super) const fn of(holds: Option<bool>) -> Self {
        match holds {
            Some(true) => Self::Holds,
            Some(false) => Self::HoldsNoLonger,
            None => Self::NotComparable,
        }
    }

    /// Judges a number that may deviate by a fraction of the published one.
    pub(super) fn near(ours: f64, published: f64, fraction: f64) -> Self {
        Self::of(Some((ours - published).abs() <= published.abs() * fraction))
    }

    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::HoldsNoLonger => "holds no longer",
            Self::NotComparable => "not comparable",
            Self::NoClaim => "",
        }
    }
}

/// What a rerun can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fidelity {
    /// Counts, bytes and formulas.
    Exact,
    /// Exact counts, multiplied by the times of the data sheet.
    Model,
    /// Only order and ratios have a meaning.
    Order,
    /// It cannot be repeated, or not in process.
    None,
}

impl Fidelity {
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Model => "model",
            Self::Order => "order",
            Self::None => "none",
        }
    }
}

/// A measured value next to what was published.
#[allow(clippy::struct_field_names)] // `row` is its name in the results
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Row {
    pub(super) table: String,
    pub(super) row: String,
    pub(super) system: String,
    pub(super) medium: String,
    pub(super) metric: String,
    pub(super) unit: String,
    pub(super) published: Cell,
    pub(super) linux: Cell,
    pub(super) ours: Cell,
    pub(super) verdict: Verdict,
    pub(super) fidelity: Fidelity,
    /// Number of the published text, line, and a few of its words.
    pub(super) source: String,
}

impl Row {
    /// Returns a row that has a place, and nothing measured yet.
    pub(super) fn new(table: &str, row: &str, metric: &str, unit: &str) -> Self {
        Self {
            table: table.to_owned(),
            row: row.to_owned(),
            system: "-".to_owned(),
            medium: "-".to_owned(),
            metric: metric.to_owned(),
            unit: unit.to_owned(),
            published: Cell::lost(),
            linux: Cell::not_run(),
            ours: Cell::not_run(),
            verdict: Verdict::NoClaim,
            fidelity: Fidelity::Exact,
            source: String::new(),
        }
    }

    pub(super) fn on(mut self, system: &str, medium: impl Into<String>) -> Self {
        system.clone_into(&mut self.system);
        self.medium = medium.into();
        self
    }

    pub(super) fn published(mut self, value: impl Into<Cell>, source: &str) -> Self {
        self.published = value.into();
        source.clone_into(&mut self.source);
        self
    }

    pub(super) fn ours(mut self, value: impl Into<Cell>, fidelity: Fidelity) -> Self {
        self.ours = value.into();
        self.fidelity = fidelity;
        self
    }

    pub(super) const fn judged(mut self, verdict: Verdict) -> Self {
        self.verdict = verdict;
        self
    }

    pub(super) fn linux(mut self, value: impl Into<Cell>) -> Self {
        self.linux = value.into();
        self
    }

    /// Returns whether it is a claim in words, which a rule judges.
    pub(super) fn is_claim(&self) -> bool {
        self.row.starts_with("claim")
    }

    /// Returns a cell with its unit.
    pub(super) fn with_unit(&self, cell: &Cell) -> String {
        match cell {
            Cell::Number(_) | Cell::Range(_) if !self.unit.is_empty() => {
                format!("{cell} {}", self.unit)
            }
            _ => cell.to_string(),
        }
    }

    /// Returns the verdict, and what the values are worth.
    pub(super) fn judgement(&self) -> String {
        match self.verdict.words() {
            "" => format!("({})", self.fidelity.words()),
            words => format!("{words} ({})", self.fidelity.words()),
        }
    }

    /// Judges the number by the published one.
    pub(super) fn within(self, fraction: f64) -> Self {
        let verdict = match (&self.ours, &self.published) {
            (Cell::Number(ours), Cell::Number(published)) => {
                Verdict::near(*ours, *published, fraction)
            }
            _ => Verdict::NotComparable,
        };
        self.judged(verdict)
    }

    /// Returns whether two rows without a claim are metrics of the same step.
    fn is_of_the_step_of(&self, other: &Self) -> bool {
        let key = |row: &Self| (row.row.clone(), row.system.clone(), row.medium.clone());
        let is_free = |row: &Self| row.verdict == Verdict::NoClaim;
        is_free(self) && is_free(other) && key(self) == key(other)
    }

    fn cells(&self) -> [String; 8] {
        [
            self.row.clone(),
            self.system.clone(),
            self.medium.clone(),
            self.metric.clone(),
            self.with_unit(&self.published),
            self.with_unit(&self.linux),
            self.with_unit(&self.ours),
            self.judgement(),
        ]
    }
}

const HEADS: [&str; 8] =
    ["row", "system", "medium", "metric", "published", "Linux", "ours", "verdict"];

/// The widest column; longer cells move what follows them.
const WIDEST: usize = 52;

/// Returns the rows as JSON, the same bytes for the same rows.
pub(super) fn to_json(rows: &[Row]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}

/// Reads what [`to_json`] wrote.
pub(super) fn from_json(text: &str) -> Result<Vec<Row>> {
    serde_json::from_str(text).context("no results of an evaluation")
}

/// Returns how many rows of a table have each verdict about something published: holds, holds no
/// longer, not comparable.
pub(super) fn counts<'a>(rows: impl IntoIterator<Item = &'a Row>) -> [usize; 3] {
    let mut counts = [0; 3];
    for row in rows {
        match row.verdict {
            Verdict::Holds => counts[0] += 1,
            Verdict::HoldsNoLonger => counts[1] += 1,
            Verdict::NotComparable => counts[2] += 1,
            Verdict::NoClaim => {}
        }
    }
    counts
}

/// Returns the names of the tables, in the order of the rows.
pub(super) fn tables(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&row.table.as_str()) {
            names.push(&row.table);
        }
    }
    names
}

/// Returns the rows as text for a terminal.
pub(super) fn to_text(rows: &[Row], title: impl Fn(&str) -> &'static str) -> String {
    let mut text = String::new();
    for table in tables(rows) {
        let _ = writeln!(text, "{table}: {}", title(table));
        let lines = rows.iter().filter(|row| row.table == table).map(Row::cells);
        let lines: Vec<_> = std::iter::once(HEADS.map(String::from)).chain(lines).collect();
        let fits = |cell: &&String| cell.len() <= WIDEST;
        let width = |column: usize| {
            lines.iter().map(|line| &line[column]).filter(fits).map(String::len).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
        for line in &lines {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        text.push('\n');
    }
    text
}

/// Returns one table for a page: the metrics of a step in one line.
pub(super) fn to_markdown(rows: &[Row], table: &str) -> String {
    let heads = ["row", "system", "medium", "published", "Linux", "ours", "verdict", "source"];
    let mut text = format!("| {} |\n|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    let rows: Vec<&Row> = rows.iter().filter(|row| row.table == table).collect();
    for group in rows.chunk_by(|one, next| one.is_of_the_step_of(next)) {
        let Some(first) = group.first() else { continue };
        let what = match group {
            [row] if row.verdict != Verdict::NoClaim && !row.is_claim() => {
                format!("{}: {}", row.row, row.metric)
            }
            _ => first.row.clone(),
        };
        let [.., verdict] = first.cells();
        let cells = [
            what,
            first.system.clone(),
            first.medium.clone(),
            joined(group, |row| &row.published),
            joined(group, |row| &row.linux),
            joined(group, |row| &row.ours),
            verdict,
            first.source.clone(),
        ];
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

/// Returns the numbers of several metrics that are not 0, or the text that stands for all of them.
fn joined(group: &[&Row], cell: impl Fn(&Row) -> &Cell) -> String {
    let words = |row: &&Row| match cell(row) {
        Cell::Number(0.0) if group.len() > 1 => None,
        Cell::Number(number) if !row.unit.is_empty() => Some(format!("{number} {}", row.unit)),
        Cell::Number(number) if group.len() > 1 => Some(format!("{number} {}", row.metric)),
        Cell::Number(number) => Some(number.to_string()),
        Cell::Range(_) => Some(row.with_unit(cell(row))),
        Cell::Text(_) => None,
    };
    let numbers: Vec<String> = group.iter().filter_map(words).collect();
    match group.first() {
        Some(first) if numbers.is_empty() => cell(first).to_string(),
        _ => numbers.join(", "),
    }
}

/// Checks that the words of each source are on its line of the texts in `ERASEBLOCK_SEEDS`, and the
/// published numbers of the tables L as well.
#[cfg(test)]
pub(super) fn check_sources(rows: &[Row]) {
    let Some(folder) = std::env::var_os("ERASEBLOCK_SEEDS") else { return };
    for row in rows.iter().filter(|row| row.source.starts_with("00")) {
        let source = &row.source;
        let (place, quoted) = source.split_once(' ').unwrap_or((source, ""));
        let (text, line) = place.split_once(':').unwrap();
        let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let file = files.find(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(text))
        });
        let content = std::fs::read_to_string(file.unwrap()).unwrap();
        let line = content.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
        let found = line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(found.contains(quoted.trim_matches('"')), "{source}: {found}");
        if let (Cell::Number(number), true) = (&row.published, row.table.starts_with('L')) {
            assert!(found.contains(&number.to_string()), "{number}: {found}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> Row {
        Row::new("T4", "df", "available", "KiB")
            .on("ubifs", "32 MiB")
            .published(21_468.0, "003:145")
            .ours(21_000_u64, Fidelity::Exact)
    }

    /// Readers of `results.json` rely on these names and shapes.
    #[test]
    fn a_row_has_the_documented_shape() {
        let ranged = row().published(Cell::Range([0.5, 1.5]), "001:1").linux("not run");
        let json = to_json(&[row().within(0.03), ranged]).unwrap();
        let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
        let names: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
        let mut expected = [
            "table",
            "row",
            "system",
            "medium",
            "metric",
            "unit",
            "published",
            "linux",
            "ours",
            "verdict",
            "fidelity",
            "source",
        ];
        expected.sort_unstable();
        let mut names: Vec<&str> = names.into_iter().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, expected);
        assert_eq!(rows[0]["published"], serde_json::json!(21_468.0));
        assert_eq!(rows[1]["published"], serde_json::json!([0.5, 1.5]));
        assert_eq!(rows[1]["linux"], serde_json::json!("not run"));
        assert_eq!(rows[0]["verdict"], serde_json::json!("holds"));
        assert_eq!(rows[1]["verdict"], serde_json::json!("no-claim"));
        assert_eq!(rows[0]["fidelity"], serde_json::json!("exact"));
        assert!(from_json(&json).is_ok());
    }

    #[test]
    fn verdicts_are_counted() {
        let rows = [row(), row().within(0.03), row().within(0.01), row().within(0.02)];
        assert_eq!(counts(&rows), [1, 2, 0]);
    }

    #[test]
    fn rows_survive_json() {
        let rows = vec![row().within(0.03), Row::new("BL1", "mount", "time", "ms")];
        let json = to_json(&rows).unwrap();
        assert_eq!(from_json(&json).unwrap(), rows);
        assert!(json.contains("\"published\": 21468.0") && json.contains("\"holds\""), "{json}");
        assert!(from_json("[{}]").is_err());
    }

    #[test]
    fn numbers_are_judged_by_the_published_one() {
        assert_eq!(row().within(0.03).verdict, Verdict::Holds);
        assert_eq!(row().within(0.02).verdict, Verdict::HoldsNoLonger);
        let lost = Row { published: Cell::lost(), ..row() };
        assert_eq!(lost.within(0.5).verdict, Verdict::NotComparable);
    }

    #[test]
    fn text_has_a_block_for_each_table() {
        let rows = [row(), Row::new("T5", "files", "content", "MB"), row()];
        let text = to_text(&rows, |_| "a title");
        assert_eq!(text.matches("a title").count(), 2);
        assert!(text.contains("21468 KiB") && text.contains("no number in the text"), "{text}");
    }

    #[test]
    fn a_page_has_the_metrics_of_a_step_in_one_line() {
        let step = |metric, unit, ours: u64| {
            Row::new("BL1", "mount", metric, unit).ours(ours, Fidelity::Exact)
        };
        let judged = row().within(0.03);
        let rows =
            [step("time", "ms", 7), step("page reads", "", 3), step("erases", "", 0), judged];
        let text = to_markdown(&rows, "BL1");
        assert_eq!(text.lines().count(), 3);
        assert!(text.contains("| not run | 7 ms, 3 page reads |"), "{text}");
        assert!(to_markdown(&rows, "T4").contains("df: available"));
    }
}
