//! README and guides, run word for word: what they print is what the command prints.
//!
//! A block with the info string `sh` makes the files that a page uses; it must succeed. In a block
//! with `console` each line that begins with `$ ` is run, and what follows is compared; a line `...`
//! stands for any lines. Blocks that need more than a shell say so in their info string, and are
//! not run. With ERASEBLOCK_BLESS=1 the pages get the output of today instead.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a block may need that a test cannot count on.
const NOT_RUN: [&str; 4] = ["console root", "console fuse", "console network", "console long"];

/// A command of a page, and what it prints there.
struct Step {
    /// Line number of the command, from 0.
    at: usize,
    command: String,
    /// Numbers of the lines that it prints.
    printed: std::ops::Range<usize>,
    /// Whether it is a script whose output does not matter.
    is_script: bool,
}

/// The commands of a page, in order, or the first block that is not understood.
fn steps(page: &[&str]) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut lines = page.iter().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let start = number + 1;
        let length = page[start..].iter().position(|line| *line == "```");
        let end = start + length.ok_or(format!("line {}: a block without end", number + 1))?;
        match info {
            "sh" => steps.push(Step {
                at: start,
                command: page[start..end].join("\n"),
                printed: end..end,
                is_script: true,
            }),
            "console" => steps.extend(console(page, start, end)?),
            info if info.starts_with("console") && !NOT_RUN.contains(&info) => {
                return Err(format!("line {}: `{info}` is not known", number + 1));
            }
            _ => {}
        }
        lines.nth(end - start);
    }
    Ok(steps)
}

fn console(page: &[&str], start: usize, end: usize) -> Result<Vec<Step>, String> {
    let commands: Vec<usize> = (start..end).filter(|line| page[*line].starts_with("$ ")).collect();
    if commands.first() != Some(&start) {
        return Err(format!("line {}: expected a command", start + 1));
    }
    let ends = commands[1..].iter().copied().chain([end]);
    let step = |(at, end): (&usize, usize)| Step {
        at: *at,
        command: page[*at][2..].to_owned(),
        printed: at + 1..end,
        is_script: false,
    };
    Ok(commands.iter().zip(ends).map(step).collect())
}

/// A folder with the command in its own PATH.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "work"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_eraseblock"));
        symlink(binary, folder.path().join("bin/eraseblock")).unwrap();
        Self(folder)
    }

    fn run(&self, command: &str, stops: bool) -> (bool, String) {
        let path = std::env::var("PATH").unwrap();
        let bin = self.0.path().join("bin");
        let output = Command::new("sh")
            .args([if stops { "-ec" } else { "-c" }, &format!("exec 2>&1; {command}")])
            .current_dir(self.0.path().join("work"))
            .env("PATH", format!("{}:{path}", bin.display()))
            .envs([("LC_ALL", "C.UTF-8"), ("TZ", "UTC"), ("COLUMNS", "100")])
            .env_remove("SOURCE_DATE_EPOCH")
            .output()
            .unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A line without what differs from one run to the next: times, and rates of the machine. An
/// ordinary user also gets a remark about owners.
fn masked(line: &str) -> String {
    let time = regex::Regex::new("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}").unwrap();
    let rate =
        regex::Regex::new("^[0-9]+ states a second in [0-9]+ seconds; [0-9]+ a second").unwrap();
    let line = time.replace_all(line, "TIME");
    rate.replace(&line, "RATE").into_owned()
}

fn is_about_owners(line: &str) -> bool {
    line.ends_with("[owners-not-kept]")
}

/// Returns whether the lines printed are those expected, in which `...` stands for any lines.
fn fits(expected: &[&str], printed: &[&str]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((&"...", rest)) => (0..=printed.len()).any(|skip| fits(rest, &printed[skip..])),
        Some((first, rest)) => {
            let same = printed.first().is_some_and(|line| masked(line) == masked(first));
            same && fits(rest, &printed[1..])
        }
    }
}

/// Runs a page: the number of commands, the page with the output of today, and what differs.
fn run(page: &str) -> Result<(usize, String, Vec<String>), String> {
    let lines: Vec<&str> = page.lines().collect();
    let steps = steps(&lines)?;
    let desk = Desk::new();
    let mut differences = Vec::new();
    let mut blessed = String::new();
    let mut copied = 0;
    for step in &steps {
        let (success, printed) = desk.run(&step.command, step.is_script);
        if step.is_script {
            if !success {
                differences.push(format!("line {}: the script failed:\n{printed}", step.at + 1));
            }
            continue;
        }
        let expected = &lines[step.printed.clone()];
        let printed: Vec<&str> = printed.lines().filter(|line| !is_about_owners(line)).collect();
        if fits(expected, &printed) {
            continue;
        }
        differences.push(format!(
            "line {}: {}\n--- the page\n{}\n--- the command\n{}",
            step.at + 1,
            step.command,
            expected.join("\n"),
            printed.join("\n")
        ));
        if !expected.contains(&"...") {
            blessed
                .extend(lines[copied..step.printed.start].iter().map(|line| format!("{line}\n")));
            blessed.extend(printed.iter().map(|line| format!("{line}\n")));
            copied = step.printed.end;
        }
    }
    blessed.extend(lines[copied..].iter().map(|line| format!("{line}\n")));
    Ok((steps.len(), blessed, differences))
}

fn check(name: &str, at_least: usize) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let (count, blessed, differences) = run(&fs::read_to_string(&path).unwrap()).unwrap();
    if std::env::var_os("ERASEBLOCK_BLESS").is_some() {
        fs::write(&path, blessed).unwrap();
    }
    assert!(differences.is_empty(), "{name}: {}", differences.join("\n\n"));
    assert!(count >= at_least, "{name}: only {count} commands are run");
}

#[test]
fn the_readme_does_what_it_says() {
    check("README.md", 10);
}

#[test]
fn the_guide_to_analysis_does_what_it_says() {
    check("docs/guide-analysis.md", 6);
}

#[test]
fn the_guide_to_cards_does_what_it_says() {
    check("docs/guide-card.md", 6);
}

#[test]
fn the_guide_to_chips_does_what_it_says() {
    check("docs/guide-chips.md", 25);
}

#[test]
fn the_guide_to_clusters_does_what_it_says() {
    check("docs/guide-clusters.md", 6);
}

#[test]
fn the_guide_to_dumps_does_what_it_says() {
    check("docs/guide-dumps.md", 8);
}

#[test]
fn the_guide_to_forensics_does_what_it_says() {
    check("docs/guide-forensics.md", 10);
}

#[test]
fn the_guide_to_jffs2_does_what_it_says() {
    check("docs/guide-jffs2.md", 10);
}

#[test]
fn the_guide_to_repairs_does_what_it_says() {
    check("docs/guide-repair.md", 12);
}

#[test]
fn the_guide_to_the_lab_does_what_it_says() {
    check("docs/guide-lab.md", 2);
}

#[test]
fn the_guide_to_devices_does_what_it_says() {
    check("docs/guide-devices.md", 9);
}

#[test]
fn the_guide_to_other_file_systems_does_what_it_says() {
    check("docs/guide-other.md", 12);
}

#[test]
fn the_documents_of_commands_look_as_shown() {
    check("docs/json.md", 1);
}

#[test]
fn the_guide_to_the_local_page_writes_its_report() {
    check("docs/guide-explore.md", 2);
}

/// Its commands need FUSE or the network; the files they use are made.
#[test]
fn the_guide_to_mounts_makes_its_files() {
    check("docs/guide-mount.md", 1);
}

#[test]
fn every_guide_is_run() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let names = fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().file_name());
    let mut guides: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    guides.retain(|name| name.starts_with("guide-"));
    guides.sort();
    // That of Python is run by the tests of the package, python/tests/test_guide.py; that of C by
    // `cargo xtask capi`.
    let known = [
        "analysis",
        "c",
        "card",
        "chips",
        "clusters",
        "devices",
        "dumps",
        "explore",
        "forensics",
        "jffs2",
        "lab",
        "mount",
        "other",
        "python",
        "repair",
    ]
    .map(|name| format!("guide-{name}.md"));
    assert_eq!(guides, known, "a guide without a test");
}

/// The judge itself: a wrong line, a missing one, a failing script and an unknown block are found.
#[test]
fn wrong_pages_are_found() {
    let page = |block: &str| format!("# A page\n\n```sh\necho 1 > one\n```\n\n{block}\ntext\n");
    let console = |text: &str| page(&format!("```console\n{text}\n```"));
    for right in [
        "$ cat one\n1",
        "$ cat one one\n1\n1\n$ eraseblock --version | cut -c1-10\neraseblock",
        "$ seq 1 9\n1\n...\n8\n9",
        "$ echo at 2024-02-29 12:34:56\nat 2026-01-01 00:00:00",
        "$ true",
    ] {
        let (count, blessed, differences) = run(&console(right)).unwrap();
        assert!(differences.is_empty(), "{right}: {differences:?}");
        assert!(count >= 2 && blessed == console(right));
    }
    for wrong in [
        "$ cat one\n2",
        "$ cat one",
        "$ cat one\n1\n1",
        "$ seq 1 9\n1\n...\n8",
        "$ cat two\n1",
        "$ true\n",
        "$ echo 17 states\n18 states",
    ] {
        let (_, blessed, differences) = run(&console(wrong)).unwrap();
        assert_eq!(differences.len(), 1, "{wrong}");
        let (_, again, differences) = run(&blessed).unwrap();
        assert!(differences.is_empty() || wrong.contains("..."), "{wrong}: {blessed}");
        assert_eq!(again, blessed);
    }
    assert_eq!(run("```sh\nfalse\ntrue\n```\n").unwrap().2.len(), 1);
    for unknown in ["```console sudo\n$ true\n```", "```console\nno command\n```", "```sh\ntrue"] {
        assert!(run(unknown).is_err(), "{unknown}");
    }
    assert_eq!(run("```console root\n$ false\nnever\n```\n").unwrap().0, 0);
}
