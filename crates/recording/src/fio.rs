//! fio's recordings, versions 2 and 3: read and written (fio(1), TRACE FILE FORMAT). Times of version 3
//! are microseconds.

use crate::named::Named;
use crate::op::{Kind, Op, Step};
use crate::paths::Paths;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Write};

/// A version of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FioVersion {
    /// Pauses are lines of their own.
    Two,
    /// Every line has a time.
    Three,
}

impl FioVersion {
    fn number(self) -> u8 {
        match self {
            Self::Two => 2,
            Self::Three => 3,
        }
    }
}

/// A recording of fio that is being read.
#[derive(Debug)]
pub(crate) struct Import {
    version: FioVersion,
    named: Named,
    /// Nanoseconds since the start.
    now: u64,
    pub(crate) left_out: u64,
}

impl Import {
    /// Starts, if this is the first line of such a recording.
    pub(crate) fn begin(first: &str, root: &[u8]) -> Option<Self> {
        let version = match first.trim_end() {
            "fio version 2 iolog" => FioVersion::Two,
            "fio version 3 iolog" => FioVersion::Three,
            _ => return None,
        };
        Some(Self { version, named: Named::new(root), now: 0, left_out: 0 })
    }

    /// Reads a line.
    pub(crate) fn line(&mut self, line: &str, steps: &mut VecDeque<Step>) -> Result<(), String> {
        let mut words: VecDeque<&str> = line.split_ascii_whitespace().collect();
        if words.is_empty() {
            return Ok(());
        }
        if self.version == FioVersion::Three {
            let time = words.pop_front().unwrap_or_default();
            let time: u64 = time.parse().map_err(|_| format!("`{time}`: expected microseconds"))?;
            self.now = time.saturating_mul(1000);
        }
        let (Some(path), Some(action)) = (words.pop_front(), words.pop_front()) else {
            return Err(format!("`{line}`: expected a file and an action"));
        };
        let number = |word: Option<&str>| match word {
            Some(word) => word.parse::<u64>().map_err(|_| format!("`{word}`: expected bytes")),
            None => Err(format!("`{line}`: expected an offset and a length")),
        };
        let Some(path) = self.named.below(path.as_bytes()) else { return Ok(()) };
        let at = self.now;
        let mut emit = |op| steps.push_back(Step { at, thread: 0, op });
        let file = match action {
            "wait" if self.version == FioVersion::Two => {
                let pause = number(words.pop_front())?;
                self.now = self.now.saturating_add(pause.saturating_mul(1000));
                return Ok(());
            }
            "add" | "open" | "close" | "read" | "write" | "sync" | "datasync" | "trim" => {
                self.named.file(&path, Kind::File, &mut emit)
            }
            _ => {
                return Err(format!(
                    "action `{action}`: expected add, open, close, read, write, sync, datasync or trim"
                ));
            }
        };
        match action {
            "open" => emit(Op::Open { file }),
            "close" => emit(Op::Release { file }),
            "read" | "write" => {
                let (offset, len) = (number(words.pop_front())?, number(words.pop_front())?);
                emit(match action {
                    "read" => Op::Read { file, offset, len },
                    _ => Op::Write { file, offset, len, dense: 100 },
                });
            }
            "sync" | "datasync" => emit(Op::SyncFile { file }),
            "trim" => self.left_out += 1,
            _ => {}
        }
        Ok(())
    }
}

/// Writes steps as a recording of fio, which knows reads, writes and syncs of files only.
#[derive(Debug)]
pub struct FioExport<W: Write> {
    out: W,
    version: FioVersion,
    root: Vec<u8>,
    paths: Paths,
    /// The paths of the files that are open.
    files: BTreeSet<Vec<u8>>,
    now: u64,
    /// Steps of which fio knows no form.
    left_out: u64,
}

impl<W: Write> FioExport<W> {
    /// Writes the first line. fio will use the files below `root`, an absolute path.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn new(mut out: W, version: FioVersion, root: &[u8]) -> io::Result<Self> {
        writeln!(out, "fio version {} iolog", version.number())?;
        let (paths, files) = (Paths::default(), BTreeSet::new());
        Ok(Self { out, version, root: root.to_vec(), paths, files, now: 0, left_out: 0 })
    }

    /// Writes a step.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn step(&mut self, step: &Step) -> io::Result<()> {
        self.pass(step.at)?;
        self.paths.follow(&step.op);
        match &step.op {
            Op::Found { .. }
            | Op::Create { .. }
            | Op::Open { .. }
            | Op::Release { .. }
            | Op::Read { len: 0, .. }
            | Op::Write { len: 0, .. } => Ok(()),
            Op::Read { file, offset, len } => self.action(*file, "read", Some((*offset, *len))),
            Op::Write { file, offset, len, .. } => {
                self.action(*file, "write", Some((*offset, *len)))
            }
            Op::SyncFile { file } => self.action(*file, "sync", Some((0, 0))),
            _ => {
                self.left_out += 1;
                Ok(())
            }
        }
    }

    /// Closes all files. Returns how many steps were left out.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn finish(mut self) -> io::Result<u64> {
        for path in std::mem::take(&mut self.files) {
            self.line(&path, "close", None)?;
        }
        self.out.flush()?;
        Ok(self.left_out)
    }

    /// Lets the time pass.
    fn pass(&mut self, at: u64) -> io::Result<()> {
        let pause = at.saturating_sub(self.now) / 1000;
        self.now = self.now.max(at);
        // fio drops shorter pauses, and wants a file that it knows.
        if self.version == FioVersion::Two
            && pause >= 100
            && let Some(path) = self.files.first().cloned()
        {
            self.line(&path, "wait", Some((pause, 0)))?;
        }
        Ok(())
    }

    fn action(&mut self, file: u64, action: &str, range: Option<(u64, u64)>) -> io::Result<()> {
        let path = self.paths.of(file).filter(|path| {
            // fio's format has no way to write blanks.
            !path.is_empty() && !path.iter().any(u8::is_ascii_whitespace)
        });
        let Some(path) = path.map(|path| [&self.root, &b"/"[..], path].concat()) else {
            self.left_out += 1;
            return Ok(());
        };
        if !self.files.contains(&path) {
            self.line(&path, "add", None)?;
            self.line(&path, "open", None)?;
            self.files.insert(path.clone());
        }
        self.line(&path, action, range)
    }

    fn line(&mut self, path: &[u8], action: &str, range: Option<(u64, u64)>) -> io::Result<()> {
        if self.version == FioVersion::Three {
            write!(self.out, "{} ", self.now / 1000)?;
        }
        self.out.write_all(path)?;
        write!(self.out, " {action}")?;
        if let Some((offset, len)) = range {
            write!(self.out, " {offset} {len}")?;
        }
        self.out.write_all(b"\n")
    }
}
