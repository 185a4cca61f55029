//! Helpers for tests: trees as lists of lines that can be compared.

use eraseblock_vfs::source::NodeId;
use eraseblock_vfs::{SourceKind, SourceTree};
use std::collections::HashMap;
use std::io::Read;

/// Returns one line for each name, depth first: everything but atime and ctime; with `seconds`,
/// without fractions of seconds.
pub(crate) fn listing(tree: &SourceTree, seconds: bool) -> Vec<String> {
    let mut lines = Vec::new();
    let mut first = HashMap::new();
    let mut todo = vec![(NodeId::ROOT, String::new())];
    while let Some((id, path)) = todo.pop() {
        let node = tree.node(id);
        let owner = first.entry(id).or_insert_with(|| path.clone());
        let kind = match &node.kind {
            SourceKind::Directory(_) => "directory".to_owned(),
            SourceKind::Regular(content) => {
                let mut bytes = Vec::new();
                content.open().unwrap().read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes.len() as u64, content.size(), "{path}");
                let short = bytes.iter().take(20).copied().collect::<Vec<_>>();
                let crc = eraseblock_base::crc::crc32(&bytes);
                format!("file {} {crc:08x} `{}`", bytes.len(), short.escape_ascii())
            }
            kind => format!("{kind:?}"),
        };
        let nanoseconds = if seconds { 0 } else { node.mtime.nanoseconds };
        lines.push(format!(
            "/{path} (as /{owner}) {kind} {:o} {}:{} {}.{nanoseconds:09} {:?}",
            node.permissions, node.uid, node.gid, node.mtime.seconds, node.xattrs
        ));
        let entries: Vec<_> = tree.entries(id).collect();
        for (name, child) in entries.into_iter().rev() {
            let name = String::from_utf8_lossy(name);
            let slash = if path.is_empty() { "" } else { "/" };
            todo.push((child, format!("{path}{slash}{name}")));
        }
    }
    lines
}

/// Runs a shell script in a directory; it must succeed.
pub(crate) fn shell(dir: &std::path::Path, script: &str) {
    let status = std::process::Command::new("sh").args(["-ec", script]).current_dir(dir).status();
    assert!(status.unwrap().success(), "{script}");
}

/// A script that creates one entry of every kind in the current directory.
pub(crate) const EVERYTHING: &str = "umask 022; mkdir -p d/e empty; echo one > d/f; ln d/f d/g; \
    ln d/f a; : > nothing; ln -s ../nowhere d/s; mkfifo p; chmod 4751 d/f; chmod 1700 d/e; \
    truncate -s 5M hole; printf x | dd of=hole bs=1 seek=2000000 conv=notrunc status=none; \
    head -c 300000 /dev/zero | tr '\\0' y > big; touch -d '1965-03-04 05:06:07.25' d/f; \
    touch -d '2021-03-04 05:06:07.123456789' big nothing d/e; touch -hd '2020-01-01 00:00:01' d/s; \
    touch -d '2019-05-05 05:05:05.5' empty d hole; n=$(printf '%0150d' 7); mkdir $n; echo long > $n/$n; \
    ln -s $n/$n link; touch -hd @1000000000 link; touch -d @1000000001 $n/$n $n p .";

/// Additions that only root can make.
pub(crate) const AS_ROOT: &str = "mknod c c 5 1; mknod b b 31 258; chown 1000:2000 d/f big; \
    chown -h 3000000:4000000 link; touch -d @1000000002 c b .";

/// A small generator of random numbers (xorshift), the same on every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 16) % limit as u64).unwrap()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

/// Returns a PAX record with its length.
pub(crate) fn pax_record(text: &str) -> Vec<u8> {
    let rest = text.len() + 2;
    let mut len = rest + 1;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    format!("{len} {text}\n").into_bytes()
}
