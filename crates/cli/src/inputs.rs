//! The files a run reads, so that none of them is replaced by what the run makes.

use crate::failure::Failure;
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// What one file is, whichever of its names is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Identity {
    /// Device and inode number of a regular file.
    File(u64, u64),
    /// Number of a device, and whether it is a block device.
    Device(u64, bool),
}

impl Identity {
    /// `None` for folders, pipes and sockets: writing to them destroys nothing that was read.
    fn of(meta: &Metadata) -> Option<Self> {
        let kind = meta.file_type();
        if kind.is_file() {
            return Some(Self::File(meta.dev(), meta.ino()));
        }
        let is_node = kind.is_block_device() || kind.is_char_device();
        is_node.then(|| Self::Device(meta.rdev(), kind.is_block_device()))
    }
}

/// Files that are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inputs(Vec<(Identity, PathBuf)>);

impl Inputs {
    /// Remembers the file at `path`, links followed; `-` is standard input. A file that is missing
    /// is the business of the code that opens it.
    pub(crate) fn add(&mut self, path: &Path) {
        let is_stdin = path.as_os_str() == "-";
        let meta = if is_stdin { metadata_of(&std::io::stdin()) } else { path.metadata().ok() };
        // A terminal or /dev/null is read and written at the same time without harm.
        let meta = meta.filter(|meta| !(is_stdin && meta.file_type().is_char_device()));
        if let Some(identity) = meta.as_ref().and_then(Identity::of) {
            self.0.push((identity, path.to_owned()));
        }
    }

    /// Refuses to write to a file that is read.
    pub(crate) fn refuse(&self, path: &Path) -> Result<(), Failure> {
        let shown = path.display().to_string();
        path.metadata().map_or(Ok(()), |meta| self.refuse_same(&meta, &shown))
    }

    /// Refuses to write to standard output if it goes into a file that is read.
    pub(crate) fn refuse_stdout(&self) -> Result<(), Failure> {
        metadata_of(&std::io::stdout())
            .map_or(Ok(()), |meta| self.refuse_same(&meta, "standard output"))
    }

    fn refuse_same(&self, meta: &Metadata, shown: &str) -> Result<(), Failure> {
        let identity = if is_null(meta) { None } else { Identity::of(meta) };
        let known = self.0.iter().find(|(known, _)| Some(*known) == identity);
        known.map_or(Ok(()), |(_, input)| {
            let is_stdin = input.as_os_str() == "-";
            let input =
                if is_stdin { "standard input".into() } else { input.display().to_string() };
            let same = if input == shown {
                "it is read".to_owned()
            } else {
                format!("it is the same file as {input}, which is read")
            };
            Err(Failure::new(format!("{shown}: cannot be the output: {same}"))
                .hint("nothing was changed; write to another file"))
        })
    }

    /// Device and inode numbers of the regular files.
    pub(crate) fn files(&self) -> Vec<(u64, u64)> {
        let file = |(identity, _): &(Identity, PathBuf)| match identity {
            Identity::File(device, inode) => Some((*device, *inode)),
            Identity::Device(..) => None,
        };
        self.0.iter().filter_map(file).collect()
    }
}

fn metadata_of(stream: &impl AsFd) -> Option<Metadata> {
    File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()
}

/// Returns whether this is /dev/null, which may be input and output at once.
fn is_null(meta: &Metadata) -> bool {
    let null = Path::new("/dev/null").metadata();
    null.is_ok_and(|null| Identity::of(&null) == Identity::of(meta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_name_of_an_input_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["image", "other"] {
            std::fs::write(at(name), name).unwrap();
        }
        std::fs::hard_link(at("image"), at("hard")).unwrap();
        symlink("image", at("soft")).unwrap();
        let mut inputs = Inputs::default();
        for path in [at("soft"), at("missing"), "/dev/null".into(), folder.path().into()] {
            inputs.add(&path);
        }
        for name in ["image", "hard", "soft"] {
            let refused = inputs.refuse(&at(name)).unwrap_err();
            assert!(refused.message().contains("which is read") == (name != "soft"), "{name}");
        }
        for path in [at("other"), at("missing"), "/dev/null".into(), folder.path().into()] {
            assert!(inputs.refuse(&path).is_ok(), "{}", path.display());
        }
        assert_eq!(inputs.files().len(), 1);
    }
}
