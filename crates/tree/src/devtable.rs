//! Device tables: one text line per entry that a host tree cannot hold or holds wrongly (devices,
//! owners, modes).
//!
//! spec: ubifs-format 17.6. `path type mode uid gid major minor start inc count`; `#` begins a
//! comment line. Missing fields, or fields from the first `-`, are 0 (mode 0755).

use crate::draft::directory;
use crate::error::TreeError;
use eraseblock_base::{Findings, Location};
use eraseblock_vfs::source::{NodeId, check_name};
use eraseblock_vfs::{FileKind, SourceKind, SourceNode, SourceTree};
use std::collections::BTreeMap;

/// The maximum number of names that one table may create or change.
pub const MAX_NAMES: usize = 1 << 20;

/// The shortest table, in bytes.
const MIN_SIZE: usize = 10;

/// Applies a device table to a tree.
///
/// Entries whose parent directory exists neither in the tree nor in the table have no effect;
/// findings name them.
///
/// # Errors
///
/// Fails without any change if the table itself breaks the rules. Fails at the first entry that
/// does not fit the tree.
pub fn apply(tree: &mut SourceTree, text: &[u8]) -> Result<Findings, TreeError> {
    let mut findings = Findings::new();
    for (path, entry) in parse(text)? {
        let wrong = |reason| TreeError::DeviceTable { line: entry.line, reason };
        let shown = String::from_utf8_lossy(&path);
        if let Some((dir, name)) = parent(tree, &path) {
            change(tree, dir, name, &entry).map_err(|why| wrong(format!("`{shown}`: {why}")))?;
        } else {
            let line = entry.line;
            let message = format!(
                "device table line {line}: `{shown}` has no parent directory and is ignored"
            );
            findings.note(Location::Whole, "device-table-orphan", message);
        }
    }
    Ok(findings)
}

/// One name in the table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry {
    line: usize,
    kind: Kind,
    permissions: u32,
    uid: u32,
    gid: u32,
    device: (u32, u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    File,
    Directory,
    Char,
    Block,
    Fifo,
    Link,
}

impl Kind {
    fn of(letter: &[u8]) -> Option<Self> {
        Some(match letter {
            b"f" => Self::File,
            b"d" => Self::Directory,
            b"c" => Self::Char,
            b"b" => Self::Block,
            b"p" => Self::Fifo,
            b"l" => Self::Link,
            _ => return None,
        })
    }

    fn file_kind(self) -> FileKind {
        match self {
            Self::File => FileKind::Regular,
            Self::Directory => FileKind::Directory,
            Self::Char => FileKind::CharDevice,
            Self::Block => FileKind::BlockDevice,
            Self::Fifo => FileKind::Fifo,
            Self::Link => FileKind::Symlink,
        }
    }
}

/// Names in byte order, so that parents precede their entries.
type Table = BTreeMap<Vec<u8>, Entry>;

fn parse(text: &[u8]) -> Result<Table, TreeError> {
    if text.len() < MIN_SIZE {
        let reason = format!("the table has {} bytes, expected at least {MIN_SIZE}", text.len());
        return Err(TreeError::DeviceTable { line: 1, reason });
    }
    let mut table = Table::new();
    for (line, text) in (1..).zip(text.split(|byte| *byte == b'\n')) {
        let text = text.trim_ascii();
        if !text.is_empty() && !text.starts_with(b"#") {
            parse_line(text, line, &mut table)
                .map_err(|reason| TreeError::DeviceTable { line, reason })?;
        }
    }
    Ok(table)
}

fn parse_line(text: &[u8], line: usize, table: &mut Table) -> Result<(), String> {
    let mut fields = text.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let path = fields.next().unwrap_or_default();
    check_path(path)?;
    let letter = fields.next().ok_or("the type is missing, expected one of f d c b p l")?;
    let kind = Kind::of(letter)
        .ok_or_else(|| format!("type `{}`, expected one of f d c b p l", letter.escape_ascii()))?;
    let mut fields = fields.take_while(|field| *field != b"-");
    let permissions = match fields.next() {
        None => 0o755,
        Some(mode) => parse_mode(mode)?,
    };
    if kind == Kind::Link && permissions != 0o777 {
        return Err(format!("a symbolic link has mode {permissions:o}, expected 777"));
    }
    let mut next = |name| fields.next().map_or(Ok(0), |field| parse_number(field, name));
    let (uid, gid) = (next("uid")?, next("gid")?);
    let (major, minor) = (next("major")?, next("minor")?);
    let (start, increment, count) = (next("start")?, next("increment")?, next("count")?);
    let entry = |minor| Entry { line, kind, permissions, uid, gid, device: (major, minor) };
    if count == 0 {
        if increment > 0 {
            return Err("the count is 0, expected more when there is an increment".to_owned());
        }
        return insert(table, path.to_vec(), entry(minor));
    }
    if count as usize > MAX_NAMES - table.len() {
        return Err(format!("the table has more than {MAX_NAMES} names"));
    }
    for index in 0..count {
        let number = start.checked_add(index).ok_or("start + count is over 2^32")?;
        let minor = index.checked_mul(increment).and_then(|step| minor.checked_add(step));
        let minor = minor.ok_or("the minor number grows over 2^32")?;
        let path = [path, number.to_string().as_bytes()].concat();
        insert(table, path, entry(minor))?;
    }
    Ok(())
}

fn insert(table: &mut Table, path: Vec<u8>, entry: Entry) -> Result<(), String> {
    if table.len() >= MAX_NAMES {
        return Err(format!("the table has more than {MAX_NAMES} names"));
    }
    if let Some(name) = path.split(|byte| *byte == b'/').next_back()
        && path != b"/"
    {
        check_name(name).map_err(|error| error.to_string())?;
    }
    if let Some(first) = table.get(&path) {
        let path = String::from_utf8_lossy(&path);
        return Err(format!("`{path}` is in the table already, on line {}", first.line));
    }
    table.insert(path, entry);
    Ok(())
}

fn check_path(path: &[u8]) -> Result<(), String> {
    let shown = path.escape_ascii();
    if !path.starts_with(b"/") {
        return Err(format!("path `{shown}`, expected an absolute one"));
    }
    if path == b"/" {
        return Ok(());
    }
    for part in path[1..].split(|byte| *byte == b'/') {
        match part {
            b"" => return Err(format!("path `{shown}`, expected no `//` and no `/` at its end")),
            b"." | b".." => return Err(format!("path `{shown}`, expected no `.` and no `..`")),
            part => check_name(part).map_err(|error| error.to_string())?,
        }
    }
    Ok(())
}

fn parse_mode(field: &[u8]) -> Result<u32, String> {
    let text = std::str::from_utf8(field).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| u32::from_str_radix(text, 8).ok())
        .filter(|mode| *mode <= 0o7777)
        .ok_or_else(|| format!("mode `{}`, expected octal up to 7777", field.escape_ascii()))
}

fn parse_number(field: &[u8], name: &str) -> Result<u32, String> {
    let text = std::str::from_utf8(field).ok().filter(|text| !text.starts_with('+'));
    text.and_then(|text| text.parse().ok()).ok_or_else(|| {
        format!("{name} `{}`, expected a decimal number below 2^32", field.escape_ascii())
    })
}

/// Returns the directory of an entry, and its name in it; the root is in itself, without a name.
fn parent<'a>(tree: &SourceTree, path: &'a [u8]) -> Option<(NodeId, &'a [u8])> {
    let mut parts: Vec<&[u8]> = path[1..].split(|byte| *byte == b'/').collect();
    let name = parts.pop()?;
    let mut dir = NodeId::ROOT;
    for part in parts {
        dir = tree.lookup(dir, part)?;
    }
    (tree.node(dir).file_kind() == FileKind::Directory).then_some((dir, name))
}

fn change(tree: &mut SourceTree, dir: NodeId, name: &[u8], entry: &Entry) -> Result<(), String> {
    let existing = if name.is_empty() { Some(dir) } else { tree.lookup(dir, name) };
    match existing {
        Some(_) if matches!(entry.kind, Kind::Char | Kind::Block | Kind::Fifo) => {
            Err("it exists, and a device table only creates devices and fifos".to_owned())
        }
        Some(id) if tree.node(id).file_kind() != entry.kind.file_kind() => {
            Err("it exists as something else, and a device table cannot change that".to_owned())
        }
        Some(id) => {
            let node = tree.node_mut(id);
            (node.uid, node.gid) = (entry.uid, entry.gid);
            node.permissions = entry.permissions;
            Ok(())
        }
        None => {
            let kind = match entry.kind {
                Kind::File | Kind::Link => {
                    return Err("it does not exist, and a device table cannot create it".to_owned());
                }
                Kind::Directory => directory(0).kind,
                Kind::Char => SourceKind::CharDevice(entry.device.0, entry.device.1),
                Kind::Block => SourceKind::BlockDevice(entry.device.0, entry.device.1),
                Kind::Fifo => SourceKind::Fifo,
            };
            let root = tree.node(NodeId::ROOT);
            let times = (root.atime, root.mtime, root.ctime);
            let mut node = SourceNode::new(kind, entry.permissions);
            (node.uid, node.gid) = (entry.uid, entry.gid);
            (node.atime, node.mtime, node.ctime) = times;
            tree.add(dir, name, node).map(drop).map_err(|error| error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eraseblock_vfs::Timestamp;
    use std::sync::Arc;

    fn tree() -> SourceTree {
        let mut root = directory(0o755);
        root.mtime = Timestamp::from_seconds(77);
        let mut tree = SourceTree::new(root);
        let dev = tree.add(NodeId::ROOT, b"dev", directory(0o755)).unwrap();
        tree.add(dev, b"log", SourceNode::new(SourceKind::Symlink(b"x".to_vec()), 0o777)).unwrap();
        let file = SourceNode::new(SourceKind::Regular(Arc::new(Vec::new())), 0o600);
        tree.add(NodeId::ROOT, b"f", file).unwrap();
        tree
    }

    fn at<'a>(tree: &'a SourceTree, path: &[u8]) -> &'a SourceNode {
        let (dir, name) = parent(tree, path).unwrap();
        tree.node(tree.lookup(dir, name).unwrap())
    }

    #[test]
    fn entries_create_and_change() {
        let mut tree = tree();
        let text = b"# devices\n\n /dev/console c 600 0 5 5 1 - - -  \n\
            /dev/mtd c 640 0 0 90 0 0 2 3\n/dev/sub/pipe p 622 1 2\n/dev/sub d\n\
            /f f 4755 10 20\n/ d 700 3 4\n/dev/log l 777 8 9\n/dev/blk b 660 0 6 31 2 7 0 1 extra";
        assert!(apply(&mut tree, text).unwrap().is_empty());
        let node = at(&tree, b"/dev/console");
        assert!(matches!(node.kind, SourceKind::CharDevice(5, 1)));
        assert_eq!((node.permissions, node.uid, node.gid, node.mtime.seconds), (0o600, 0, 5, 77));
        assert!(matches!(at(&tree, b"/dev/mtd0").kind, SourceKind::CharDevice(90, 0)));
        assert!(matches!(at(&tree, b"/dev/mtd2").kind, SourceKind::CharDevice(90, 4)));
        assert!(matches!(at(&tree, b"/dev/blk7").kind, SourceKind::BlockDevice(31, 2)));
        assert_eq!(at(&tree, b"/dev/sub").permissions, 0o755);
        assert_eq!(at(&tree, b"/dev/sub/pipe").file_kind(), FileKind::Fifo);
        let file = at(&tree, b"/f");
        assert_eq!((file.permissions, file.uid, file.gid), (0o4755, 10, 20));
        assert_eq!(at(&tree, b"/dev/log").uid, 8);
        let root = tree.node(NodeId::ROOT);
        assert_eq!((root.permissions, root.uid, root.gid), (0o700, 3, 4));
    }

    #[test]
    fn orphans_are_ignored_and_named() {
        let mut tree = tree();
        let findings = apply(&mut tree, b"/none/x c 600 0 0 1 3\n/f/x f 600 0 0\n").unwrap();
        assert_eq!(findings.iter().count(), 2);
        assert_eq!(tree.len(), 4);
    }

    #[test]
    fn broken_lines_are_refused_by_number() {
        for (text, reason) in [
            ("/dev d", "at least 10"),
            ("/dev//x c 600 0 0 1 3", "no `//`"),
            ("/dev/../x c 600 0 0 1 3", "no `..`"),
            ("/dev/x/ d 755 0 0", "at its end"),
            ("dev/x c 600 0 0 1 3", "absolute"),
            ("/dev/x s 600 0 0 1 3", "one of f d c b p l"),
            ("/dev/xyzabc", "type is missing"),
            ("/dev/x c 680 0 0", "octal"),
            ("/dev/x c 17777 0 0", "octal"),
            ("/dev/x c 600 x 0 1 3", "uid `x`"),
            ("/dev/x c 600 0 -1 1 3", "gid `-1`"),
            ("/dev/x c 600 0 0 1 3 0 1 0", "count is 0"),
            ("/dev/x c 600 0 0 1 4294967295 0 1 2", "minor number"),
            ("/dev/x c 600 0 0 1 0 4294967295 0 2", "start + count"),
            ("/dev/x c 600 0 0 1 0 0 0 4294967295", "more than"),
            ("/dev/x c 600 0 0\n/dev/x c 600 0 0", "already, on line 1"),
            ("/dev/x c 600 0 0 1 0 0 1 3\n/dev/x1 d", "already, on line 1"),
            ("/dev/log l 755 0 0", "expected 777"),
            ("/dev/lag l 777 0 0", "cannot create it"),
            ("/nothing f 644 0 0", "cannot create it"),
            ("/f d 755 0 0 0", "something else"),
            ("/dev c 755 0 0 0", "only creates devices"),
        ] {
            let error = apply(&mut tree(), text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
            let line = if text.contains('\n') { 2 } else { 1 };
            assert!(error.starts_with(&format!("device table line {line}: ")), "{error}");
        }
    }
}
