//! Reads recordings: our own, and those of fio, `strace` and `blkparse`.

use crate::blkparse::Import as Blkparse;
use crate::error::RecordingError;
use crate::fio::Import as Fio;
use crate::op::Step;
use crate::strace::Import as Strace;
use std::collections::VecDeque;
use std::io::{BufRead, Read};

/// Maximum number of bytes in a line.
pub const MAX_LINE: usize = 64 << 10;

/// Where a recording comes from, by its first line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A mount that was recorded, or a conversion.
    Ops,
    /// fio, version 2 or 3.
    Fio,
    /// `strace -f -ttt -yy -e trace=%file,%desc`.
    Strace,
    /// `blkparse`, of a block device.
    Blkparse,
}

#[derive(Debug)]
enum Form {
    Ops,
    Fio(Fio),
    Strace(Strace),
    Blkparse(Blkparse),
}

/// Reads the steps of a recording one by one.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    form: Form,
    steps: VecDeque<Step>,
    has_ended: bool,
}

#[derive(serde::Deserialize)]
struct Header {
    recording: String,
    version: u32,
}

impl<R: BufRead> Reader<R> {
    /// Starts reading. Of fio's and `strace`'s files, only what lies below `root`, an absolute path,
    /// is read: it becomes the root of the recording.
    ///
    /// # Errors
    ///
    /// Fails if the first line shows none of the known origins.
    pub fn new(input: R, root: &[u8]) -> Result<Self, RecordingError> {
        let (steps, has_ended) = (VecDeque::new(), false);
        let mut reader = Self { input, line: 0, form: Form::Ops, steps, has_ended };
        let first = reader.next_line()?.unwrap_or_default();
        let text = String::from_utf8_lossy(&first).into_owned();
        if let Ok(header) = serde_json::from_str::<Header>(&text) {
            let Header { recording, version } = header;
            if (recording.as_str(), version) != ("eraseblock ops", 1) {
                let text = format!(
                    "recording `{recording}`, version {version}: expected \
                                    `eraseblock ops`, version 1"
                );
                return Err(RecordingError::new(1, text));
            }
        } else if let Some(fio) = Fio::begin(&text, root) {
            reader.form = Form::Fio(fio);
        } else if let Some(mut strace) = Strace::begin(&text, root) {
            strace.line(&text, &mut reader.steps);
            reader.form = Form::Strace(strace);
        } else if let Some(mut blkparse) = Blkparse::begin(&text) {
            blkparse.line(&text, &mut reader.steps);
            reader.form = Form::Blkparse(blkparse);
        } else {
            let text = "neither a recording of eraseblock, nor one of fio (version 2 or 3), nor the \
                        output of `strace -f -ttt -yy -e trace=%file,%desc` or of `blkparse`";
            return Err(RecordingError::new(1, text));
        }
        Ok(reader)
    }

    /// Returns where it comes from.
    pub fn origin(&self) -> Origin {
        match self.form {
            Form::Ops => Origin::Ops,
            Form::Fio(_) => Origin::Fio,
            Form::Strace(_) => Origin::Strace,
            Form::Blkparse(_) => Origin::Blkparse,
        }
    }

    /// Returns how many lines describe something below the root that cannot be replayed.
    pub fn left_out(&self) -> u64 {
        match &self.form {
            Form::Ops => 0,
            Form::Fio(fio) => fio.left_out,
            Form::Strace(strace) => strace.left_out,
            Form::Blkparse(blkparse) => blkparse.left_out,
        }
    }

    /// Returns the next line without its end; `None` at the end of the file.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, RecordingError> {
        let mut line = Vec::new();
        self.line += 1;
        let limited = (&mut self.input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line);
        limited.map_err(|error| RecordingError::new(self.line, error.to_string()))?;
        if line.len() > MAX_LINE {
            let text = format!("longer than {MAX_LINE} bytes");
            return Err(RecordingError::new(self.line, text));
        }
        if line.is_empty() {
            return Ok(None);
        }
        if line.ends_with(b"\n") {
            line.pop();
        }
        Ok(Some(line))
    }

    fn read_more(&mut self) -> Result<(), RecordingError> {
        let Some(line) = self.next_line()? else {
            self.has_ended = true;
            return Ok(());
        };
        match &mut self.form {
            Form::Ops => {
                let step = serde_json::from_slice(&line)
                    .map_err(|error| RecordingError::new(self.line, error.to_string()))?;
                self.steps.push_back(step);
            }
            Form::Fio(fio) => fio
                .line(&String::from_utf8_lossy(&line), &mut self.steps)
                .map_err(|message| RecordingError::new(self.line, message))?,
            Form::Strace(strace) => {
                strace.line(&String::from_utf8_lossy(&line), &mut self.steps);
            }
            Form::Blkparse(blkparse) => {
                blkparse.line(&String::from_utf8_lossy(&line), &mut self.steps);
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Step, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.steps.is_empty() && !self.has_ended {
            if let Err(error) = self.read_more() {
                self.has_ended = true;
                self.steps.clear();
                return Some(Err(error));
            }
        }
        self.steps.pop_front().map(Ok)
    }
}
