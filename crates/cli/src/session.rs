//! One run of the command: its options, its output streams, and what it found.
//!
//! # Invariants
//! 1. Results go to standard output, everything about them (findings, progress, summaries) to
//!    standard error: what is piped on is never mixed with remarks.
//! 2. The exit code is decided here alone, from the findings and the failure.

use crate::failure::{Exit, Failure};
use crate::recovery::NOT_MOUNTABLE;
use crate::style::{ColorChoice, Ink, Style};
use crate::target::lock;
use eraseblock_base::{Finding, Findings, Location, Severity};
use eraseblock_vfs::{FsError, FsErrorKind};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};
use std::path::Path;

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
    /// Print every finding, not just the first ones of each kind
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
    /// Next steps, told at the end.
    steps: Vec<String>,
    /// Locks of what this run reads.
    locks: Vec<File>,
}

impl Session {
    /// Starts a run.
    pub(crate) fn new(options: GlobalOptions) -> Self {
        let style = Style::new(options.color, &io::stdout());
        let style_err = Style::new(options.color, &io::stderr());
        let out = BufWriter::with_capacity(1 << 16, io::stdout());
        let (findings, steps, locks) = (Findings::new(), Vec::new(), Vec::new());
        Self { options, out, style, style_err, findings, steps, locks }
    }

    /// Keeps writers away from a file until the end of the run.
    pub(crate) fn keep_still(&mut self, path: &Path) -> Result<(), Failure> {
        self.locks.extend(lock::reading(path)?);
        Ok(())
    }

    /// Remembers findings for the end of the run.
    pub(crate) fn report(&mut self, findings: Findings) {
        self.findings.append(findings);
    }

    /// What was found so far.
    pub(crate) fn findings(&self) -> &Findings {
        &self.findings
    }

    /// Remembers next steps, to be told behind the findings.
    pub(crate) fn advise(&mut self, steps: impl IntoIterator<Item = String>) {
        self.steps.extend(steps);
    }

    /// Remembers that something in a file system could not be delivered.
    pub(crate) fn trouble(&mut self, at: Location, error: &FsError) {
        self.trouble_text(at, error.kind(), error.to_string());
    }

    /// Remembers that a volume could not be opened, and goes on.
    pub(crate) fn refused(&mut self, at: Location, message: &str) {
        self.findings.error(at, "not-opened", message);
    }

    /// Remembers that no mount takes a file system, and goes on with what can be read of it.
    pub(crate) fn not_mounted(&mut self, at: Location, message: &str) {
        self.findings.error(at, NOT_MOUNTABLE, message);
    }

    /// The same as [`Session::trouble`] with a message of the caller's.
    pub(crate) fn trouble_text(&mut self, at: Location, kind: FsErrorKind, message: String) {
        self.findings.error(at, trouble_code(kind), message);
    }

    /// Prints one JSON document: the fields of `result`, then `findings` and how many more there
    /// were than are kept.
    pub(crate) fn json(&mut self, result: &impl Serialize) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Document<'a, T> {
            #[serde(flatten)]
            result: &'a T,
            findings: Vec<&'a Finding>,
            findings_dropped: u64,
        }
        let document = Document {
            result,
            findings: self.findings.iter().collect(),
            findings_dropped: self.findings.dropped(),
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

    /// A progress bar over `total` steps; invisible when standard error is not a terminal.
    pub(crate) fn progress(&self, total: u64, what: &'static str) -> ProgressBar {
        if self.options.quiet || !io::stderr().is_terminal() {
            return ProgressBar::hidden();
        }
        let template = "{msg:12} [{bar:40}] {percent:>3}% {eta}";
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        let bar = ProgressBar::new(total).with_message(what);
        bar.set_style(style.progress_chars("=> "));
        bar
    }

    /// Prints what was found so far, for a run that goes on for long, and forgets it.
    pub(crate) fn tell_findings(&mut self) {
        if !self.options.quiet {
            self.print_findings();
        }
        self.findings = Findings::new();
    }

    /// Ends the run: prints findings and failure, and says how it went.
    pub(crate) fn finish(mut self, result: Result<(), Failure>) -> Exit {
        let flushed = self.out.flush().map_err(Failure::from);
        let result = result.and(flushed);
        if let Err(failure) = &result
            && failure.is_broken_pipe()
        {
            // Nobody reads on: what is still buffered is of no use, and no fault of ours.
            let _ = self.out.into_parts();
            return Exit::Done;
        }
        if !(self.options.quiet || self.options.json && result.is_ok()) {
            self.print_findings();
            self.steps.iter().for_each(|step| self.print_hint(step));
        }
        match result {
            Err(failure) => {
                self.print_failure(&failure);
                failure.exit()
            }
            Ok(()) => self.verdict(),
        }
    }

    fn verdict(&self) -> Exit {
        let refused = self.findings.worst() == Some(Severity::Error);
        match (self.findings.has_problems(), self.options.strict && refused) {
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
            let count = seen.entry(finding.code).or_default();
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

/// The code of a finding made of a file system's refusal.
fn trouble_code(kind: FsErrorKind) -> &'static str {
    match kind {
        FsErrorKind::NotFound => "inode-missing",
        FsErrorKind::Corrupted => "data-corrupt",
        FsErrorKind::Io => "read-failed",
        FsErrorKind::NoKey => "encrypted",
        FsErrorKind::Unsupported => "unsupported",
        _ => "not-delivered",
    }
}

/// Writes one line to standard error. Nobody listening is no error.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
