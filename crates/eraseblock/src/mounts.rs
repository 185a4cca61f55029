//! The host's table of mounts, in which a mount of ours is recognised by its image.

use eraseblock_fuse::{decoded, source_path};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// What our mounts are called in the table.
const OURS: &[u8] = b"fuse.eraseblock";

/// A FUSE mount of the host.
#[derive(Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where it is.
    pub dir: PathBuf,
    /// The image of a mount of ours, by the path it was mounted with made absolute.
    pub image: Option<PathBuf>,
    /// Nothing can be changed through it.
    pub is_read_only: bool,
}

/// Returns the FUSE mounts of the host; a mount that hides another one comes after it. Fails if
/// `/proc/self/mountinfo` cannot be read.
pub fn all() -> io::Result<Vec<Mount>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(mount).collect())
}

/// One line of the table: the fifth and sixth fields are the place and its options, and after a lone
/// dash stand kind and source.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let dir = PathBuf::from(OsString::from_vec(unescaped(fields.nth(4)?)));
    let is_read_only = fields.next()?.split(|byte| *byte == b',').any(|option| option == b"ro");
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (fields.next()?, fields.next()?);
    let image = (kind == OURS).then(|| source_path(&unescaped(source)));
    kind.starts_with(b"fuse").then_some(Mount { dir, image, is_read_only })
}

/// Undoes `\040` and its like.
fn unescaped(field: &[u8]) -> Vec<u8> {
    decoded(field, b'\\', 3, 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_fuse::source_name;
    use std::path::Path;

    fn line(kind: &str, source: &str) -> Vec<u8> {
        let place = "36 35 0:39 / /mnt/a\\040b rw,noatime master:1 x:2";
        format!("{place} - {kind} {source} rw").into_bytes()
    }

    #[test]
    fn lines_of_the_table_are_understood() {
        let dir = PathBuf::from("/mnt/a b");
        let image = Some(PathBuf::from("/i\\m"));
        let ours = mount(&line("fuse.eraseblock", "/i\\134m"));
        assert_eq!(ours, Some(Mount { dir: dir.clone(), image, is_read_only: false }));
        let other = mount(&line("fuse.sshfs", "host:"));
        assert_eq!(other, Some(Mount { dir, image: None, is_read_only: false }));
        let read_only = b"36 35 0:39 / /m ro,noatime - fuse.eraseblock /i rw";
        assert!(mount(read_only).is_some_and(|mount| mount.is_read_only));
        assert_eq!(mount(&line("ext4", "/dev/sda")), None);
        assert_eq!(mount(b"36 35"), None);
        assert_eq!(unescaped(b"a\\9\\04"), b"a\\9\\04");
    }

    /// The hint about an image in use named no mount when the image had a comma in its name.
    #[test]
    fn images_of_odd_names_are_found() {
        for path in ["/a,b", "/a b\\c", "/100%", "/%2C"].map(Path::new) {
            // As the kernel writes it.
            let source = source_name(path).replace('\\', "\\134").replace(' ', "\\040");
            let image = mount(&line("fuse.eraseblock", &source)).and_then(|mount| mount.image);
            assert_eq!(image.as_deref(), Some(path));
        }
    }
}
