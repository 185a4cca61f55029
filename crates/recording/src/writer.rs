//! Writes recordings (spec: ops 1).

use crate::op::Step;
use std::io::{self, Write};

/// The first line.
pub(crate) const HEADER: &str = "{\"recording\":\"eraseblock ops\",\"version\":1}";

/// A recording that is being written.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Writes the first line.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        writeln!(out, "{HEADER}")?;
        Ok(Self { out })
    }

    /// Writes a step.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn step(&mut self, step: &Step) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, step)?;
        self.out.write_all(b"\n")
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be written.
    pub fn finish(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
