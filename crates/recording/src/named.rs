//! Files by their paths, for recordings of others, which know no numbers.

use crate::op::{Kind, Name, Op};
use crate::paths::Paths;

/// The files below a root that a recording has named so far.
#[derive(Debug)]
pub(crate) struct Named {
    /// The path of the root, absolute, without a slash at the end.
    root: Vec<u8>,
    paths: Paths,
    next: u64,
}

impl Named {
    pub(crate) fn new(root: &[u8]) -> Self {
        let end = root.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        Self { root: root[..end].to_vec(), paths: Paths::default(), next: 1 }
    }

    /// Returns the path from the root; `None` if it is not below the root.
    pub(crate) fn below(&self, path: &[u8]) -> Option<Vec<u8>> {
        let rest = path.strip_prefix(self.root.as_slice())?;
        if !rest.is_empty() && rest[0] != b'/' {
            return None;
        }
        let parts = rest.split(|byte| *byte == b'/').filter(|it| !matches!(*it, b"" | b"."));
        let parts: Vec<&[u8]> = parts.collect();
        (!parts.contains(&&b".."[..])).then(|| parts.join(&b'/'))
    }

    /// Passes an operation on and follows it.
    pub(crate) fn emit(&mut self, op: Op, emit: &mut dyn FnMut(Op)) {
        self.paths.follow(&op);
        emit(op);
    }

    pub(crate) fn known(&self, path: &[u8]) -> Option<u64> {
        self.paths.at(path)
    }

    /// Returns the number of a file; one without a number existed before.
    pub(crate) fn file(&mut self, path: &[u8], kind: Kind, emit: &mut dyn FnMut(Op)) -> u64 {
        if let Some(file) = self.paths.at(path) {
            return file;
        }
        let file = self.number();
        self.emit(Op::Found { file, path: Name::new(path), kind, size: 0 }, emit);
        file
    }

    /// Returns the number of a new file.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Returns the directory of a path, and the last name; `None` for the root itself.
    pub(crate) fn place(&mut self, path: &[u8], emit: &mut dyn FnMut(Op)) -> Option<(u64, Name)> {
        let (dir, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path),
        };
        (!name.is_empty()).then(|| (self.file(dir, Kind::Directory, emit), Name::new(name)))
    }
}
