//! One run of the command: its options, its output streams, and what it found.
//!
//! # Invariants
//! 1. Results go to standard output, everything about them (findings, progress, summaries) to
//!    standard error: what is piped on is never mixed with remarks.
//! 2. The exit code is decided here alone, from the findings and the failure.

use crate::failure::{Context, Exit, Failure};
use crate::inputs::Inputs;
use crate::output::Output;
use crate::style::{ColorChoice, Ink, Style};
use eraseblock::codes;
use eraseblock::observe::{Meter, Observer};
use eraseblock::raw::base::{Finding, Findings, Location, Severity};
use eraseblock::raw::vfs::{FsError, FsErrorKind, Ino};
use eraseblock::target::lock;
use eraseblock::text;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::Path;
use std::time::Duration;

/// Options that every sub-command has.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct GlobalOptions {
    /// Print the result as JSON (docs/json.md says what it looks like)
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,
    /// Do not deliver what Linux would refuse: exit with 3 instead
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub strict: bool,
    /// Print no findings, no summary and no progress
    #[arg(short, long, global = true, help_heading = "Everywhere")]
    pub quiet: bool,
    /// Print every finding: not just the first ones of each kind, nor only those that touch what was
    /// asked for
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub all_findings: bool,
    /// When to use colours
    #[arg(
        long,
        global = true,
        help_heading = "Everywhere",
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub color: ColorChoice,
}

/// How many findings of one code are printed without `--all-findings`.
const SHOWN_PER_CODE: usize = 20;

/// What a narrow question is about.
#[derive(Debug)]
struct Asked {
    /// The target, as the user wrote it.
    target: OsString,
    /// The files.
    inodes: BTreeSet<Ino>,
}

/// Interval at which work of unknown length shows progress.
const TICK: Duration = Duration::from_millis(100);

/// One run.
#[derive(Debug)]
pub(crate) struct Session {
    /// The options of this run.
    pub options: GlobalOptions,
    /// Standard output, buffered.
    pub out: BufWriter<Stdout>,
    /// The looks of standard output.
    pub style: Style,
    style_err: Style,
    findings: Findings,
    /// Findings in parts of the image that the command was not asked about.
    elsewhere: Findings,
    /// What a narrow question is about.
    asked: Option<Asked>,
    /// Next steps, printed at the end.
    steps: Vec<String>,
    /// The last line for people.
    conclusion: Option<&'static str>,
    /// Locks of what this run reads.
    locks: Vec<File>,
    /// The files that this run reads.
    inputs: Inputs,
    /// Whether two things that were compared are different.
    differs: bool,
    /// The exit code of a classic tool that is done.
    personality_exit: u8,
    /// Whether standard output holds a document already, or the bytes of a file.
    out_is_taken: bool,
}

impl Session {
    /// Starts a run.
    pub(crate) fn new(options: GlobalOptions) -> Self {
        let style = Style::new(options.color, &io::stdout());
        let style_err = Style::new(options.color, &io::stderr());
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        Self {
            options,
            out,
            style,
            style_err,
            findings: Findings::new(),
            elsewhere: Findings::new(),
            asked: None,
            steps: Vec::new(),
            conclusion: None,
            locks: Vec::new(),
            inputs: Inputs::default(),
            differs: false,
            personality_exit: 0,
            out_is_taken: false,
        }
    }

    /// Remembers a file that is read, or changed in place: it cannot be an output.
    pub(crate) fn reads(&mut self, path: &Path) {
        self.inputs.add(path);
    }

    /// The files that this run reads.
    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Keeps writers away from a file that is read until the end of the run.
    pub(crate) fn keep_still(&mut self, path: &Path) -> Result<(), Failure> {
        self.locks.extend(lock::reading(path)?);
        self.reads(path);
        if self.out_is_taken { self.inputs.refuse_stdout() } else { Ok(()) }
    }

    /// Begins a file that will be at `path`, or goes to standard output for `-`. What is there is
    /// replaced when the file is complete, unless it is one of the inputs.
    pub(crate) fn create(&mut self, path: &Path) -> Result<Output, Failure> {
        if path.as_os_str() == "-" {
            self.take_out()?;
            return Output::to_stdout();
        }
        self.create_named(path)
    }

    /// The same where `-` is the name of a file, as for the classic tools.
    pub(crate) fn create_named(&self, path: &Path) -> Result<Output, Failure> {
        self.inputs.refuse(path)?;
        Output::create(path)
    }

    /// The same for a file that must not exist yet, unless replacing it was asked for.
    pub(crate) fn create_new(&self, path: &Path, force: bool) -> Result<Output, Failure> {
        Output::create_new(path, force, &self.inputs)
    }

    /// Takes standard output for the bytes of a file: no document follows them.
    pub(crate) fn take_out(&mut self) -> Result<(), Failure> {
        self.inputs.refuse_stdout()?;
        self.out_is_taken = true;
        Ok(())
    }

    /// Remembers findings for the end of the run.
    pub(crate) fn report(&mut self, findings: Findings) {
        self.findings.append(findings);
    }

    /// Says what this run is about: findings that [`Session::report_aside`] gets and that touch
    /// nothing of it become one line.
    pub(crate) fn ask(&mut self, target: &OsStr, inodes: impl IntoIterator<Item = Ino>) {
        let asked = self
            .asked
            .get_or_insert_with(|| Asked { target: target.to_owned(), inodes: BTreeSet::new() });
        asked.inodes.extend(inodes);
    }

    /// Remembers findings of attaching and opening, which are about the whole image.
    pub(crate) fn report_aside(&mut self, findings: Findings) {
        self.elsewhere.append(findings.reword(|_, finding| {
            let is_end = finding.code == codes::AFTER_END_MARK;
            is_end.then(|| format!("{}, as --strict does", finding.message))
        }));
    }

    /// Sorts the findings about the whole image into what was asked for and the rest.
    fn sort_findings(&mut self) {
        let elsewhere = std::mem::take(&mut self.elsewhere);
        let asked = if self.options.all_findings { None } else { self.asked.as_ref() };
        let Some(asked) = asked else {
            let own = std::mem::replace(&mut self.findings, elsewhere);
            self.findings.append(own);
            return;
        };
        if elsewhere.dropped() > 0 {
            self.elsewhere = elsewhere;
            return;
        }
        for finding in &elsewhere {
            let touches = matches!(finding.at, Location::Inode(ino) if asked.inodes.contains(&ino));
            let list = if touches { &mut self.findings } else { &mut self.elsewhere };
            list.push(finding.clone());
        }
    }

    /// Remembers next steps, which are printed after the findings.
    pub(crate) fn advise(&mut self, steps: impl IntoIterator<Item = String>) {
        self.steps.extend(steps);
    }

    /// Remembers that what was compared is different.
    pub(crate) fn differs(&mut self) {
        self.differs = true;
    }

    /// Remembers the exit code of a classic tool that is done.
    pub(crate) fn exits_with(&mut self, code: u8) {
        self.personality_exit = code;
    }

    /// Returns the exit code of a classic tool that is done.
    pub(crate) fn exit_of_personality(&self) -> u8 {
        self.personality_exit
    }

    /// Remembers a remark that comes last, after findings and next steps.
    pub(crate) fn conclude(&mut self, text: &'static str) {
        self.conclusion = Some(text);
    }

    /// Remembers that something in a file system could not be delivered.
    pub(crate) fn trouble(&mut self, at: Location, error: &FsError) {
        self.trouble_text(at, error.kind(), error.to_string());
    }

    /// Records that a volume could not be opened, and continues.
    pub(crate) fn refused(&mut self, at: Location, message: &str) {
        self.findings.error(at, codes::NOT_OPENED, message);
    }

    /// The same as [`Session::trouble`] with a message of the caller's.
    pub(crate) fn trouble_text(&mut self, at: Location, kind: FsErrorKind, message: String) {
        self.findings.error(at, codes::of_trouble(kind), message);
    }

    /// Prints one JSON document: the fields of `result`, then `findings` and how many more there
    /// were than are kept. Nothing if standard output is taken by the bytes of a file.
    pub(crate) fn json(&mut self, result: &impl Serialize) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Document<'a, T> {
            #[serde(flatten)]
            result: &'a T,
            findings: Vec<&'a Finding>,
            findings_dropped: u64,
        }
        if std::mem::replace(&mut self.out_is_taken, true) {
            return Ok(());
        }
        let all = || self.elsewhere.iter().chain(&self.findings);
        let document = Document {
            result,
            findings: all().collect(),
            findings_dropped: self.elsewhere.dropped() + self.findings.dropped(),
        };
        serde_json::to_writer_pretty(&mut self.out, &document).map_err(io::Error::from)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Prints lines of the result.
    pub(crate) fn lines<S: AsRef<str>>(
        &mut self,
        lines: impl IntoIterator<Item = S>,
    ) -> Result<(), Failure> {
        for line in lines {
            writeln!(self.out, "{}", line.as_ref())?;
        }
        Ok(())
    }

    /// Prints a remark for people; nothing with `--quiet` or `--json`.
    pub(crate) fn remark(&self, text: &str) {
        if !self.options.quiet && !self.options.json {
            say(text);
        }
    }

    /// A progress bar over `total` steps, 0 for a number that is set later; invisible when standard
    /// error is not a terminal.
    pub(crate) fn progress(&self, total: u64, what: &'static str) -> ProgressBar {
        let template = "{msg:12} [{bar:40}] {percent:>3}% {eta}";
        self.bar((total > 0).then_some(total), template, what)
    }

    /// The same for bytes whose number is not known: it counts.
    pub(crate) fn counter(&self, what: &'static str) -> ProgressBar {
        let bar = self.bar(None, "{msg:12} {spinner} {bytes}, {bytes_per_sec}, {elapsed}", what);
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        bar
    }

    fn bar(&self, total: Option<u64>, template: &str, what: &'static str) -> ProgressBar {
        if self.options.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            // Without a length the bar stays at 0 %; with one of 0 it would begin at 100 %.
            None => ProgressBar::no_length(),
        };
        bar.set_style(style.progress_chars("=> "));
        // A run that fails leaves no half of a bar before its message.
        bar.with_message(what).with_finish(ProgressFinish::AndClear)
    }

    /// Prints what was found so far, for a run that goes on for long, and forgets it.
    pub(crate) fn tell_findings(&mut self) {
        self.sort_findings();
        if !self.options.quiet {
            self.print_findings();
        }
        self.findings = Findings::new();
    }

    /// Ends the run: prints findings and failure, and says how it went.
    pub(crate) fn finish(mut self, result: Result<(), Failure>) -> Exit {
        let result = result.and_then(|()| self.out.flush().context("standard output"));
        if let Err(failure) = &result {
            self.refuse(failure);
        }
        if let Err(failure) = &result
            && failure.is_broken_pipe()
        {
            // The reader has left, so the rest of the buffer is useless; this is no failure.
            let _ = self.out.into_parts();
            return Exit::Done;
        }
        if result.is_err() {
            // Any finding may be the reason.
            self.asked = None;
        }
        self.sort_findings();
        if !(self.options.quiet || self.options.json && result.is_ok()) {
            self.print_findings();
            self.print_elsewhere();
            self.steps.iter().for_each(|step| self.print_hint(step));
        }
        self.conclusion.into_iter().for_each(|text| self.remark(text));
        match result {
            Err(failure) => {
                self.print_failure(&failure);
                failure.exit()
            }
            Ok(()) => self.verdict(),
        }
    }

    /// Prints a failure as the document, if one was asked for and there is none yet.
    pub(crate) fn refuse(&mut self, failure: &Failure) {
        #[derive(Serialize)]
        struct Refusal<'a> {
            class: &'static str,
            message: &'a str,
            place: Option<String>,
            hint: Option<&'a str>,
        }
        let is_wanted = self.options.json && !self.out_is_taken && !failure.message().is_empty();
        if is_wanted && !failure.is_broken_pipe() {
            let places = failure.places();
            let refusal = Refusal {
                class: failure.kind().name(),
                message: failure.message(),
                place: (!places.is_empty()).then(|| places.join(": ")),
                hint: failure.next_step(),
            };
            let document = serde_json::json!({ "error": refusal });
            // The failure itself is what the exit code is about.
            let _ = self.json(&document).and_then(|()| Ok(self.out.flush()?));
        }
    }

    fn verdict(&self) -> Exit {
        let lists = [&self.findings, &self.elsewhere];
        let refused = lists.iter().any(|list| list.worst() == Some(Severity::Error));
        let has_problems = lists.iter().any(|list| list.has_problems());
        match (has_problems || self.differs, self.options.strict && refused) {
            (_, true) => Exit::Failed,
            (true, false) => Exit::Findings,
            (false, false) => Exit::Done,
        }
    }

    fn print_failure(&self, failure: &Failure) {
        if failure.message().is_empty() {
            return;
        }
        say(&format!("{}: {}", self.style_err.paint(Ink::Red, "error"), failure.message()));
        if let Some(hint) = failure.next_step() {
            self.print_hint(hint);
        }
    }

    fn print_hint(&self, hint: &str) {
        say(&format!("{}: {hint}", self.style_err.paint(Ink::Cyan, "hint")));
    }

    fn print_findings(&self) {
        let limit = if self.options.all_findings { usize::MAX } else { SHOWN_PER_CODE };
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for finding in &self.findings {
            let count = seen.entry(finding.code.name()).or_default();
            *count += 1;
            if *count <= limit {
                say(&self.finding_line(finding));
            }
        }
        for (code, count) in &seen {
            if let Some(more) = count.checked_sub(limit).filter(|more| *more > 0) {
                say(&format!("{more} more of [{code}]: --all-findings shows them"));
            }
        }
        if self.findings.dropped() > 0 {
            say(&format!("{} more findings were counted, not kept", self.findings.dropped()));
        }
    }

    /// One line about findings that touch nothing of what was asked for.
    fn print_elsewhere(&self) {
        let count = self.elsewhere.iter().count() as u64 + self.elsewhere.dropped();
        let target = self.asked.as_ref().map(|asked| asked.target.display());
        let (Some(target), true) = (target, count > 0) else { return };
        if let (1, Some(finding)) = (count, self.elsewhere.iter().next()) {
            say(&self.finding_line(finding));
            return;
        }
        let count = text::count(count, "finding", "findings");
        say(&format!(
            "{count} elsewhere in the image; `eraseblock check {target}` lists them, and so does \
             --all-findings"
        ));
    }

    fn finding_line(&self, finding: &Finding) -> String {
        let (word, ink) = match finding.severity {
            Severity::Note => ("note", Ink::Cyan),
            Severity::Warning => ("warning", Ink::Yellow),
            Severity::Error => ("error", Ink::Red),
        };
        let word = self.style_err.paint(ink, word);
        let code = self.style_err.paint(Ink::Faint, format!("[{}]", finding.code));
        format!("{word}: {}: {} {code}", finding.at, finding.message)
    }
}

impl Observer for Session {
    fn report(&mut self, findings: Findings) {
        Self::report(self, findings);
    }

    fn report_aside(&mut self, findings: Findings) {
        Self::report_aside(self, findings);
    }

    fn reads(&mut self, path: &Path) {
        Self::reads(self, path);
    }

    fn keep_still(&mut self, path: &Path) -> eraseblock::Result<()> {
        Self::keep_still(self, path).map_err(Failure::into_error)
    }

    fn writes(&mut self, path: &Path) -> eraseblock::Result<()> {
        self.inputs.refuse(path).map_err(Failure::into_error)
    }

    fn is_strict(&self) -> bool {
        self.options.strict
    }

    fn remark(&self, text: &str) {
        Self::remark(self, text);
    }

    fn late_remark(&self) -> fn(&str) {
        say
    }

    fn progress(&self, total: u64, what: &'static str) -> Box<dyn Meter> {
        Box::new(Bar(Self::progress(self, total, what)))
    }
}

/// A progress bar that goes away when the work is done.
struct Bar(ProgressBar);

impl Meter for Bar {
    fn phase(&self, what: &'static str) {
        self.0.set_message(what);
    }

    fn total(&self, steps: u64) {
        self.0.set_length(steps);
    }

    fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Writes one line to standard error. A closed standard error is no error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
