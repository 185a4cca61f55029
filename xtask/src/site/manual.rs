//! The pages of the manual: mandoc turns them into HTML, whose sections become those of a page.

use crate::command::output;
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Writes the pages of the command `bin` into the folder `man` of `pages`; returns their names, the
/// command's own first.
pub(super) fn write(bin: &Path, pages: &Path) -> Result<Vec<String>> {
    let raw = pages.with_file_name("man");
    output(Command::new(bin).arg("man").arg(&raw)).context("hint: make site builds the command")?;
    let mut names = Vec::new();
    for entry in fs::read_dir(&raw)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    // `eraseblock.1` would be last of its kind: a dot follows a dash.
    names.sort_by_key(|name| {
        (name != "eraseblock.1", !name.starts_with("eraseblock"), name.clone())
    });
    for name in &names {
        let mut mandoc = Command::new("mandoc");
        let html = output(mandoc.args(["-T", "html", "-O", "fragment"]).arg(raw.join(name)))?;
        let page = page(name, &html, &names);
        super::pages::write(&pages.join("man").join(format!("{name}.md")), page.as_bytes())?;
    }
    Ok(names)
}

/// `ubinize.8` as `ubinize(8)`.
fn title(name: &str) -> String {
    let (name, section) = name.rsplit_once('.').unwrap_or((name, ""));
    format!("{name}({section})")
}

/// The page of `name`; `names` are all pages.
fn page(name: &str, html: &str, names: &[String]) -> String {
    let mut page = format!("# {}\n", title(name));
    for section in html.split("<section class=\"Sh\">").skip(1) {
        let Some((heading, body)) = section.split_once("</h1>") else { continue };
        let body = body.split("</section>").next().unwrap_or_default().trim();
        let heading = heading.rsplit_once("\">").map_or("", |(_, text)| text);
        let heading = heading.trim_end_matches("</a>").split_whitespace().collect::<Vec<_>>();
        let heading = heading.join(" ").to_lowercase();
        let (first, rest) = heading.split_at(heading.len().min(1));
        let _ = writeln!(page, "\n## {}{rest}\n", first.to_uppercase());
        let _ = writeln!(page, "<div class=\"manual\" markdown=\"0\">");
        for line in body.lines() {
            let _ = writeln!(page, "{}", linked(line, names));
        }
        let _ = writeln!(page, "</div>");
    }
    page
}

/// A line; a term that is another page is a link to it. The generator takes links as from the folder
/// of the page, also in HTML.
fn linked(line: &str, names: &[String]) -> String {
    let of = |name: &&String| line.ends_with(&format!(">{}</a></dt>", title(name)));
    match names.iter().find(of) {
        Some(name) => format!("  <dt><a href=\"{name}/\">{}</a></dt>", title(name)),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_become_headings_and_pages_become_links() {
        let names = ["a-b.1", "a.1", "c.8"].map(str::to_owned);
        let html = "<table/>\n<section class=\"Sh\">\n<h1 class=\"Sh\" id=\"EXIT_STATUS\"><a \
                    class=\"permalink\" href=\"#EXIT_STATUS\">EXIT\n  STATUS</a></h1>\n<p>x</p>\n\
                    </section>\n<section class=\"Sh\">\n<h1 id=\"S\"><a href=\"#S\">S</a></h1>\n  \
                    <dt id=\"a\"><a href=\"#a\">a-b(1)</a></dt>\n</section>\n</div>";
        let text = page("a.1", html, &names);
        let expected = "# a(1)\n\n## Exit status\n\n<div class=\"manual\" markdown=\"0\">\n<p>x</p>\n\
                        </div>\n\n## S\n\n<div class=\"manual\" markdown=\"0\">\n  \
                        <dt><a href=\"a-b.1/\">a-b(1)</a></dt>\n</div>\n";
        assert_eq!(text, expected);
    }
}
