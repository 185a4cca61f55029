//! Between the image and this machine: `put` and `get`.

use super::{Editor, caller};
use crate::failure::{Context, Failure};
use crate::get::{GetReport, Getter};
use eraseblock::raw::tree::dir::{self, ReadOptions};
use eraseblock::raw::tree::put::{PutReport, into_fs, node_into_fs};
use eraseblock::text;
use indicatif::ProgressBar;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What happens to a file of the host that has the name of a new one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Keep,
    Replace,
}

impl Editor<'_> {
    /// Copies a file or a folder's content in.
    pub(crate) fn put(&mut self, source: &Path, dest: &[u8]) -> Result<PutReport, Failure> {
        let meta = source.symlink_metadata().context(source.display())?;
        if self.inputs.refuse(source).is_err() {
            let message = "is the image that is changed: it cannot go into itself";
            return Err(Failure::new(message).context(source.display()));
        }
        let exclude_inode = self.inputs.files().first().copied();
        let options = ReadOptions { exclude_inode, ..ReadOptions::default() };
        let report = if meta.is_dir() {
            let (tree, findings) = dir::read(source, &options)?;
            self.findings.append(findings);
            into_fs(self.fs, self.make_path(dest)?, &tree, &caller(), &|done| self.bar.inc(done))?
        } else {
            let (dir, name) = self.place_or_into(dest, source.as_os_str().as_bytes())?;
            let (node, findings) = dir::read_node(source, &options)?;
            self.findings.append(findings);
            node_into_fs(self.fs, dir, name, node, &caller(), &|done| self.bar.inc(done))?
        };
        self.report(report.files, report.directories, report.bytes)?;
        Ok(report)
    }

    /// Copies a file or a directory out; `-` is standard output. What exists on the host stays, or is
    /// replaced.
    pub(crate) fn get(
        &mut self,
        source: &[u8],
        dest: &Path,
        existing: Existing,
    ) -> Result<GetReport, Failure> {
        let (fs, inputs, bar) = (self.fs, &self.inputs, &self.bar);
        let (report, findings) =
            Getter { fs, inputs, bar, force: existing == Existing::Replace }.get(source, dest)?;
        self.findings.append(findings);
        self.report(report.files, report.directories, report.bytes)?;
        Ok(report)
    }

    fn report(&mut self, files: u64, directories: u64, bytes: u64) -> Result<(), Failure> {
        Ok(writeln!(self.output, "{}", copied_line(files, directories, bytes))?)
    }

    /// Shows progress on this bar.
    #[must_use]
    pub(crate) fn showing(mut self, bar: ProgressBar) -> Self {
        self.bar = bar;
        self
    }
}

/// What was copied, in one line.
pub(crate) fn copied_line(files: u64, directories: u64, bytes: u64) -> String {
    let files = text::count(files, "file", "files");
    let directories = text::count(directories, "directory", "directories");
    let bytes = text::count(bytes, "byte", "bytes");
    format!("{files}, {directories}, {bytes}")
}
