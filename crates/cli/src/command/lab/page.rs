//! The counts of a campaign as one page of HTML: complete in itself, without scripts, readable on
//! light and dark screens and on paper.

use crate::failure::{Context, Failure};
use crate::output::Output;
use eraseblock::raw::lab::powercut::{Report, Violation};
use eraseblock::raw::nandsim::Variant;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

/// The most rows of a table; the others become one.
const ROWS: usize = 40;

const STYLE: &str = "\
:root{color-scheme:light dark;--text:#1d232a;--faint:#5c6670;--back:#fff;--line:#d8dde2;--bar:#8fb8e8;\
--bad:#b3261e;--good:#1b6e3c}
@media (prefers-color-scheme:dark){:root{--text:#e4e8ec;--faint:#9aa5b0;--back:#15191e;--line:#333b44;\
--bar:#2f5f96;--bad:#ff8a80;--good:#7fd6a0}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--text);background:var(--back);max-width:72rem;\
margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0 0 .25rem}
h2{font-size:1.05rem;margin:0 0 .5rem}
p{margin:.25rem 0 1rem;color:var(--faint)}
.good{color:var(--good);font-weight:600}
.bad{color:var(--bad);font-weight:600}
main{columns:24rem;column-gap:2.5rem}
section{break-inside:avoid;margin:0 0 1.75rem}
table{border-collapse:collapse;width:100%}
td{padding:.15rem .5rem .15rem 0;border-bottom:1px solid var(--line);vertical-align:top}
td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap;width:1%}
td.b{width:30%;padding-right:0;vertical-align:middle}
td.b i{display:block;height:.7rem;background:var(--bar);min-width:1px}
code{font-size:.9em;overflow-wrap:anywhere}
";

/// What the page shows.
pub(super) struct Page<'a> {
    /// The target and the chip.
    pub(super) title: &'a str,
    /// The counts of all sequences.
    pub(super) report: &'a Report,
    /// The rare events that a thorough campaign must have met.
    pub(super) demanded: BTreeSet<&'static str>,
    /// Seconds on the clock, and those of all threads together.
    pub(super) seconds: (f64, f64),
}

impl Page<'_> {
    /// Writes the page.
    pub(super) fn write(&self, mut output: Output) -> Result<(), Failure> {
        output.file.write_all(self.html().as_bytes()).context("the page of --html")?;
        output.commit()
    }

    fn html(&self) -> String {
        let Self { title, report, .. } = self;
        let title = escape(title);
        let mut html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>Power cuts of {title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>Power cuts of {title}</h1>\n{}",
            self.verdict()
        );
        html += "<main>\n";
        html += &self.summary();
        html += &self.rare();
        html += &section("States by flash event that was cut", &report.cut_events);
        html += &section("States by operation that was cut", &report.cut_operations);
        let variants = report.variants.iter().map(|(name, count)| (explained(name), *count));
        html += &section("States by variant of the cut", &variants.collect());
        html += &section("Operations performed", &report.kinds);
        let is_other = |(what, _): &(&&'static str, &u64)| !self.demanded.contains(**what);
        let others: BTreeMap<_, _> = report.happened.iter().filter(is_other).collect();
        let others = others.into_iter().map(|(what, count)| (*what, *count)).collect();
        html += &section("Also happened", &others);
        html + "</main>\n</body>\n</html>\n"
    }

    fn verdict(&self) -> String {
        let found = &self.report.violations;
        if found.is_empty() {
            return "<p class=\"good\">No state breaks a rule.</p>\n".to_owned();
        }
        let rows: String = found.iter().map(broken_row).collect();
        format!(
            "<p class=\"bad\">States that break a rule: {}. <code>eraseblock lab replay ID</code> \
             explains one, <code>eraseblock lab shrink ID</code> makes it smaller.</p>\n\
             <section><table>\n{rows}</table></section>\n",
            found.len()
        )
    }

    fn summary(&self) -> String {
        let (report, (seconds, busy)) = (self.report, self.seconds);
        let rows = [
            ("states judged", report.states),
            ("different ones among them", report.distinct_states),
            ("cuts of a recovery among them", report.nested_states),
            ("equal states, not judged again", report.duplicates),
            ("right at a later mount only", report.came_later),
            ("sequences of operations", report.plans),
            ("operations", report.operations),
            ("flash events", report.events),
            ("seconds", rounded(seconds)),
            ("seconds of processor time", rounded(busy)),
            ("states a second of processor time", super::rate(report.states, busy)),
        ];
        let rows = rows.iter().filter(|(what, count)| {
            // File systems do not distinguish all states, UBI has no later mounts.
            *count > 0 || ["states judged", "operations"].contains(what)
        });
        let rows: String = rows.map(|(what, count)| row(what, *count, None)).collect();
        format!("<section><h2>Summary</h2>\n<table>\n{rows}</table></section>\n")
    }

    /// The events that a thorough campaign demands; those that did not happen stand out.
    fn rare(&self) -> String {
        if self.demanded.is_empty() {
            return String::new();
        }
        let count = |what| self.report.happened.get(what).copied().unwrap_or(0);
        let rows: String = self
            .demanded
            .iter()
            .map(|what| match count(*what) {
                0 => format!("<tr><td>{}</td><td class=\"n bad\">never</td></tr>\n", escape(what)),
                count => row(what, count, None),
            })
            .collect();
        format!("<section><h2>Rare events</h2>\n<table>\n{rows}</table></section>\n")
    }
}

fn broken_row(found: &Violation) -> String {
    let [id, rule, message] =
        [&found.id.to_string(), found.rule, &found.message].map(|text: &str| escape(text));
    format!("<tr><td><code>{id}</code></td><td>{rule}</td><td>{message}</td></tr>\n")
}

/// Adds to the name of a variant what it leaves.
fn explained(name: &str) -> String {
    let variant = name.parse::<Variant>();
    variant.map_or_else(|_| name.to_owned(), |variant| format!("{name}: {}", variant.meaning()))
}

/// A table of counts, the largest first.
fn section<K: AsRef<str>>(title: &str, counts: &BTreeMap<K, u64>) -> String {
    let mut counts: Vec<(&str, u64)> =
        counts.iter().map(|(what, count)| (what.as_ref(), *count)).collect();
    if counts.is_empty() {
        return String::new();
    }
    counts.sort_by_key(|(what, count)| (std::cmp::Reverse(*count), *what));
    let most = counts[0].1.max(1);
    let (shown, rest) = counts.split_at(counts.len().min(ROWS));
    let mut rows: String =
        shown.iter().map(|(what, count)| row(what, *count, Some(most))).collect();
    if !rest.is_empty() {
        let what = format!("{} others", rest.len());
        rows += &row(&what, rest.iter().map(|(_, count)| count).sum(), Some(most));
    }
    format!("<section><h2>{title}</h2>\n<table>\n{rows}</table></section>\n")
}

/// A row with a bar whose length is the share of `most`.
fn row(what: &str, count: u64, most: Option<u64>) -> String {
    let bar = most.map_or_else(String::new, |most| {
        let percent = count.min(most).saturating_mul(100) / most;
        format!("<td class=\"b\"><i style=\"width:{percent}%\"></i></td>")
    });
    let what = escape(what);
    format!("<tr><td>{what}</td><td class=\"n\">{}</td>{bar}</tr>\n", grouped(count))
}

/// Returns a number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn rounded(seconds: f64) -> u64 {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let seconds = seconds.round().max(0.0) as u64;
    seconds
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_groups() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn a_page_shows_what_never_happened_and_is_no_markup_of_others() {
        let mut report = Report { states: 1234, ..Report::default() };
        report.happened.insert("seen", 5);
        report.variants.insert("<P3>".to_owned(), 7);
        report.variants.insert("P0".to_owned(), 8);
        let demanded = BTreeSet::from(["seen", "missed"]);
        let html = Page { title: "a&b", report: &report, demanded, seconds: (1.0, 2.0) }.html();
        for part in [
            "Power cuts of a&amp;b",
            "<td>missed</td><td class=\"n bad\">never</td>",
            "<td>seen</td><td class=\"n\">5</td>",
            "&lt;P3&gt;",
            "<td>P0: nothing was programmed</td>",
            "1,234",
            "No state breaks a rule.",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("<script") && !html.contains("http") && !html.contains("<P3>"));
        assert!(!html.contains("Also happened"));
    }
}
