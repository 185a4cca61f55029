//! Cpio archives as source trees: newc (070701), crc (070702, sums are checked) and the portable
//! odc (070707). Several archives may follow each other with NULs in between, each optionally
//! compressed, as boot loaders pass them to Linux.

#[cfg(test)]
mod tests;

use crate::draft::{Draft, DraftId, PlaceError, Placed, directory};
use crate::error::TreeError;
use crate::input::{Input, Pieces};
use eraseblock_base::{Findings, Location};
use eraseblock_vfs::{FileKind, SourceKind, SourceNode, SourceTree, Timestamp};
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// The longest member name and link target, in bytes.
const MAX_NAME: u64 = 64 << 10;

/// Reads cpio archives from a file, plain or compressed (gzip, zstd).
///
/// Findings name members that replaced others.
///
/// # Errors
///
/// Fails if the file cannot be read or an archive is invalid.
pub fn read(file: File) -> Result<(SourceTree, Findings), TreeError> {
    read_input(Input::from_file(file)?)
}

/// Reads cpio archives from a stream, plain or compressed (gzip, zstd).
///
/// # Errors
///
/// Fails if the stream cannot be read or an archive is invalid.
pub fn read_stream(reader: Box<dyn Read + Send>) -> Result<(SourceTree, Findings), TreeError> {
    read_input(Input::from_reader(reader)?)
}

/// Returns whether an archive begins with `head`.
pub(crate) fn is_cpio(head: &[u8]) -> bool {
    Dialect::of(head).is_some()
}

pub(crate) fn read_input(input: Input) -> Result<(SourceTree, Findings), TreeError> {
    let mut reader = Reader {
        input,
        base: 0,
        draft: Draft::new(directory(0o755)),
        findings: Findings::new(),
        linked: HashMap::new(),
    };
    let mut is_first = true;
    while reader.next_archive(is_first)? {
        is_first = false;
        while reader.member()? {}
    }
    let Reader { input, draft, findings, .. } = reader;
    input.finish()?;
    let tree = draft
        .finish()
        .map_err(|source| TreeError::Source { path: PathBuf::from("archive"), source })?;
    Ok((tree, findings))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dialect {
    Newc,
    Crc,
    Odc,
}

impl Dialect {
    fn of(head: &[u8]) -> Option<Self> {
        match head.get(..6)? {
            b"070701" => Some(Self::Newc),
            b"070702" => Some(Self::Crc),
            b"070707" => Some(Self::Odc),
            _ => None,
        }
    }

    /// Returns the alignment of names and contents, counted from the start of the archive.
    fn alignment(self) -> u64 {
        if self == Self::Odc { 1 } else { 4 }
    }

    fn header_len(self) -> usize {
        if self == Self::Odc { 76 } else { 110 }
    }
}

struct Header {
    at: Location,
    dialect: Dialect,
    /// Device (major, minor) and inode number, which identify the inode in the archive.
    inode: (u32, u32, u64),
    mode: u32,
    uid: u32,
    gid: u32,
    nlink: u32,
    mtime: i64,
    size: u64,
    device: (u32, u32),
    name_len: u64,
    check: u32,
}

/// Reads number fields from the front of a header.
struct Fields<'a> {
    bytes: &'a [u8],
    radix: u32,
    at: Location,
}

impl Fields<'_> {
    fn next(&mut self, width: usize, field: &'static str) -> Result<u64, TreeError> {
        let (digits, rest) = self.bytes.split_at(width.min(self.bytes.len()));
        self.bytes = rest;
        let value = digits.iter().try_fold(0_u64, |value, digit| {
            let digit = char::from(*digit).to_digit(self.radix)?;
            value.checked_mul(u64::from(self.radix))?.checked_add(u64::from(digit))
        });
        value.ok_or_else(|| TreeError::Field {
            at: self.at,
            field,
            found: format!("`{}`", digits.escape_ascii()),
            expected: if self.radix == 8 { "octal digits" } else { "hexadecimal digits" },
        })
    }

    /// Returns a field that fits into 32 bits.
    fn small(&mut self, width: usize, field: &'static str) -> Result<u32, TreeError> {
        Ok(u32::try_from(self.next(width, field)?).expect("8 hexadecimal or 6 octal digits"))
    }
}

impl Header {
    fn decode(dialect: Dialect, bytes: &[u8], at: Location) -> Result<Self, TreeError> {
        let bytes = &bytes[6..];
        if dialect == Dialect::Odc {
            return Self::decode_odc(Fields { bytes, radix: 8, at });
        }
        let mut fields = Fields { bytes, radix: 16, at };
        let ino = fields.next(8, "inode number")?;
        let mode = fields.small(8, "mode")?;
        let uid = fields.small(8, "uid")?;
        let gid = fields.small(8, "gid")?;
        let nlink = fields.small(8, "link count")?;
        let mtime = fields.next(8, "mtime")?.cast_signed();
        let size = fields.next(8, "size")?;
        let on = (fields.small(8, "device major")?, fields.small(8, "device minor")?);
        let device = (fields.small(8, "rdev major")?, fields.small(8, "rdev minor")?);
        let name_len = fields.next(8, "name size")?;
        let check = fields.small(8, "check")?;
        let inode = (on.0, on.1, ino);
        Ok(Self { at, dialect, inode, mode, uid, gid, nlink, mtime, size, device, name_len, check })
    }

    fn decode_odc(mut fields: Fields<'_>) -> Result<Self, TreeError> {
        let on = fields.small(6, "device")?;
        let ino = fields.next(6, "inode number")?;
        let mode = fields.small(6, "mode")?;
        let uid = fields.small(6, "uid")?;
        let gid = fields.small(6, "gid")?;
        let nlink = fields.small(6, "link count")?;
        let rdev = fields.small(6, "rdev")?;
        let mtime = fields.next(11, "mtime")?.cast_signed();
        let name_len = fields.next(6, "name size")?;
        let size = fields.next(11, "size")?;
        Ok(Self {
            at: fields.at,
            dialect: Dialect::Odc,
            inode: (on, 0, ino),
            mode,
            uid,
            gid,
            nlink,
            mtime,
            size,
            device: (rdev >> 8, rdev & 0xFF),
            name_len,
            check: 0,
        })
    }
}

struct Reader {
    input: Input,
    /// Start of the current archive.
    base: u64,
    draft: Draft,
    findings: Findings,
    /// Inodes of this archive with more than one name.
    linked: HashMap<(u32, u32, u64), DraftId>,
}

impl Reader {
    /// Advances to the start of the next archive; returns false at the end of the input.
    fn next_archive(&mut self, is_first: bool) -> Result<bool, TreeError> {
        loop {
            let bytes = self.input.peek(4096)?;
            if bytes.is_empty() {
                return Ok(false);
            }
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            if zeros == 0 || is_first {
                break;
            }
            self.input.consume(zeros);
        }
        self.input.decompress()?;
        self.base = self.input.pos();
        self.linked.clear();
        let at = self.input.here();
        let head = self.input.peek(6)?;
        if is_cpio(head) {
            return Ok(true);
        }
        let found = format!("`{}`", head.escape_ascii());
        if !is_first {
            let message = format!("{found} after the trailer is not an archive and was not read");
            self.findings.warn(at, "cpio-junk", message);
            return Ok(false);
        }
        let expected = "the magic of a cpio archive";
        Err(TreeError::Field { at, field: "magic", found, expected })
    }

    /// Reads one member; returns false at the trailer.
    fn member(&mut self) -> Result<bool, TreeError> {
        let header = self.header()?;
        let name = self.name(&header)?;
        if name == b"TRAILER!!!" {
            self.input.skip(header.size, "the trailer")?;
            return Ok(false);
        }
        let node = self.node(&header, &name)?;
        self.place(&header, &name, node)?;
        Ok(true)
    }

    fn header(&mut self) -> Result<Header, TreeError> {
        let at = self.input.here();
        let head = self.input.peek(6)?;
        if head.is_empty() {
            return Err(TreeError::Truncated { at, what: "an archive without trailer" });
        }
        let Some(dialect) = Dialect::of(head) else {
            let found = format!("`{}`", head.escape_ascii());
            let expected = "070701, 070702 or 070707";
            return Err(TreeError::Field { at, field: "magic", found, expected });
        };
        let bytes = self.input.take(dialect.header_len(), "a cpio header")?;
        Header::decode(dialect, &bytes, at)
    }

    fn name(&mut self, header: &Header) -> Result<Vec<u8>, TreeError> {
        let found = header.name_len;
        if !(1..=MAX_NAME).contains(&found) {
            return Err(TreeError::Field {
                at: header.at,
                field: "name size",
                found: found.to_string(),
                expected: "1 to 65536 bytes",
            });
        }
        let len = usize::try_from(found).expect("bounded above");
        let mut name = self.input.take(len, "a member's name")?;
        self.align(header)?;
        if name.pop() != Some(0) || name.contains(&0) {
            let reason = "its name does not end with its only NUL";
            return Err(TreeError::Member { at: header.at, path: name, reason });
        }
        Ok(name)
    }

    fn align(&mut self, header: &Header) -> Result<(), TreeError> {
        let past = (self.input.pos() - self.base) % header.dialect.alignment();
        if past == 0 {
            return Ok(());
        }
        self.input.skip(header.dialect.alignment() - past, "the padding of a member")
    }

    fn node(&mut self, header: &Header, name: &[u8]) -> Result<SourceNode, TreeError> {
        let refused = |reason| TreeError::Member { at: header.at, path: name.to_vec(), reason };
        let device = header.device;
        let kind = match FileKind::from_mode(header.mode) {
            Some(FileKind::Regular) => SourceKind::Regular(Arc::new(self.content(header)?)),
            Some(FileKind::Symlink) => match self.target(header)? {
                target if target.is_empty() => {
                    return Err(refused("it is a symbolic link without a target"));
                }
                target => SourceKind::Symlink(target),
            },
            Some(FileKind::Directory) => directory(0).kind,
            Some(FileKind::BlockDevice) => SourceKind::BlockDevice(device.0, device.1),
            Some(FileKind::CharDevice) => SourceKind::CharDevice(device.0, device.1),
            Some(FileKind::Fifo) => SourceKind::Fifo,
            Some(FileKind::Socket) => SourceKind::Socket,
            None => return Err(refused("its mode has no valid file type")),
        };
        if !matches!(kind, SourceKind::Regular(_) | SourceKind::Symlink(_)) {
            self.input.skip(header.size, "the content of a member")?;
        }
        self.align(header)?;
        let mut node = SourceNode::new(kind, header.mode & 0o7777);
        (node.uid, node.gid) = (header.uid, header.gid);
        node.mtime = Timestamp::from_seconds(header.mtime);
        (node.atime, node.ctime) = (node.mtime, node.mtime);
        Ok(node)
    }

    fn content(&mut self, header: &Header) -> Result<Pieces, TreeError> {
        let what = "the content of a member";
        if header.dialect != Dialect::Crc {
            return Ok(Pieces::whole(self.input.content(header.size, what, None)?));
        }
        let mut sum = 0_u32;
        let mut add = |bytes: &[u8]| {
            sum = bytes.iter().fold(sum, |sum, byte| sum.wrapping_add(u32::from(*byte)));
        };
        let extent = self.input.content(header.size, what, Some(&mut add))?;
        // Only the last name of an inode carries its content; earlier ones may carry its sum.
        if sum != header.check && !(header.size == 0 && header.nlink > 1) {
            let (stored, computed) = (u64::from(header.check), u64::from(sum));
            let what = "cpio content";
            return Err(TreeError::Checksum { at: header.at, what, stored, computed });
        }
        Ok(Pieces::whole(extent))
    }

    fn target(&mut self, header: &Header) -> Result<Vec<u8>, TreeError> {
        if header.size > MAX_NAME {
            return Err(TreeError::Field {
                at: header.at,
                field: "size of a link target",
                found: header.size.to_string(),
                expected: "at most 65536 bytes",
            });
        }
        let len = usize::try_from(header.size).expect("bounded above");
        let mut target = self.input.take(len, "a link target")?;
        if target.last() == Some(&0) {
            target.pop();
        }
        Ok(target)
    }

    fn place(&mut self, header: &Header, name: &[u8], node: SourceNode) -> Result<(), TreeError> {
        let is_dir = node.file_kind() == FileKind::Directory;
        let is_shared = header.nlink > 1 && !is_dir;
        let known = if is_shared { self.linked.get(&header.inode).copied() } else { None };
        let placed = match known {
            Some(first) => {
                let placed = self.draft.place_link_to(name, first);
                merge(self.draft.node_mut(first), node);
                placed
            }
            None => self.draft.place(name, node).map(|(id, placed)| {
                if is_shared {
                    self.linked.insert(header.inode, id);
                }
                placed
            }),
        };
        self.placed(header, name, placed)
    }

    fn placed(
        &mut self,
        header: &Header,
        name: &[u8],
        placed: Result<Placed, PlaceError>,
    ) -> Result<(), TreeError> {
        let at = header.at;
        let refused = |error: PlaceError| {
            let reason = error.reason();
            TreeError::Member { at, path: name.to_vec(), reason }
        };
        let path = String::from_utf8_lossy(name);
        match placed.map_err(refused)? {
            Placed::New => {}
            Placed::Replaced => {
                let message = format!("`{path}` replaces an earlier member of that name");
                self.findings.note(at, "member-replaced", message);
            }
            Placed::ReplacedTree => {
                let message = format!("`{path}` replaces a directory and all that was in it");
                self.findings.warn(at, "tree-replaced", message);
            }
        }
        Ok(())
    }
}

/// Merges a further name of an inode: its attributes replace the first ones, and so does its
/// content if it has one.
fn merge(first: &mut SourceNode, again: SourceNode) {
    let is_empty = matches!(&again.kind, SourceKind::Regular(content) if content.size() == 0);
    let kind = std::mem::replace(&mut first.kind, SourceKind::Fifo);
    *first = SourceNode { kind: if is_empty { kind } else { again.kind }, ..again };
}
