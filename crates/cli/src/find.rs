//! A path in an image, as the user typed it or as a command printed it.

use crate::failure::{Context, Failure};
use eraseblock::raw::vfs::{FileSystem, FsErrorKind, Ino};
use eraseblock::text;

/// The inode at a path. A path that does not exist as typed may hold escapes, as `ls` prints them.
pub(crate) fn find(fs: &dyn FileSystem, path: &[u8]) -> Result<Ino, Failure> {
    find_path(fs, path).map(|(ino, _)| ino)
}

/// The same, with the path as the image has it.
pub(crate) fn find_path(fs: &dyn FileSystem, path: &[u8]) -> Result<(Ino, Vec<u8>), Failure> {
    match fs.resolve(path) {
        Ok(ino) => return Ok((ino, path.to_vec())),
        Err(error) if error.kind() == FsErrorKind::NotFound => {}
        Err(error) => return Err(error).context(text::name(path)),
    }
    if let Some(path) = text::unescape(path)
        && let Ok(ino) = fs.resolve(&path)
    {
        return Ok((ino, path));
    }
    Err(missing(fs, path))
}

/// Returns the error for a path that does not exist, with its missing part.
fn missing(fs: &dyn FileSystem, path: &[u8]) -> Failure {
    let shown = text::name(path);
    let mut dir = fs.root();
    let mut above = String::new();
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    for name in names {
        match fs.lookup(dir, name) {
            Ok(ino) => dir = ino,
            Err(error) if error.kind() == FsErrorKind::NotFound => break,
            Err(error) => return Failure::from(error).context(shown),
        }
        above = format!("{above}/{}", text::name(name));
    }
    let above = if above.is_empty() { "/".to_owned() } else { above };
    Failure::new("no such file or directory")
        .context(shown)
        .hint(format!("`eraseblock ls TARGET {above}` lists the last directory that exists"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock::raw::vfs::{Caller, NewInode, NewKind, Timestamp, WritableFileSystem};
    use eraseblock::raw::vfs_testkit::ModelFs;

    #[test]
    fn paths_are_found_as_typed_and_as_printed() {
        let fs = ModelFs::default();
        let inode = NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };
        let make = |name: &[u8]| {
            fs.create(fs.root(), name, &inode, &Caller::owner(Timestamp::default())).unwrap()
        };
        let odd = make(b"a\xff\n");
        let literal = make(br"b\x41");
        let other = make(b"bA");
        assert_eq!(find(&fs, b"/a\xff\n").unwrap(), odd);
        assert_eq!(find(&fs, br"a\xff\n").unwrap(), odd);
        // A path that exists as typed takes precedence.
        assert_eq!(find(&fs, br"b\x41").unwrap(), literal);
        assert_eq!(find(&fs, br"\u{62}\x41").unwrap(), other);
        let missing = find(&fs, b"/bA/c/d").unwrap_err();
        assert_eq!(missing.message(), "/bA/c/d: no such file or directory");
        assert!(missing.next_step().unwrap().contains("TARGET /bA`"));
        assert!(find(&fs, b"..").unwrap_err().message().contains("not allowed"));
    }
}
