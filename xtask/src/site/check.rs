//! The site as its readers see it: all links lead somewhere, nothing comes from elsewhere, the search
//! finds, and neither colour scheme has a serious fault of accessibility.

use crate::browser::Browser;
use crate::command::find_program;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest wait for results of the search.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pages that are looked at, and names for pictures of them.
const LOOKED_AT: [(&str, &str); 5] = [
    ("", "start"),
    ("docs/guide-mount/", "guide"),
    ("docs/format/ubifs-format/", "format"),
    ("man/eraseblock-mount.1/", "manual"),
    ("docs/json/", "tables"),
];

/// What a reader looks for, and the page that must be among the results.
const WANTED: [(&str, &str); 3] =
    [("autoresize", "layout-file"), ("ubinize", "man/ubinize.8"), ("fastmap", "format/ubi")];

/// Runs all checks; the first failure ends the run.
pub(super) fn run(site: &Path, has_pictures: bool) -> Result<bool> {
    let pages = Pages::read(site)?;
    let followed = pages.follow()?;
    println!("pass: {followed} links of {} pages lead somewhere", pages.0.len());
    for program in ["chromium", "chromedriver"] {
        find_program(program).with_context(|| format!("{program} is missing (hint: make site)"))?;
    }
    let server = Server::start(site)?;
    let browser = Browser::start()?;
    let (mut passed, mut faults) = (1, Vec::new());
    for scheme in ["light", "dark"] {
        browser.scheme(scheme)?;
        // The pages remember the scheme of the first visit.
        browser.go(&server.address(""))?;
        browser.js("localStorage.clear()", &[])?;
        for (place, name) in LOOKED_AT {
            browser.go(&server.address(place))?;
            let shown = browser.js("return document.body.dataset.mdColorScheme", &[])?;
            let palette = if scheme == "dark" { "slate" } else { "default" };
            ensure!(shown == json!(palette), "{name} is shown in {shown}, expected {palette}");
            if let Err(fault) = browser.ensure_accessible() {
                faults.push(format!("{name}, {scheme}: {fault}"));
            }
            let wide = browser.js(
                "return document.documentElement.scrollWidth > document.documentElement.clientWidth",
                &[],
            )?;
            ensure!(wide == json!(false), "{name} is wider than the window");
            picture(&browser, site, has_pictures, &format!("{name}-{scheme}"))?;
        }
        for (word, page) in WANTED {
            search(&browser, &server, (word, page))?;
            picture(&browser, site, has_pictures, &format!("search-{word}-{scheme}"))?;
        }
        passed += LOOKED_AT.len() + WANTED.len();
        println!("pass: pages and search, {scheme}");
    }
    ensure!(faults.is_empty(), "axe-core finds:\n{}", faults.join("\n"));
    requests(&browser, &server)?;
    println!("{} passed, 0 failed", passed + 1);
    Ok(true)
}

/// Every page of the site, with its identifiers and the targets of its links.
struct Pages(BTreeMap<PathBuf, Page>);

struct Page {
    ids: BTreeSet<String>,
    targets: Vec<String>,
}

impl Pages {
    fn read(site: &Path) -> Result<Self> {
        let (mut pages, mut open) = (BTreeMap::new(), vec![site.canonicalize()?]);
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|kind| kind == "html") {
                    let text = fs::read_to_string(&path)?;
                    let mut targets = values(&text, "href");
                    targets.extend(values(&text, "src"));
                    let ids = values(&text, "id").into_iter().collect();
                    pages.insert(path, Page { ids, targets });
                }
            }
        }
        ensure!(!pages.is_empty(), "{} has no pages", site.display());
        Ok(Self(pages))
    }

    /// Follows every link within the site, and returns their number.
    fn follow(&self) -> Result<usize> {
        let (mut followed, mut lost) = (0, Vec::new());
        for (path, page) in &self.0 {
            // The page for what is not there can be shown at any address.
            if path.ends_with("404.html") {
                continue;
            }
            for target in page.targets.iter().filter(|target| !is_elsewhere(target)) {
                followed += 1;
                if !self.leads_somewhere(path, target)? {
                    lost.push(format!("{}: {target}", path.display()));
                }
            }
        }
        ensure!(lost.is_empty(), "these links lead nowhere:\n{}", lost.join("\n"));
        Ok(followed)
    }

    fn leads_somewhere(&self, from: &Path, target: &str) -> Result<bool> {
        let (place, id) = target.split_once('#').unwrap_or((target, ""));
        let place = place.split('?').next().unwrap_or_default();
        let mut path = from.to_owned();
        if !place.is_empty() {
            path = from.parent().context("a page is in a folder")?.join(place);
        }
        let Ok(mut path) = path.canonicalize() else { return Ok(false) };
        if path.is_dir() {
            path.push("index.html");
        }
        let page = self.0.get(&path);
        Ok(path.is_file() && (id.is_empty() || page.is_some_and(|page| page.ids.contains(id))))
    }
}

fn is_elsewhere(target: &str) -> bool {
    ["http:", "https:", "mailto:", "data:", "javascript:"].iter().any(|it| target.starts_with(it))
}

/// The values of an attribute in HTML; a value may have no quotes.
fn values(text: &str, attribute: &str) -> Vec<String> {
    let value = |rest: &str| {
        let plain = |c: char| c.is_whitespace() || c == '>';
        let value = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split(plain).next(),
        };
        value.unwrap_or_default().replace("&amp;", "&")
    };
    text.split(&format!(" {attribute}=")).skip(1).map(value).collect()
}

/// A server of the site on this machine.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(site: &Path) -> Result<Self> {
        let mut command = Command::new("python3");
        command.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory"]);
        command.arg(site).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("python3")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no standard output")?).read_line(&mut line)?;
        let port = line.split(" port ").nth(1).and_then(|rest| rest.split(' ').next());
        let port = port.and_then(|port| port.parse().ok());
        Ok(Self { child, port: port.with_context(|| format!("the server prints {line:?}"))? })
    }

    fn address(&self, place: &str) -> String {
        format!("http://127.0.0.1:{}/{place}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks for a word, as a reader with a keyboard does.
fn search(browser: &Browser, server: &Server, (word, page): (&str, &str)) -> Result<()> {
    browser.go(&server.address(""))?;
    let begin = Instant::now();
    let mut found = Value::Null;
    browser.keys("/")?;
    let focused = "const seek = (root) => root.activeElement?.shadowRoot ? seek(root.activeElement.shadowRoot) \
        : root.activeElement?.tagName; return seek(document)";
    while browser.js(focused, &[])? != json!("INPUT") {
        ensure!(begin.elapsed() < PATIENCE, "the key / opens no search");
        std::thread::sleep(Duration::from_millis(100));
    }
    browser.keys(word)?;
    while begin.elapsed() < PATIENCE {
        let script = "const all = (root) => [...root.querySelectorAll('*')].flatMap((it) => \
            it.shadowRoot ? [it, ...all(it.shadowRoot)] : [it]); return all(document) \
            .filter((it) => it.tagName === 'A' && it.closest('[class*=search], ol, [role=dialog]') \
            && it.href.includes(arguments[0])).length";
        found = browser.js(script, &[json!(page)])?;
        if found != json!(0) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("a search for {word} finds {found} results in {page}")
}

/// Fails if the browser asked any other machine for anything.
fn requests(browser: &Browser, server: &Server) -> Result<()> {
    let mut own = 0;
    for message in browser.log("performance")? {
        let event: Value = serde_json::from_str(&message)?;
        let event = &event["message"];
        let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
        let is_elsewhere = url.starts_with("http") && !url.starts_with(&server.address(""));
        ensure!(!is_elsewhere, "the site asks for {url}");
        own += usize::from(url.starts_with("http"));
        let is_failed = event["method"] == "Network.loadingFailed";
        let is_cancelled = event["params"]["canceled"] == true;
        ensure!(!is_failed || is_cancelled, "a request failed: {event}");
    }
    ensure!(own > 0, "the log of requests is empty");
    println!("pass: {own} requests, all to the site itself");
    Ok(())
}

/// Stores what the browser shows.
fn picture(browser: &Browser, site: &Path, is_wanted: bool, name: &str) -> Result<()> {
    if is_wanted {
        let folder = site.with_file_name("pictures");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("{name}.png")), browser.screenshot()?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_link_is_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("b")).unwrap();
        let page =
            "<h1 id=top>x</h1><a href=\"b/#there\">b</a><a href=#top>x</a><img src=\"p.png\">";
        fs::write(folder.path().join("index.html"), page).unwrap();
        fs::write(folder.path().join("p.png"), "").unwrap();
        let other =
            "<p id=\"there\"><a class=\"x\" href=\"..\">up</a><a href=\"https://c.example/\">c</a>";
        fs::write(folder.path().join("b/index.html"), other).unwrap();
        assert_eq!(Pages::read(folder.path()).unwrap().follow().unwrap(), 4);
        for (place, lost) in
            [("b/index.html", "#no"), ("b/index.html", "../c"), ("index.html", "b/#no")]
        {
            let path = folder.path().join(place);
            let whole = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{whole}<a href=\"{lost}\">lost</a>")).unwrap();
            let error = Pages::read(folder.path()).unwrap().follow().unwrap_err().to_string();
            assert!(error.ends_with(&format!("{place}: {lost}")), "{error}");
            fs::write(&path, whole).unwrap();
        }
    }
}
