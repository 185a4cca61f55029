//! Files and directories copied out of an image, by `get` and by the editor.

use crate::failure::{Context, Failure};
use crate::find::find;
use crate::inputs::Inputs;
use crate::output::Output;
use eraseblock::ErrorKind;
use eraseblock::raw::base::Findings;
use eraseblock::raw::tree::extract::{ExtractOptions, attributes_to, to_dir};
use eraseblock::raw::vfs::{Attr, FileKind, FileSystem, Ino};
use eraseblock::target::filesystem::copy;
use eraseblock::text;
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

/// Copies out of a file system.
pub(crate) struct Getter<'a> {
    /// The file system.
    pub fs: &'a dyn FileSystem,
    /// Files that are not replaced by what is copied out: the image.
    pub inputs: &'a Inputs,
    /// Shows how far it is.
    pub bar: &'a ProgressBar,
    /// Replace what exists.
    pub force: bool,
}

impl Getter<'_> {
    /// Copies a file or a directory out; `-` is standard output.
    pub(crate) fn get(&self, source: &[u8], dest: &Path) -> Result<(GetReport, Findings), Failure> {
        let attr = self.fs.attr(find(self.fs, source)?)?;
        match attr.kind {
            FileKind::Directory => self.directory(attr.ino, dest),
            FileKind::Regular => self.file(&attr, source, dest),
            kind => {
                let name = text::name(source);
                Err(Failure::new(format!("{name}: a single {kind:?} is not copied out"))
                    .hint("its directory can be"))
            }
        }
    }

    fn options(&self) -> ExtractOptions {
        ExtractOptions::default().force(self.force).kept(self.inputs.files())
    }

    fn directory(&self, ino: Ino, dest: &Path) -> Result<(GetReport, Findings), Failure> {
        let report = to_dir(self.fs, ino, dest, &self.options(), &|done| {
            self.bar.set_position(done.bytes);
        });
        let report = report.map_err(crate::command::extract::explain)?;
        let (files, directories, bytes) = (report.files, report.directories, report.bytes);
        Ok((GetReport { files, directories, bytes }, report.findings))
    }

    fn file(
        &self,
        attr: &Attr,
        source: &[u8],
        dest: &Path,
    ) -> Result<(GetReport, Findings), Failure> {
        let dest = into_folder(dest, source);
        let mut output = if dest.as_os_str() == "-" {
            self.inputs.refuse_stdout()?;
            Output::to_stdout()?
        } else {
            Output::create_new(&dest, self.force, self.inputs)?
        };
        if output.is_new() {
            // Private until the attributes of the image are set.
            output.file.set_permissions(Permissions::from_mode(0o600)).context(dest.display())?;
        }
        self.bar.set_length(attr.size);
        let mut to = self.bar.wrap_write(&mut output.file);
        let copied = copy(self.fs, attr, &mut |_, bytes| to.write_all(bytes));
        let bytes = copied.map_err(|error| match error.kind() {
            ErrorKind::Host | ErrorKind::HostFull => error.context(dest.display()),
            _ => error.context(text::name(source)).also("nothing was written"),
        })?;
        let mut findings = Findings::new();
        if output.is_new() {
            let (options, file) = (self.options(), output.file.as_fd());
            findings = attributes_to(self.fs, attr.ino, file, source, &options)?;
        }
        output.commit()?;
        Ok((GetReport { files: 1, directories: 0, bytes }, findings))
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
