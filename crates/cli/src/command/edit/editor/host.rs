//! Between the image and this machine: `put` and `get`.

use super::{Editor, copy_out, now};
use crate::failure::{Class, Context, Failure};
use crate::output::Output;
use crate::text;
use eraseblock_tree::dir::{self, ReadOptions};
use eraseblock_tree::extract::{ExtractOptions, attributes_to, to_dir};
use eraseblock_tree::put::{PutReport, into_fs, node_into_fs};
use eraseblock_vfs::{FileKind, Ino};
use indicatif::ProgressBar;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What was copied out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct GetReport {
    pub(crate) files: u64,
    pub(crate) directories: u64,
    pub(crate) bytes: u64,
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
            into_fs(self.fs, self.make_path(dest)?, &tree, now(), &|done| self.bar.inc(done))?
        } else {
            let (dir, name) = self.place_or_into(dest, source.as_os_str().as_bytes())?;
            let (node, findings) = dir::read_node(source, &options)?;
            self.findings.append(findings);
            node_into_fs(self.fs, dir, name, node, now(), &|done| self.bar.inc(done))?
        };
        self.tell(report.files, report.directories, report.bytes)?;
        Ok(report)
    }

    /// Copies a file or a directory out; `-` is standard output. What exists stays, unless `force`.
    pub(crate) fn get(
        &mut self,
        source: &[u8],
        dest: &Path,
        force: bool,
    ) -> Result<GetReport, Failure> {
        let ino = self.find(source)?;
        let report = match self.fs.attr(ino)?.kind {
            FileKind::Directory => self.get_directory(ino, dest, force)?,
            FileKind::Regular => self.get_file(ino, source, dest, force)?,
            kind => {
                let name = text::name(source);
                return Err(Failure::new(format!("{name}: a single {kind:?} is not copied out"))
                    .hint("its directory can be"));
            }
        };
        self.tell(report.files, report.directories, report.bytes)?;
        Ok(report)
    }

    fn options(&self, force: bool) -> ExtractOptions {
        ExtractOptions { force, kept: self.inputs.files(), ..ExtractOptions::default() }
    }

    fn get_directory(&mut self, ino: Ino, dest: &Path, force: bool) -> Result<GetReport, Failure> {
        let bar = &self.bar;
        let report = to_dir(self.fs, ino, dest, &self.options(force), &|done| {
            bar.set_position(done.bytes);
        });
        let report = report.map_err(crate::command::extract::explain)?;
        let (files, directories, bytes) = (report.files, report.directories, report.bytes);
        self.findings.append(report.findings);
        Ok(GetReport { files, directories, bytes })
    }

    fn get_file(
        &mut self,
        ino: Ino,
        source: &[u8],
        dest: &Path,
        force: bool,
    ) -> Result<GetReport, Failure> {
        let dest = into_folder(dest, source);
        let mut output = if dest.as_os_str() == "-" {
            self.inputs.refuse_stdout()?;
            Output::to_stdout()?
        } else {
            Output::create_new(&dest, force, &self.inputs)?
        };
        if output.is_new() {
            // Private until the attributes of the image are set.
            output.file.set_permissions(Permissions::from_mode(0o600)).context(dest.display())?;
        }
        self.bar.set_length(self.fs.attr(ino)?.size);
        let mut to = self.bar.wrap_write(&mut output.file);
        let copied = copy_out(self.fs, ino, &mut to);
        let bytes = copied.map_err(|failure| match failure.class() {
            Class::Host | Class::HostFull => failure.context(dest.display()),
            _ => failure.context(text::name(source)).also("nothing was written"),
        })?;
        if output.is_new() {
            let options = self.options(force);
            let findings = attributes_to(self.fs, ino, output.file.as_fd(), source, &options)?;
            self.findings.append(findings);
        }
        output.commit()?;
        Ok(GetReport { files: 1, directories: 0, bytes })
    }

    fn tell(&mut self, files: u64, directories: u64, bytes: u64) -> Result<(), Failure> {
        let files = text::count(files, "file", "files");
        let directories = text::count(directories, "directory", "directories");
        let bytes = text::count(bytes, "byte", "bytes");
        Ok(writeln!(self.output, "{files}, {directories}, {bytes}")?)
    }

    /// Shows progress on this bar.
    #[must_use]
    pub(crate) fn showing(mut self, bar: ProgressBar) -> Self {
        self.bar = bar;
        self
    }
}

/// The destination itself or, if it is a folder, the file of the same name in it.
fn into_folder(dest: &Path, source: &[u8]) -> PathBuf {
    let name = Path::new(OsStr::from_bytes(source)).file_name();
    match name {
        Some(name) if dest.is_dir() => dest.join(name),
        _ => dest.to_owned(),
    }
}
