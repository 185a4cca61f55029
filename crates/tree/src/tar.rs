//! Tar archives as source trees: seventh edition, ustar, GNU (long names, base-256 numbers, sparse
//! files) and PAX (any length, sub-second times, xattrs, sparse 0.0, 0.1, 1.0).
//!
//! Absolute names lose their leading slash, `..` is refused, missing parents are created, and the
//! last of several members with one name is used. A plain file is read in place later; a stream or
//! compressed archive is spooled into an unnamed temporary file.

mod acl;
mod header;
mod pax;
mod sparse;
#[cfg(test)]
mod tests;

use crate::draft::{Draft, PlaceError, Placed, directory, is_kept_xattr};
use crate::error::TreeError;
use crate::input::{Input, Pieces};
use eraseblock_base::{Findings, Location};
use eraseblock_vfs::rules::check_acl_value;
use eraseblock_vfs::{SourceKind, SourceNode, SourceTree, Timestamp};
pub(crate) use header::{BLOCK, Header};
use header::{Dialect, text};
use pax::Pax;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// The longest name or link target read from a GNU long-name member, in bytes.
const MAX_NAME: u64 = 64 << 10;

/// The longest xattr value.
const MAX_XATTR: usize = 65_536;

/// Reads a tar archive from a file, plain or compressed (gzip, zstd).
///
/// Findings name members that replaced others and attributes that were left out.
///
/// # Errors
///
/// Fails if the file cannot be read or the archive is invalid.
pub fn read(file: File) -> Result<(SourceTree, Findings), TreeError> {
    read_input(Input::from_file(file)?)
}

/// Reads a tar archive from a stream, plain or compressed (gzip, zstd).
///
/// # Errors
///
/// Fails if the stream cannot be read or the archive is invalid.
pub fn read_stream(reader: Box<dyn Read + Send>) -> Result<(SourceTree, Findings), TreeError> {
    read_input(Input::from_reader(reader)?)
}

pub(crate) fn read_input(input: Input) -> Result<(SourceTree, Findings), TreeError> {
    let mut reader = Reader {
        input,
        draft: Draft::new(directory(0o755)),
        findings: Findings::new(),
        global: Pax::default(),
        next: Pending::default(),
        names: acl::Names::default(),
    };
    while let Some(header) = reader.header()? {
        reader.member(header)?;
    }
    let Reader { input, draft, findings, .. } = reader;
    input.finish()?;
    let tree = draft
        .finish()
        .map_err(|source| TreeError::Source { path: PathBuf::from("archive"), source })?;
    Ok((tree, findings))
}

struct Reader {
    input: Input,
    draft: Draft,
    findings: Findings,
    global: Pax,
    next: Pending,
    names: acl::Names,
}

/// Information from preceding members about the next one.
#[derive(Default)]
struct Pending {
    pax: Option<Pax>,
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
}

/// A member with all its information.
struct Member {
    at: Location,
    path: Vec<u8>,
    link: Vec<u8>,
    size: u64,
    /// Whether the header announces content even if the type usually has none.
    has_pax: bool,
    header: Header,
    pax: Pax,
}

impl Reader {
    /// Returns the next header, or `None` at the end of the archive.
    fn header(&mut self) -> Result<Option<Header>, TreeError> {
        let at = self.input.here();
        let bytes = self.input.peek(BLOCK)?;
        if bytes.is_empty() {
            let message = "the archive ends without the two blocks of zeros that mark its end";
            self.findings.warn(at, "tar-no-end", message);
            return Ok(None);
        }
        let Ok(block) = <[u8; BLOCK]>::try_from(bytes) else {
            return Err(TreeError::Truncated { at, what: "a tar header" });
        };
        self.input.consume(BLOCK);
        if block.iter().all(|byte| *byte == 0) {
            self.check_end(at)?;
            return Ok(None);
        }
        Header::decode(&block, at).map(Some)
    }

    /// A block of zeros ends the archive; a header right after it is suspicious.
    fn check_end(&mut self, at: Location) -> Result<(), TreeError> {
        let second = self.input.peek(BLOCK)?;
        if second.iter().any(|byte| *byte != 0) {
            let message = "a single block of zeros ends the archive; data after it was not read";
            self.findings.warn(at, "tar-lone-zero-block", message);
        }
        Ok(())
    }

    fn member(&mut self, header: Header) -> Result<(), TreeError> {
        let at = header.at;
        match header.type_flag {
            b'x' | b'X' => {
                let records = self.metadata(header.size, pax::MAX_SIZE, at)?;
                self.next.pax.get_or_insert_with(|| self.global.clone()).read(&records, at)
            }
            b'g' => {
                let records = self.metadata(header.size, pax::MAX_SIZE, at)?;
                self.global.read(&records, at)?;
                self.global.restrict_to_global();
                Ok(())
            }
            b'L' => {
                let name = self.metadata(header.size, MAX_NAME, at)?;
                self.next.path = Some(text(&name).to_vec());
                Ok(())
            }
            b'K' => {
                let name = self.metadata(header.size, MAX_NAME, at)?;
                self.next.link = Some(text(&name).to_vec());
                Ok(())
            }
            b'V' | b'A' => self.pass(header.size),
            b'M' => Err(unsupported(at, "an archive of several volumes")),
            b'N' => Err(unsupported(at, "the old GNU long-name list")),
            _ => self.file(header),
        }
    }

    /// Returns the content of a member that only describes others.
    fn metadata(&mut self, size: u64, max: u64, at: Location) -> Result<Vec<u8>, TreeError> {
        if size > max {
            let expected = "not more than a description of a member can need";
            let found = size.to_string();
            return Err(TreeError::Field { at, field: "size", found, expected });
        }
        let len = usize::try_from(size).expect("bounded above");
        let bytes = self.input.take(len, "an extended header")?;
        self.input.skip(padding(size), "the padding of a member")?;
        Ok(bytes)
    }

    fn pass(&mut self, size: u64) -> Result<(), TreeError> {
        self.input.skip(size, "the content of a member")?;
        self.input.skip(padding(size), "the padding of a member")
    }

    fn file(&mut self, header: Header) -> Result<(), TreeError> {
        let member = self.describe(header);
        if member.header.type_flag == b'1' {
            return self.hard_link(&member);
        }
        let kind = self.kind(&member)?;
        let node = self.node(&member, kind);
        let placed = self.draft.place(&member.path, node).map(|placed| placed.1);
        self.placed(&member, placed)
    }

    /// Combines a header with the pending information.
    fn describe(&mut self, header: Header) -> Member {
        let pending = std::mem::take(&mut self.next);
        let has_pax = pending.pax.is_some();
        let mut pax = pending.pax.unwrap_or_else(|| self.global.clone());
        let path = pax.sparse.name.take().or(pax.path.take()).or(pending.path);
        let link = pax.link.take().or(pending.link);
        Member {
            at: header.at,
            path: path.unwrap_or_else(|| header.path.clone()),
            link: link.unwrap_or_else(|| header.link.clone()),
            size: pax.size.unwrap_or(header.size),
            has_pax,
            header,
            pax,
        }
    }

    fn hard_link(&mut self, member: &Member) -> Result<(), TreeError> {
        // POSIX allows the content to be repeated in a hard link; older writers only fill in the
        // size.
        if member.has_pax {
            self.pass(member.size)?;
        }
        let placed = self.draft.place_link(&member.path, &member.link);
        self.placed(member, placed)
    }

    /// Returns the kind of the member; skips its content.
    fn kind(&mut self, member: &Member) -> Result<SourceKind, TreeError> {
        let header = &member.header;
        let is_old_directory = header.dialect == Dialect::V7 && member.path.ends_with(b"/");
        let device = header.device;
        Ok(match header.type_flag {
            0 | b'0' if is_old_directory => directory(0).kind,
            b'2' if member.link.is_empty() => {
                return Err(refused(member, "it is a symbolic link without a target"));
            }
            b'2' => SourceKind::Symlink(member.link.clone()),
            b'3' => SourceKind::CharDevice(device.0, device.1),
            b'4' => SourceKind::BlockDevice(device.0, device.1),
            b'5' => directory(0).kind,
            b'D' => {
                self.pass(member.size)?;
                directory(0).kind
            }
            b'6' => SourceKind::Fifo,
            flag => {
                if !matches!(flag, 0 | b'0' | b'7' | b'S') {
                    let path = String::from_utf8_lossy(&member.path);
                    let flag = char::from(flag).escape_default();
                    let message = format!("`{path}`: unknown type `{flag}`, treated as a file");
                    self.findings.warn(member.at, "tar-unknown-type", message);
                }
                SourceKind::Regular(Arc::new(self.content(member)?))
            }
        })
    }

    fn content(&mut self, member: &Member) -> Result<Pieces, TreeError> {
        let size = member.size;
        let content = if let Some(map) = sparse::map(member, &mut self.input)? {
            let stored = self.input.content(map.stored, "the content of a member", None)?;
            Pieces::sparse(map.size, &map.pieces, &stored)
        } else {
            Pieces::whole(self.input.content(size, "the content of a member", None)?)
        };
        self.input.skip(padding(size), "the padding of a member")?;
        Ok(content)
    }

    fn node(&mut self, member: &Member, kind: SourceKind) -> SourceNode {
        let (header, pax) = (&member.header, &member.pax);
        let mut node = SourceNode::new(kind, header.mode & 0o7777);
        node.uid = pax.uid.unwrap_or(header.uid);
        node.gid = pax.gid.unwrap_or(header.gid);
        if header.dialect != Dialect::V7 {
            let (user, group) = (text(&header.block[265..297]), text(&header.block[297..329]));
            self.names.learn((user, node.uid), (group, node.gid));
        }
        node.mtime = pax.mtime.unwrap_or(Timestamp::from_seconds(header.mtime));
        node.atime = pax.atime.unwrap_or(node.mtime);
        node.ctime = pax.ctime.unwrap_or(node.mtime);
        for (name, value) in &pax.xattrs {
            let is_right = value.len() <= MAX_XATTR && check_acl_value(name, value).is_ok();
            if is_kept_xattr(name) && is_right {
                node.xattrs.push((name.clone(), value.clone()));
            } else {
                self.left_out(member, name);
            }
        }
        for (name, list) in &pax.acls {
            // Writers that also store the xattr store the same ACL there, with numbers.
            if !pax.xattrs.contains_key(*name) {
                self.access_list(member, &mut node, name, list);
            }
        }
        for name in &pax.left_out {
            self.left_out(member, name);
        }
        node
    }

    fn access_list(&mut self, member: &Member, node: &mut SourceNode, name: &[u8], list: &[u8]) {
        match acl::value(name, list, &self.names) {
            Ok(Some(value)) if value.len() <= MAX_XATTR => {
                node.xattrs.push((name.to_vec(), value));
                // The order of the xattrs must not depend on the archive.
                node.xattrs.sort_unstable();
            }
            Ok(None) => {}
            Ok(Some(_)) => self.left_out(member, name),
            Err(reason) => {
                let path = String::from_utf8_lossy(&member.path);
                let name = String::from_utf8_lossy(name);
                let message = format!(
                    "`{path}`: {name} is left out: {reason}; an archive made with --xattrs has numbers"
                );
                self.findings.warn(member.at, "xattr-left-out", message);
            }
        }
    }

    fn left_out(&mut self, member: &Member, name: &[u8]) {
        let path = String::from_utf8_lossy(&member.path);
        let name = String::from_utf8_lossy(name);
        let message =
            format!("`{path}`: attribute `{name}` cannot be stored in the image and is left out");
        self.findings.warn(member.at, "xattr-left-out", message);
    }

    fn placed(
        &mut self,
        member: &Member,
        placed: Result<Placed, PlaceError>,
    ) -> Result<(), TreeError> {
        let path = String::from_utf8_lossy(&member.path);
        match placed.map_err(|error| refused(member, error.reason()))? {
            Placed::New => {}
            Placed::Replaced => {
                let message = format!("`{path}` replaces an earlier member of that name");
                self.findings.note(member.at, "member-replaced", message);
            }
            Placed::ReplacedTree => {
                let message = format!("`{path}` replaces a directory and all that was in it");
                self.findings.warn(member.at, "tree-replaced", message);
            }
        }
        Ok(())
    }
}

fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

fn refused(member: &Member, reason: &'static str) -> TreeError {
    TreeError::Member { at: member.at, path: member.path.clone(), reason }
}

fn unsupported(at: Location, what: &'static str) -> TreeError {
    TreeError::Unsupported { at, what, hint: "create the archive again with --format=pax" }
}
