//! The page with all tables: one file, without scripts and without requests to a network.

use super::markup::escape;
use super::picture::{Picture, STYLE, Standing};
use crate::evaluate::manifest::Manifest;
use crate::evaluate::rows::{Row, Verdict, counts, tables};
use std::fmt::Write as _;

const PAGE_STYLE: &str = "\
:root { color-scheme: light dark; --text: #1f2328; --back: #ffffff; --edge: #d1d9e0; --soft: #f6f8fa; \
--link: #0969da; --good: #116329; --bad: #a40e26; --open: #59636e; }
@media (prefers-color-scheme: dark) { :root { --text: #f0f6fc; --back: #0d1117; --edge: #3d444d; \
--soft: #151b23; --link: #4493f8; --good: #56d364; --bad: #ff7b72; --open: #9198a1; } }
body { margin: 0 auto; max-width: 1200px; padding: 1rem 1.5rem 4rem; color: var(--text); \
background: var(--back); font: 15px/1.5 system-ui, sans-serif; }
a { color: var(--link); }
h1 { font-size: 1.7rem; margin-bottom: .3rem; }
h2 { margin-top: 3rem; padding-bottom: .3rem; border-bottom: 1px solid var(--edge); }
table { border-collapse: collapse; font-size: 13px; margin: 1rem 0; }
.scroll { overflow-x: auto; }
th, td { border: 1px solid var(--edge); padding: .25rem .5rem; text-align: left; vertical-align: top; }
th { background: var(--soft); }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.words { color: var(--open); min-width: 7rem; }
td.holds { color: var(--good); }
td.no-longer { color: var(--bad); font-weight: 600; }
td.source { font-size: 12px; min-width: 11rem; }
td.open { color: var(--open); }
figure { margin: 1rem 0; padding: .5rem; background: var(--soft); border: 1px solid var(--edge); \
border-radius: 6px; }
svg.picture { display: block; width: 100%; max-width: 900px; height: auto; }
code { font-size: 12px; overflow-wrap: anywhere; }
";

const READING: &str = "\
<p>Each row is a published number or claim, what Linux does today, and what this repository does. \
<em>Published</em> is the number of the text, words of a claim, or &quot;no number in the text&quot; where a \
chart is lost. <em>Linux</em> is Debian's kernel under QEMU. The verdict is computed from the measured \
values by a rule: <em>holds</em>, <em>holds no longer</em>, or <em>not comparable</em>. The word in \
parentheses says what a value is worth: <em>exact</em> values are counts, bytes and formulas; \
<em>model</em> values are exact counts times the times of a data sheet or of the simulated card; of \
<em>order</em> values only order and ratio mean something. Sources name text and line: \
<code>001:78</code> is line 78 of text 001. The same rows are in <code>results.json</code> and \
<code>results.csv</code>.</p>
";

const HEADS: [&str; 9] =
    ["row", "system", "medium", "metric", "published", "Linux", "ours", "verdict", "source"];

/// The words of a table.
#[derive(Clone, Debug)]
pub(in crate::evaluate) struct Words {
    pub(in crate::evaluate) title: &'static str,
    /// What a reader must know about the table.
    pub(in crate::evaluate) note: String,
}

/// Returns the page.
pub(super) fn page(rows: &[Row], manifest: &Manifest, words: &dyn Fn(&str) -> Words) -> String {
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>Evaluation of eraseblock</title>\n<style>\n{PAGE_STYLE}{STYLE}</style>\n</head>\n<body>\n\
         <h1>Published tables, measured again</h1>\n"
    );
    let [holds, no_longer, open] = counts(rows);
    let _ = writeln!(
        html,
        "<p>Of the published numbers and claims, <strong>{holds} hold, {no_longer} hold no longer, {open} \
         are not comparable</strong>. {} rows in {} tables.</p>",
        rows.len(),
        tables(rows).len()
    );
    html.push_str(READING);
    overview(&mut html, rows, words);
    for name in tables(rows) {
        let of_table: Vec<&Row> = rows.iter().filter(|row| row.table == name).collect();
        section(&mut html, name, &words(name), &of_table);
    }
    provenance(&mut html, manifest);
    html.push_str("</body>\n</html>\n");
    html
}

fn overview(html: &mut String, rows: &[Row], words: &dyn Fn(&str) -> Words) {
    html.push_str(
        "<div class=\"scroll\"><table><thead><tr><th>table</th><th>about</th><th>rows</th><th>hold</th>\
         <th>hold no longer</th><th>not comparable</th><th>in Linux</th></tr></thead><tbody>\n",
    );
    for name in tables(rows) {
        let of_table = || rows.iter().filter(|row| row.table == name);
        let in_linux = of_table().filter(|row| row.linux != crate::evaluate::rows::Cell::not_run());
        let [holds, no_longer, open] = counts(of_table());
        let _ = write!(
            html,
            "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td>",
            escape(name),
            escape(words(name).title)
        );
        for count in [of_table().count(), holds, no_longer, open, in_linux.count()] {
            let _ = write!(html, "<td class=\"number\">{count}</td>");
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}

fn section(html: &mut String, name: &str, words: &Words, rows: &[&Row]) {
    let title = format!("{name}: {}", words.title);
    let _ = writeln!(html, "<h2 id=\"{}\">{}</h2>", escape(name), escape(&title));
    if !words.note.is_empty() {
        let _ = writeln!(html, "<p>{}</p>", escape(&words.note));
    }
    if let Some(picture) = Picture::of(&title, rows) {
        let _ = writeln!(html, "<figure>\n{}</figure>", picture.to_svg(Standing::InPage));
    }
    html.push_str("<div class=\"scroll\"><table><thead><tr>");
    for head in HEADS {
        let _ = write!(html, "<th>{head}</th>");
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for text in [&row.row, &row.system, &row.medium, &row.metric] {
            let _ = write!(html, "<td>{}</td>", escape(text));
        }
        for cell in [&row.published, &row.linux, &row.ours] {
            let class = match cell {
                crate::evaluate::rows::Cell::Text(_) => "words",
                _ => "number",
            };
            let _ = write!(html, "<td class=\"{class}\">{}</td>", escape(&row.with_unit(cell)));
        }
        let (class, sign) = sign(row.verdict);
        let _ = writeln!(
            html,
            "<td class=\"{class}\">{sign}{}</td><td class=\"source\">{}</td></tr>",
            escape(&row.judgement()),
            escape(&row.source)
        );
    }
    html.push_str("</tbody></table></div>\n");
}

/// Returns the class and the sign of a verdict; its words stand after the sign.
const fn sign(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::Holds => ("holds", "&#10003; "),
        Verdict::HoldsNoLonger => ("no-longer", "&#10007; "),
        Verdict::NotComparable => ("open", "&#8211; "),
        Verdict::NoClaim => ("open", ""),
    }
}

fn provenance(html: &mut String, manifest: &Manifest) {
    let _ = writeln!(
        html,
        "<h2 id=\"inputs\">What went into this</h2>\n<p>Hash of all inputs: <code>{}</code></p>\n\
         <div class=\"scroll\"><table><tbody>",
        manifest.hash()
    );
    for (name, value) in manifest.entries() {
        let _ = writeln!(
            html,
            "<tr><th>{}</th><td><code>{}</code></td></tr>",
            escape(name),
            escape(value)
        );
    }
    html.push_str("</tbody></table></div>\n");
}

#[cfg(test)]
mod tests {
    use super::super::markup;
    use super::*;
    use crate::evaluate::rows::Fidelity;

    fn words(_table: &str) -> Words {
        Words { title: "small files", note: "cold & \"warm\"".to_owned() }
    }

    fn text() -> String {
        let claim = Row::new("L1", "claim: <script>alert(1)</script>", "time", "s")
            .published("\"quoted\" & more", "002:1 \"x\"")
            .ours(1_u64, Fidelity::Order);
        let rows = [
            Row::new("L1", "write", "card time", "s").published(2.0, "").ours(1.5, Fidelity::Model),
            claim.clone().judged(Verdict::Holds),
            claim.clone().judged(Verdict::HoldsNoLonger),
            claim.judged(Verdict::NotComparable),
        ];
        let mut manifest = Manifest::default();
        manifest.add("kernel", "6.1 <x>");
        page(&rows, &manifest, &words)
    }

    #[test]
    fn the_page_is_well_formed_and_everything_in_it_is_escaped() {
        let html = text();
        markup::check(&html).unwrap();
        assert!(!html.contains("<script") && !html.contains("6.1 <x>"), "{html}");
        assert!(html.contains("cold &amp; &quot;warm&quot;") && html.contains("6.1 &lt;x&gt;"));
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let html = text().replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!html.contains(outside), "{outside}");
        }
    }

    #[test]
    fn verdicts_have_words() {
        let html = text();
        for words in [
            "&#10003; holds (order)",
            "&#10007; holds no longer (order)",
            "&#8211; not comparable (order)",
        ] {
            assert!(html.contains(words), "{words}");
        }
        assert!(html.contains("1 hold, 1 hold no longer, 1"), "{html}");
    }
}
