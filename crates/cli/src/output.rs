//! The file a command makes: it gets its name only when it is complete, and never that of an image
//! that somebody writes to.

use crate::failure::{Context, Failure};
use crate::target::lock;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// A file being written. Dropped without [`Output::commit`], it leaves nothing behind.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    temporary: Option<PathBuf>,
    /// The open file.
    pub file: File,
    /// Keeps writers away from a file that is to be replaced.
    _replaced: Option<File>,
}

impl Output {
    /// Begins a file that will be at `path`. A device or pipe there is written to directly.
    pub(crate) fn create(path: &Path) -> Result<Self, Failure> {
        let is_special = path.metadata().is_ok_and(|meta| !meta.is_file());
        if path.is_dir() {
            return Err(Failure::new(format!("{}: is a folder", path.display())));
        }
        let replaced = if is_special { None } else { lock::reading(path)? };
        let temporary = if is_special { None } else { Some(beside(path)?) };
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(temporary.as_deref().unwrap_or(path))
            .context(path.display())?;
        Ok(Self { path: path.to_owned(), temporary, file, _replaced: replaced })
    }

    /// Gives the complete file its name.
    pub(crate) fn commit(mut self) -> Result<(), Failure> {
        if let Some(temporary) = &self.temporary {
            fs::rename(temporary, &self.path).context(self.path.display())?;
        }
        self.temporary = None;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // Nothing more can be done about a file that cannot be removed.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// The name that the file has until it is complete.
fn beside(path: &Path) -> Result<PathBuf, Failure> {
    let name = path
        .file_name()
        .ok_or_else(|| Failure::usage(format!("{}: not the name of a file", path.display())))?;
    let mut temporary = std::ffi::OsString::from(".");
    temporary.push(name);
    temporary.push(format!(".{}.partial", std::process::id()));
    Ok(path.with_file_name(temporary))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn only_complete_files_get_their_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = Output::create(&path).unwrap();
        output.file.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut output = Output::create(&path).unwrap();
        output.file.write_all(b"whole").unwrap();
        output.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(Output::create(folder.path()).is_err());
    }

    /// `build` put a new image in the place of a mounted one: what was written to the mount was lost.
    #[test]
    fn an_image_that_is_written_to_is_not_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let writer = lock::lock(file.path(), true).unwrap();
        let refused = Output::create(file.path()).unwrap_err();
        assert!(refused.message().contains("being written to"), "{}", refused.message());
        drop(writer);
        Output::create(file.path()).unwrap().commit().unwrap();
    }
}
