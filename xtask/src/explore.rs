//! `cargo xtask explore`: the page of `eraseblock explore` in a real browser.
//!
//! Chromium runs without a window and resolves no name. Every view is opened with the keyboard alone and
//! compared with what the commands print; images whose names and contents are markup must not run
//! anything; the report must open from a file. Screenshots go to docs/explore.

mod images;

use crate::browser::Browser;
use crate::command::{find_program, output, repository};
use anyhow::{Context, Result, bail, ensure};
use images::Images;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest wait for a view.
const PATIENCE: Duration = Duration::from_mins(1);
/// Key codes of WebDriver.
const TAB: &str = "\u{e004}";
const ENTER: &str = "\u{e007}";
const DOWN: &str = "\u{e015}";
const LEFT: &str = "\u{e012}";
const RIGHT: &str = "\u{e014}";
/// Tab stops until every control of a page has been met.
const STOPS: usize = 200;
/// Frames of the measurement.
const FRAMES: u32 = 60;
/// What the page must reach: frames a second, and megabytes.
const GOAL_FRAMES: f64 = 30.0;
const GOAL_MEMORY: u64 = 300;

/// The views, as their tabs are called, and their names in addresses.
const VIEWS: [(&str, &str); 6] = [
    ("Map", "map"),
    ("Block", "block"),
    ("Files", "files"),
    ("History", "past"),
    ("Findings", "findings"),
    ("Space", "space"),
];

/// Notes everything that the policy of the page forbade, and every dialog.
const WATCH: &str = "window.broken = []; \
    addEventListener('securitypolicyviolation', (event) => broken.push(event.violatedDirective)); \
    addEventListener('error', (event) => broken.push(event.message)); \
    addEventListener('unhandledrejection', (event) => broken.push(String(event.reason)));";

/// Runs all checks; false when one failed.
pub(crate) fn run(args: &[String]) -> Result<bool> {
    let mut bin = repository().join("target/debug/eraseblock");
    let (mut rest, mut has_pictures, mut has_figures) = (args.iter(), false, false);
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--bin" => bin = PathBuf::from(rest.next().context("--bin needs a value")?),
            "--screenshots" => has_pictures = true,
            "--figures" => has_figures = true,
            other => bail!("unknown argument {other}"),
        }
    }
    for program in ["chromium", "chromedriver"] {
        let hint = "make explore installs it";
        find_program(program).with_context(|| format!("{program} is missing (hint: {hint})"))?;
    }
    let bin = fs::canonicalize(&bin).with_context(|| format!("{} is missing", bin.display()))?;
    let folder = tempfile::tempdir()?;
    let images = Images::make(&bin, folder.path())?;
    let mut browser = Browser::start()?;
    let mut run = Run { bin, images, browser: &mut browser, passed: 0, failed: 0 };
    run.check("every view opens with the keyboard, and shows what the commands print", Run::views);
    run.check("nothing of a hostile image runs", Run::hostile);
    run.check("findings and plan of a damaged image", Run::damaged);
    run.check("a raw dump shows its recipe and corrected bits", Run::dump);
    run.check("the report opens from a file", Run::report);
    run.check("no serious fault of accessibility is known", Run::accessible);
    if has_figures {
        run.check("65,536 blocks", Run::figures);
    }
    if has_pictures {
        run.check("screenshots", Run::pictures);
    }
    println!("{} passed, {} failed", run.passed, run.failed);
    Ok(run.failed == 0)
}

struct Run<'a> {
    bin: PathBuf,
    images: Images,
    browser: &'a mut Browser,
    passed: u32,
    failed: u32,
}

/// A server of one image.
struct Page {
    server: Child,
    address: String,
}

impl Page {
    fn serve(bin: &Path, image: &Path) -> Result<Self> {
        let mut command = Command::new(bin);
        let name = image.file_name().context("no name")?;
        command.arg("explore").arg(name).arg("--no-open").stdout(Stdio::piped());
        command.current_dir(image.parent().context("no folder")?);
        let mut server = command.spawn()?;
        let out = server.stdout.take().context("no standard output")?;
        let mut address = String::new();
        BufReader::new(out).read_line(&mut address)?;
        Ok(Self { server, address: address.trim().to_owned() })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

impl Run<'_> {
    fn check(&mut self, name: &str, check: fn(&mut Self) -> Result<()>) {
        let begin = Instant::now();
        let outcome = check(self);
        let time = begin.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                self.passed += 1;
                println!("pass  {time:>5.1} s  {name}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAIL  {time:>5.1} s  {name}: {error:#}");
            }
        }
    }

    /// What a command prints as JSON.
    fn printed(&self, args: &[&str], image: &Path) -> Result<Value> {
        let mut command = Command::new(&self.bin);
        let (first, rest) = args.split_first().context("no command")?;
        command.arg(first).arg(image).args(rest).arg("--json");
        let done = command.stdin(Stdio::null()).output()?;
        Ok(serde_json::from_slice(&done.stdout)?)
    }

    fn open(&mut self, image: &Path) -> Result<Page> {
        let page = Page::serve(&self.bin, image)?;
        self.browser.go("about:blank")?;
        self.browser.watch(WATCH)?;
        self.browser.go(&page.address)?;
        self.ready("map")?;
        Ok(page)
    }

    /// Waits until a view is complete.
    fn ready(&mut self, name: &str) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let state =
                self.browser.js("return document.getElementById('view').dataset.ready", &[])?;
            if state == json!(name) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        let text = self.browser.js("return document.body.innerText.slice(0, 300)", &[])?;
        bail!("the view {name} does not appear: {text}")
    }

    /// Presses the tabulator until the element that has the focus fits.
    fn tab_to(&mut self, what: &str, fits: &str) -> Result<()> {
        for _ in 0..STOPS {
            self.browser.keys(TAB)?;
            let script = format!("const it = document.activeElement; return Boolean({fits})");
            if self.browser.js(&script, &[])? == json!(true) {
                return Ok(());
            }
        }
        bail!("{what} is not reached with the tabulator")
    }

    /// Opens a view by its tab, with the keyboard.
    fn view(&mut self, title: &str, name: &str) -> Result<()> {
        self.tab_to(title, &format!("it.matches('nav a') && it.textContent === '{title}'"))?;
        self.browser.keys(ENTER)?;
        self.ready(name)
    }

    fn is_sound(&mut self) -> Result<()> {
        let broken = self.browser.js("return window.broken", &[])?;
        ensure!(broken == json!([]), "the page broke a rule: {broken}");
        for message in self.browser.log("browser")? {
            ensure!(!message.contains("SEVERE"), "the console says {message}");
        }
        for message in self.browser.log("performance")? {
            let event: Value = serde_json::from_str(&message)?;
            let url = event["message"]["params"]["request"]["url"].as_str().unwrap_or("");
            let is_own =
                ["http://127.0.0.1:", "blob:http://127.0.0.1:", "file:///", "about:", "data:,"];
            ensure!(
                url.is_empty() || is_own.iter().any(|own| url.starts_with(own)),
                "a request goes to {url}"
            );
        }
        Ok(())
    }

    fn text(&mut self, script: &str) -> Result<String> {
        let value = self.browser.js(&format!("return String({script})"), &[])?;
        Ok(value.as_str().unwrap_or_default().replace('\u{2009}', ""))
    }

    fn views(&mut self) -> Result<()> {
        let image = self.images.past.clone();
        let _page = self.open(&image)?;
        self.tab_to("the map", "it.id === 'map'")?;
        let before = self.text("document.getElementById('cell').textContent")?;
        self.browser.keys(RIGHT)?;
        let after = self.text("document.getElementById('cell').textContent")?;
        ensure!(before != after, "the arrow key does not move: {after}");
        self.browser.keys(LEFT)?;
        self.browser.keys(ENTER)?;
        self.ready("block")?;
        self.tab_to("the strip", "it.matches('.strip')")?;
        self.tab_to("a field", "it.closest('.fields') && it.matches('button')")?;
        self.browser.keys(DOWN)?;
        let lit = self.text("document.querySelectorAll('.hex .lit').length")?;
        ensure!(lit.parse().unwrap_or(0) > 0, "a field lights no bytes");
        for (title, name) in VIEWS {
            self.view(title, name)?;
            match name {
                "files" => self.files()?,
                "past" => self.past(&image)?,
                "findings" => self.findings(&image)?,
                "space" => self.space(&image)?,
                _ => {}
            }
        }
        self.is_sound()
    }

    fn files(&mut self) -> Result<()> {
        self.tab_to("the tree", "it.matches('[role=treeitem]')")?;
        for _ in 0..STOPS {
            self.browser.keys(DOWN)?;
            let name = self.text("document.activeElement.querySelector('.name').textContent")?;
            if name == "motd" {
                self.browser.keys(ENTER)?;
                return self
                    .wait_for("third", "(document.querySelector('.preview') || {}).textContent");
            }
        }
        bail!("the tree has no motd")
    }

    fn wait_for(&mut self, wanted: &str, script: &str) -> Result<()> {
        let begin = Instant::now();
        let mut text = String::new();
        while begin.elapsed() < PATIENCE {
            text = self.text(script)?;
            if text.contains(wanted) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        bail!("expected {wanted:?}, found {text:?}")
    }

    fn past(&mut self, image: &Path) -> Result<()> {
        let printed = self.printed(&["history"], image)?;
        let commits = printed["commits"].as_array().context("no commits")?;
        let rows = "[...document.querySelectorAll('#commits tbody tr')].map((row) => \
                    row.children[0].textContent + ' ' + row.children[1].textContent)";
        let expected: Vec<String> =
            commits.iter().map(|it| format!("{} {}", it["number"], it["sqnum"])).collect();
        let found = self.text(rows)?;
        ensure!(found == expected.join(","), "commits: {found}, expected {expected:?}");
        let deleted = self.printed(&["history", "--deleted"], image)?;
        let count = deleted["deleted"].as_array().map_or(0, Vec::len);
        self.wait_for(&count.to_string(), "document.querySelectorAll('#deleted tbody tr').length")?;
        self.tab_to("the slider", "it.id === 'slider'")?;
        self.browser.keys("\u{e011}")?;
        let first = format!("commit {},", commits.first().context("no commit")?["number"]);
        self.wait_for(&first, "document.getElementById('as-of').textContent")?;
        self.browser.keys("\u{e010}")?;
        self.wait_for("now", "document.getElementById('as-of').textContent")
    }

    fn findings(&mut self, image: &Path) -> Result<()> {
        let printed = self.printed(&["check"], image)?;
        let consistent = printed["consistent"] == json!(true);
        let verdict = self.text("document.getElementById('verdict').textContent")?;
        ensure!(verdict.starts_with("Consistent") == consistent, "{verdict}");
        let count = printed["findings"].as_array().map_or(0, Vec::len);
        let rows = self.text("document.querySelectorAll('#findings tbody tr').length")?;
        ensure!(rows == count.min(100).to_string(), "{rows} rows, {count} findings");
        Ok(())
    }

    fn space(&mut self, image: &Path) -> Result<()> {
        let printed = self.printed(&["debug", "-c", "census"], image)?;
        for (state, sum) in printed["census"].as_object().context("no census")? {
            let script = format!(
                "[...document.querySelectorAll('[data-state={state}] [data-records], [data-state={state}] \
                 [data-bytes]')].map((it) => it.dataset.records || it.dataset.bytes)"
            );
            let found = self.text(&script)?;
            let expected = format!("{},{}", sum["records"], sum["bytes"]);
            ensure!(found == expected, "{state}: {found}, expected {expected}");
        }
        Ok(())
    }

    fn hostile(&mut self) -> Result<()> {
        let image = self.images.hostile.clone();
        let _page = self.open(&image)?;
        for (title, name) in VIEWS {
            self.view(title, name)?;
            if name == "files" {
                self.every_file()?;
            }
        }
        let odd = "/[\\u202a-\\u202e\\u2066-\\u2069\\u0000-\\u0008\\u001b]/.test(document.body.textContent)";
        ensure!(self.text(odd)? == "false", "a letter that turns text around is shown as it is");
        let made = "document.querySelectorAll('main script, main iframe, main svg, main b, main form, main style').length";
        ensure!(self.text(made)? == "0", "a name became markup");
        ensure!(self.text("window.pwned")? == "undefined", "a script of the image ran");
        self.is_sound()
    }

    /// Opens every directory and looks at every file.
    fn every_file(&mut self) -> Result<()> {
        let names = self.text("document.querySelectorAll('[role=treeitem]').length")?;
        let count: usize = names.parse()?;
        ensure!(count > 10, "{count} files");
        self.tab_to("the tree", "it.matches('[role=treeitem]')")?;
        for _ in 0..count {
            self.browser.keys(DOWN)?;
            self.browser.keys(RIGHT)?;
            self.browser.keys(ENTER)?;
            self.wait_for("/", "(document.getElementById('file-name') || {}).textContent")?;
        }
        Ok(())
    }

    fn damaged(&mut self) -> Result<()> {
        let image = self.images.damaged.clone();
        let _page = self.open(&image)?;
        self.view("Findings", "findings")?;
        self.findings(&image)?;
        let printed = self.printed(&["repair"], &image)?;
        let actions = printed["actions"].as_array().map_or(0, Vec::len);
        ensure!(actions > 0, "the damaged image needs no repair");
        let rows = self.text("document.querySelectorAll('#plan tbody tr').length")?;
        ensure!(rows == actions.to_string(), "{rows} rows, {actions} actions");
        let losses = printed["loses"].as_array().map_or(0, Vec::len);
        let rows = self.text("document.querySelectorAll('#loses li').length")?;
        ensure!(rows == losses.to_string(), "{rows} rows, {losses} losses");
        self.is_sound()
    }

    fn dump(&mut self) -> Result<()> {
        let image = self.images.dump.clone();
        let _page = self.open(&image)?;
        self.view("Dump", "dump")?;
        let mut command = Command::new(&self.bin);
        let text = output(command.args(["nand", "detect"]).arg(&image).arg("--json"))?;
        let printed: Value = serde_json::from_str(&text)?;
        let word = |value: &Value| value.as_str().map(str::to_owned).context("no word");
        let confidence = word(&printed["confidence"])?;
        let name = word(&printed["recipes"][0]["name"])?;
        let shown = self.text("document.getElementById('confidence').textContent")?;
        ensure!(
            shown.contains(&confidence) && shown.contains(&name),
            "{shown}: {name}, {confidence}"
        );
        let bits = self.text("document.getElementById('corrected-bits').textContent")?;
        ensure!(bits == self.images.flips.to_string(), "{bits} bits of {}", self.images.flips);
        let recipe = self.text("document.getElementById('recipe').textContent")?;
        ensure!(recipe.contains(&name), "{recipe}: {name}");
        let parts = self.text("document.querySelectorAll('#recipe details tbody tr').length")?;
        ensure!(parts.parse::<usize>()? >= 8, "{parts} parts of a page");
        self.browser.ensure_accessible().context("the dump")?;
        self.is_sound()
    }

    fn report(&mut self) -> Result<()> {
        for image in [self.images.past.clone(), self.images.hostile.clone()] {
            let file = image.with_extension("html");
            let mut command = Command::new(&self.bin);
            command.arg("explore").arg(&image).arg("--export").arg(&file);
            output(command.args(["--with-contents", "1MiB"]))?;
            self.browser.go("about:blank")?;
            self.browser.go(&format!("file://{}", file.display()))?;
            self.ready("map")?;
            for (title, name) in VIEWS {
                self.view(title, name)?;
                let text = self.text("document.getElementById('view').innerText")?;
                let is_missing = text.contains("this report does not contain it");
                ensure!(!is_missing, "{title}: {text}");
            }
            self.space(&image)?;
            self.view("Files", "files")?;
            if image == self.images.past {
                self.files()?;
                self.deleted_file()?;
            } else {
                self.every_file()?;
            }
            ensure!(self.text("window.pwned")? == "undefined", "a script of the image ran");
            self.is_sound()?;
        }
        Ok(())
    }

    /// Looks at the content of a deleted file.
    fn deleted_file(&mut self) -> Result<()> {
        let pick = "const gone = [...document.querySelectorAll('[role=treeitem].gone')].find((it) => \
            it.querySelector('.name').textContent === 'key'); gone.pick(); return gone.textContent";
        self.browser.js(pick, &[])?;
        let shows =
            "[...document.querySelectorAll('button')].filter((it) => it.textContent === 'Show')";
        self.wait_for("true", &format!("{shows}.length > 0"))?;
        self.browser.js(&format!("{shows}[0].click()"), &[])?;
        self.wait_for("key-1", "(document.querySelector('.preview') || {}).textContent")
    }

    fn accessible(&mut self) -> Result<()> {
        let image = self.images.past.clone();
        let _page = self.open(&image)?;
        for scheme in ["light", "dark"] {
            self.browser.scheme(scheme)?;
            for (title, name) in VIEWS {
                self.view(title, name)?;
                self.browser.ensure_accessible().with_context(|| format!("{title}, {scheme}"))?;
            }
        }
        self.browser.scheme("light")
    }

    fn figures(&mut self) -> Result<()> {
        let image = self.images.many_blocks(&self.bin)?;
        let begin = Instant::now();
        let page = Page::serve(&self.bin, &image)?;
        let census = begin.elapsed();
        let begin = Instant::now();
        self.browser.go(&page.address)?;
        self.ready("map")?;
        let first = begin.elapsed();
        let script = "const done = arguments[arguments.length - 1]; const view = document.getElementById('place'); \
            const begin = performance.now(); let left = arguments[0]; \
            const step = () => { view.redraw(); left -= 1; if (left) requestAnimationFrame(step); \
            else done(performance.now() - begin); }; requestAnimationFrame(step);";
        let millis = self.browser.wait_js(&script.replace("arguments[0]", &FRAMES.to_string()))?;
        let frames = f64::from(FRAMES) * 1000.0 / millis.as_f64().unwrap_or(f64::INFINITY);
        let memory = peak(page.server.id())?;
        println!(
            "      census {:.1} s, first view after it {:.2} s, {frames:.0} frames/s, server {memory} MiB at most",
            census.as_secs_f64(),
            first.as_secs_f64()
        );
        ensure!(frames >= GOAL_FRAMES, "{frames:.0} frames a second");
        ensure!(memory <= GOAL_MEMORY, "{memory} MiB");
        Ok(())
    }

    fn pictures(&mut self) -> Result<()> {
        let folder = repository().join("docs/explore");
        fs::create_dir_all(&folder)?;
        let shown = self.images.shown.clone();
        let page = self.open(&shown)?;
        for scheme in ["light", "dark"] {
            self.browser.scheme(scheme)?;
            for (title, name) in VIEWS {
                if scheme == "dark" && name != "block" {
                    continue;
                }
                self.view(title, name)?;
                if name == "files" {
                    let click = "[...document.querySelectorAll('[role=treeitem]')].find((it) => \
                        it.querySelector('.name').textContent === 'motd').pick()";
                    self.browser.js(click, &[])?;
                    self.wait_for(
                        "motd",
                        "(document.getElementById('file-name') || {}).textContent",
                    )?;
                }
                if name == "block" {
                    self.tab_to("a field", "it.closest('.fields') && it.matches('button')")?;
                    self.browser.keys(&DOWN.repeat(7))?;
                }
                let suffix = if scheme == "dark" { "-dark" } else { "" };
                self.picture(&folder.join(format!("{name}{suffix}.png")))?;
            }
        }
        drop(page);
        self.browser.scheme("light")?;
        for (image, title, name) in [
            (self.images.dump.clone(), "Dump", "dump"),
            (self.images.damaged.clone(), "Findings", "findings"),
            (self.images.past.clone(), "History", "past"),
        ] {
            let _page = self.open(&image)?;
            self.view(title, name)?;
            self.picture(&folder.join(format!("{name}.png")))?;
        }
        Ok(())
    }

    fn picture(&mut self, path: &Path) -> Result<()> {
        // Canvases are drawn in the next frame.
        std::thread::sleep(Duration::from_millis(400));
        fs::write(path, self.browser.screenshot()?)?;
        Ok(())
    }
}

/// Returns the most memory that a process had, in MiB.
fn peak(process: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 =
        line.and_then(|line| line.split_whitespace().next()).context("no VmHWM")?.parse()?;
    Ok(kib / 1024)
}
