//! The picture of a table: for each metric, the published value, that of Linux and ours as bars.
//!
//! # Invariants
//! 1. The same rows give the same bytes: no fonts are measured, and coordinates have one decimal.
//! 2. Colour is never alone: every bar has its series and its value as text.

use super::markup::escape;
use crate::evaluate::rows::{Cell, Row};
use std::fmt::Write as _;

const WIDTH: f64 = 900.0;
/// Where bars start, and the most that they are long.
const LEFT: f64 = 330.0;
const LONGEST: f64 = 380.0;
const BAR: f64 = 13.0;
const GAP: f64 = 8.0;
/// The height of an item's two lines of text.
const ITEM: f64 = 28.0;
const HEADING: f64 = 34.0;
/// The height of the legend, and of the title, which a page has already.
const LEGEND: f64 = 20.0;
const TITLE: f64 = 28.0;
/// Letters of a label that fit left of the bars.
const LETTERS: usize = 52;

/// The colours, for light and dark. A page with pictures has them once.
pub(super) const STYLE: &str = "\
svg.picture { --ink: #1f2328; --dim: #59636e; --line: #d1d9e0; --published: #818b98; \
--linux: #0969da; --ours: #1a7f37; }
@media (prefers-color-scheme: dark) { svg.picture { --ink: #f0f6fc; --dim: #9198a1; \
--line: #3d444d; --published: #9198a1; --linux: #4493f8; --ours: #3fb950; } }
svg.picture text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg.picture .dim { fill: var(--dim); }
svg.picture .head { font-size: 13px; font-weight: 600; }
svg.picture .line { stroke: var(--line); }
svg.picture .published { fill: var(--published); }
svg.picture .linux { fill: var(--linux); }
svg.picture .ours { fill: var(--ours); }
svg.picture .low { fill-opacity: 0.45; }
";

/// One of the three columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Series {
    Published,
    Linux,
    Ours,
}

impl Series {
    const ALL: [Self; 3] = [Self::Published, Self::Linux, Self::Ours];

    const fn name(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Linux => "Linux",
            Self::Ours => "ours",
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            _ => self.name(),
        }
    }

    const fn cell(self, row: &Row) -> &Cell {
        match self {
            Self::Published => &row.published,
            Self::Linux => &row.linux,
            Self::Ours => &row.ours,
        }
    }
}

#[derive(Debug)]
struct Bar {
    series: Series,
    low: f64,
    high: f64,
}

impl Bar {
    fn of(series: Series, row: &Row) -> Option<Self> {
        match *series.cell(row) {
            Cell::Number(number) => Some(Self { series, low: number, high: number }),
            Cell::Range([low, high]) => Some(Self { series, low, high }),
            Cell::Text(_) => None,
        }
    }
}

#[derive(Debug)]
struct Item {
    title: String,
    detail: String,
    bars: Vec<Bar>,
}

impl Item {
    fn height(&self) -> f64 {
        (BAR * number(self.bars.len())).max(ITEM) + GAP
    }
}

/// All rows with the same metric and unit: they share a scale.
#[derive(Debug)]
struct Panel {
    heading: String,
    unit: String,
    items: Vec<Item>,
}

impl Panel {
    fn most(&self) -> f64 {
        let bars = self.items.iter().flat_map(|item| &item.bars);
        bars.map(|bar| bar.high).fold(0.0, f64::max)
    }

    fn height(&self) -> f64 {
        HEADING + self.items.iter().map(Item::height).sum::<f64>()
    }
}

/// The picture of a table.
#[derive(Debug)]
pub(super) struct Picture {
    title: String,
    panels: Vec<Panel>,
}

/// Whether a picture is a file of its own or a part of a page, which has the style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    Alone,
    InPage,
}

#[allow(clippy::cast_precision_loss)] // a handful of bars
fn number(count: usize) -> f64 {
    count as f64
}

/// Returns text that fits left of the bars.
fn shortened(text: &str) -> String {
    if text.chars().count() <= LETTERS {
        return text.to_owned();
    }
    text.chars().take(LETTERS - 3).chain("...".chars()).collect()
}

impl Picture {
    /// Returns the picture of these rows of one table; `None` if it has nothing to draw.
    pub(super) fn of(title: &str, rows: &[&Row]) -> Option<Self> {
        let mut panels: Vec<Panel> = Vec::new();
        for row in rows.iter().filter(|row| !row.is_claim()) {
            let bars: Vec<Bar> =
                Series::ALL.into_iter().filter_map(|series| Bar::of(series, row)).collect();
            if bars.iter().all(|bar| bar.high <= 0.0) {
                continue;
            }
            let places = [&row.system, &row.medium];
            let places = places.into_iter().filter(|place| *place != "-");
            let detail = places.map(String::as_str).collect::<Vec<_>>().join(", ");
            let item = Item { title: shortened(&row.row), detail: shortened(&detail), bars };
            let is_its = |panel: &&mut Panel| panel.heading == row.metric && panel.unit == row.unit;
            match panels.iter_mut().find(is_its) {
                Some(panel) => panel.items.push(item),
                None => panels.push(Panel {
                    heading: row.metric.clone(),
                    unit: row.unit.clone(),
                    items: vec![item],
                }),
            }
        }
        (!panels.is_empty()).then(|| Self { title: title.to_owned(), panels })
    }

    /// Returns the picture as SVG.
    pub(super) fn to_svg(&self, standing: Standing) -> String {
        let title_height = if standing == Standing::Alone { TITLE } else { 0.0 };
        let height =
            title_height + LEGEND + self.panels.iter().map(Panel::height).sum::<f64>() + GAP;
        let title = escape(&self.title);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" role=\"img\" \
             aria-label=\"{title}\" viewBox=\"0 0 {WIDTH} {height:.1}\"><title>{title}</title>\n"
        );
        if standing == Standing::Alone {
            let _ = writeln!(
                svg,
                "<style>{STYLE}</style>\n<text class=\"head\" x=\"10\" y=\"22\">{title}</text>"
            );
        }
        draw_legend(&mut svg, title_height);
        let mut top = title_height + LEGEND;
        for panel in &self.panels {
            draw_panel(&mut svg, panel, top);
            top += panel.height();
        }
        svg.push_str("</svg>\n");
        svg
    }
}

fn draw_legend(svg: &mut String, top: f64) {
    for (place, series) in Series::ALL.into_iter().enumerate() {
        let x = number(place).mul_add(90.0, LEFT);
        let _ = writeln!(
            svg,
            "<rect class=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            series.class(),
            top + 2.0,
            x + 14.0,
            top + 11.0,
            series.name()
        );
    }
}

fn draw_panel(svg: &mut String, panel: &Panel, top: f64) {
    let heading = match panel.unit.as_str() {
        "" => panel.heading.clone(),
        unit => format!("{}, {unit}", panel.heading),
    };
    let bottom = top + panel.height() - GAP;
    let _ = writeln!(
        svg,
        "<text class=\"head\" x=\"10\" y=\"{:.1}\">{}</text>\
         <line class=\"line\" x1=\"{LEFT:.1}\" x2=\"{LEFT:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
        top + 20.0,
        escape(&heading),
        top + HEADING - GAP
    );
    let scale = LONGEST / panel.most();
    let mut y = top + HEADING;
    for item in &panel.items {
        let _ = writeln!(
            svg,
            "<text x=\"10\" y=\"{:.1}\">{}</text><text class=\"dim\" x=\"10\" y=\"{:.1}\">{}</text>",
            y + 10.0,
            escape(&item.title),
            y + 23.0,
            escape(&item.detail)
        );
        for (place, bar) in item.bars.iter().enumerate() {
            draw_bar(svg, bar, BAR.mul_add(number(place), y), scale);
        }
        y += item.height();
    }
}

/// A range is solid up to its low end, and pale from there to its high end.
fn draw_bar(svg: &mut String, bar: &Bar, y: f64, scale: f64) {
    let class = bar.series.class();
    let (low, high) = ((bar.low * scale).max(0.0), (bar.high * scale).max(0.0));
    let _ = write!(
        svg,
        "<rect class=\"{class}\" x=\"{LEFT:.1}\" y=\"{y:.1}\" width=\"{low:.1}\" height=\"{:.1}\"/>",
        BAR - 2.0
    );
    if bar.high > bar.low {
        let _ = write!(
            svg,
            "<rect class=\"{class} low\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            LEFT + low,
            high - low,
            BAR - 2.0
        );
    }
    let value = if bar.high > bar.low {
        format!("{} to {}", bar.low, bar.high)
    } else {
        bar.high.to_string()
    };
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\">{value} <tspan class=\"dim\">{}</tspan></text>",
        LEFT + high + 5.0,
        y + 9.5,
        bar.series.name()
    );
}

#[cfg(test)]
mod tests {
    use super::super::markup;
    use super::*;
    use crate::evaluate::rows::Fidelity;

    fn rows() -> Vec<Row> {
        let row = |name: &str, ours: f64| {
            Row::new("L1", name, "card time", "s")
                .on("ext4 & <b>", "card")
                .ours(ours, Fidelity::Model)
        };
        vec![
            row("write", 3.25).published(6.5, "").linux(Cell::Range([1.0, 2.0])),
            row("claim: a > b", 3.0),
            row("nothing", 0.0),
            Row { metric: "erases".to_owned(), unit: String::new(), ..row("write", 12.0) },
        ]
    }

    fn picture(rows: &[Row]) -> Option<Picture> {
        Picture::of("small \"files\"", &rows.iter().collect::<Vec<_>>())
    }

    #[test]
    fn bars_are_in_proportion_and_have_their_numbers() {
        let svg = picture(&rows()).unwrap().to_svg(Standing::Alone);
        markup::check(&svg).unwrap();
        assert!(
            svg.contains("class=\"published\" x=\"330.0\" y=\"82.0\" width=\"380.0\""),
            "{svg}"
        );
        assert!(svg.contains("class=\"ours\" x=\"330.0\" y=\"108.0\" width=\"190.0\""), "{svg}");
        for text in [">6.5 <", ">1 to 2 <", ">3.25 <", ">12 <", "ext4 &amp; &lt;b&gt;"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(!svg.contains("claim") && !svg.contains("nothing"));
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        let svg = |standing| picture(&rows()).unwrap().to_svg(standing);
        assert_eq!(svg(Standing::Alone), svg(Standing::Alone));
        assert!(svg(Standing::Alone).contains(STYLE) && !svg(Standing::InPage).contains("<style"));
    }

    #[test]
    fn a_table_of_words_has_no_picture() {
        let words =
            [Row::new("T9", "verified writes", "behaviour", "").ours("not run", Fidelity::None)];
        assert!(picture(&words).is_none() && picture(&[]).is_none());
    }

    #[test]
    fn long_labels_are_cut() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"x".repeat(80)).len(), LETTERS);
    }
}
