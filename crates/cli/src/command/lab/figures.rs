//! What attaching, writing and wear cost, as tables.

use crate::failure::Failure;
use crate::session::Session;
use eraseblock_lab::figures::{Figure, Row, ubi as measure};
use std::time::Instant;

/// Measures UBI.
pub(super) fn ubi(session: &mut Session) -> Result<(), Failure> {
    let start = Instant::now();
    let rows = measure(&|| start.elapsed().as_secs_f64())?;
    if session.options.json {
        return session.json(&serde_json::json!({ "rows": rows }));
    }
    let mut last: Option<&Row> = None;
    for row in &rows {
        if last.is_none_or(|last| last.table != row.table) {
            let space = if last.is_some() { "\n" } else { "" };
            session.lines([format!("{space}{}", row.table)])?;
        }
        let figures: Vec<String> = row.figures.iter().map(tell).collect();
        session.lines([format!("  {}: {}", row.case, figures.join(", "))])?;
        last = Some(row);
    }
    let figures = || rows.iter().flat_map(|row| &row.figures);
    let missed = figures().filter(|figure| !figure.is_met()).count();
    session.lines([format!("\n{missed} of {} figures missed", figures().count())])
}

fn tell(figure: &Figure) -> String {
    let limit = match (figure.at_most, figure.at_least) {
        (Some(most), _) => format!(" (at most {})", number(most)),
        (_, Some(least)) => format!(" (at least {})", number(least)),
        _ => String::new(),
    };
    let missed = if figure.is_met() { "" } else { " MISSED" };
    format!("{} {}{limit}{missed}", figure.what, number(figure.value))
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.3}") }
}
