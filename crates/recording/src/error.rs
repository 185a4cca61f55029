//! What is wrong with a recording.

use std::fmt;

/// A line that cannot be used, or an error of the file it is in.
#[derive(Debug)]
pub struct RecordingError {
    /// The line, counted from 1.
    pub line: u64,
    /// What was found, and what is expected.
    pub message: String,
}

impl RecordingError {
    pub(crate) fn new(line: u64, message: impl Into<String>) -> Self {
        Self { line, message: message.into() }
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for RecordingError {}
