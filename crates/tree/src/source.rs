//! Detects the format of a source and reads it.

use crate::dir::{self, ReadOptions};
use crate::error::TreeError;
use crate::input::Input;
use crate::{cpio, tar};
use eraseblock_base::Findings;
use eraseblock_vfs::SourceTree;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;

/// The format of a source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceFormat {
    /// A directory of the host.
    Directory,
    /// A tar archive.
    Tar,
    /// One or more cpio archives.
    Cpio,
}

/// A source that was read.
#[derive(Debug)]
pub struct Opened {
    /// Its content.
    pub tree: SourceTree,
    /// The findings.
    pub findings: Findings,
    /// The detected format.
    pub format: SourceFormat,
}

/// Reads the source at `path`: a directory, a tar or a cpio archive, the latter two plain or
/// compressed with gzip, zstd, xz, lzma or bzip2. `-` is an archive on standard input. `options`
/// apply to directories only; archives are read completely.
///
/// # Errors
///
/// Fails if the source cannot be read, is of another format, or is invalid.
pub fn open(path: &Path, options: &ReadOptions) -> Result<Opened, TreeError> {
    let failed = |source: std::io::Error| TreeError::host("open", path, source);
    let file = if path == Path::new("-") {
        File::from(std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?)
    } else {
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            let (tree, findings) = dir::read(path, options)?;
            return Ok(Opened { tree, findings, format: SourceFormat::Directory });
        }
        file
    };
    archive(Input::from_file(file)?)
}

fn archive(mut input: Input) -> Result<Opened, TreeError> {
    let head = input.peek(tar::BLOCK)?;
    let is_empty_tar = head.len() == tar::BLOCK && head.iter().all(|byte| *byte == 0);
    let (format, (tree, findings)) = if cpio::is_cpio(head) {
        (SourceFormat::Cpio, cpio::read_input(input)?)
    } else if is_empty_tar || tar::Header::is_header(head) {
        (SourceFormat::Tar, tar::read_input(input)?)
    } else {
        let shown: Vec<String> = head.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        let found = if shown.is_empty() { "nothing".to_owned() } else { shown.join(" ") };
        return Err(TreeError::UnknownFormat { found });
    };
    Ok(Opened { tree, findings, format })
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::source::NodeId;
    use std::process::Command;

    fn open_at(path: &Path) -> Result<Opened, TreeError> {
        open(path, &ReadOptions::default())
    }

    #[test]
    fn every_form_is_found_out() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("d");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("f"), b"content").unwrap();
        let shell = "tar -cf ../t.tar . && tar -czf ../t.gz . && tar --zstd -cf ../t.zst . && \
                     echo f | cpio -o -H newc --quiet > ../c.cpio && gzip -k ../c.cpio && \
                     tar -cJf ../t.xz . && tar -cjf ../t.bz2 . && xz -k -F lzma ../t.tar && \
                     (cat ../t.xz ../t.xz >../two.xz) && tar -cf - . | xz --lzma2=dict=1GiB >../huge.xz && printf hello > ../text && : > ../empty && \
                     head -c 1024 /dev/zero > ../zeros";
        let made = Command::new("sh").args(["-ec", shell]).current_dir(&dir).status().unwrap();
        assert!(made.success());
        for (name, format) in [
            ("d", SourceFormat::Directory),
            ("t.tar", SourceFormat::Tar),
            ("t.gz", SourceFormat::Tar),
            ("t.zst", SourceFormat::Tar),
            ("t.xz", SourceFormat::Tar),
            ("two.xz", SourceFormat::Tar),
            ("t.bz2", SourceFormat::Tar),
            ("t.tar.lzma", SourceFormat::Tar),
            ("c.cpio", SourceFormat::Cpio),
            ("c.cpio.gz", SourceFormat::Cpio),
        ] {
            let opened = open_at(&temp.path().join(name)).unwrap();
            assert_eq!(opened.format, format, "{name}");
            assert!(opened.tree.lookup(NodeId::ROOT, b"f").is_some(), "{name}");
        }
        assert_eq!(open_at(&temp.path().join("zeros")).unwrap().tree.len(), 1);
        let message = |name| open_at(&temp.path().join(name)).unwrap_err().to_string();
        std::fs::write(temp.path().join("t.lz4"), b"\x04\x22\x4d\x18and more").unwrap();
        assert!(message("t.lz4").contains("lz4 compression is not supported; decompress it first"));
        // Memory would otherwise grow with the dictionary size.
        assert!(
            message("huge.xz").contains("could not read the archive"),
            "{}",
            message("huge.xz")
        );
        assert!(message("text").contains("begins with 68 65 6c 6c 6f"));
        assert!(message("empty").contains("begins with nothing"));
        assert!(message("none").contains("could not open"));
    }
}
