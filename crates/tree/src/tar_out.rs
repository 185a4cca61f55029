//! Writes a directory tree of a file system as a PAX tar archive, without root: including owners,
//! modes, sub-second times, xattrs, hard links and devices.
//!
//! # Invariants
//! 1. A header is written only after its content is known to be readable: small files are read
//!    first, large ones are read twice, once to check them. If the second read fails, zeros keep
//!    the archive consistent and a finding reports it.
//! 2. The same file system gives the same bytes.
//! 3. Memory: at most 16 MiB of contents at a time.

mod header;
#[cfg(test)]
mod tests;

use crate::codes;
use crate::error::TreeError;
use crate::extract::copy::{CHUNK, Damage, DataReader};
use crate::extract::{ExtractReport, describe, shown};
use eraseblock_base::Code;
use eraseblock_base::Location;
use eraseblock_vfs::source::check_name;
use eraseblock_vfs::walk::{Descend, Visit, walk};
use eraseblock_vfs::{Attr, DirEntry, FileKind, FileSystem, FsError, FsErrorKind, Ino};
use header::{BLOCK, MAX_SHORT, Member};
use rayon::prelude::*;
use std::collections::{HashMap, HashSet};
use std::io::Write;

/// Options of an archive.
#[derive(Clone, Debug)]
pub struct TarOptions {
    /// Write xattrs (as `SCHILY.xattr`).
    pub xattrs: bool,
    /// Write files that cannot be read completely, with zeros in place of missing data.
    pub keep_damaged: bool,
    /// Write files over 1 MiB that have holes as PAX 1.0 sparse members. Otherwise they are written
    /// in full, unless their holes exceed 64 MiB.
    pub sparse: bool,
}

impl Default for TarOptions {
    fn default() -> Self {
        Self { xattrs: true, keep_damaged: false, sparse: false }
    }
}

/// Files up to this length are read before their header is written, in bytes.
const SMALL: u64 = 1 << 20;

/// Maximum content of small files in memory, in bytes.
const MAX_HELD: u64 = 16 << 20;

/// Maximum number of names collected before they are processed.
const MAX_BATCH: usize = 1024;

/// Maximum size of holes that are written as zeros, in bytes.
const MAX_ZEROS: u64 = 64 << 20;

/// Writes the tree of directory `top`, and `top` itself as `./`.
///
/// # Errors
///
/// Fails if `top` is not a readable directory, or if `out` cannot be written. Everything else is a
/// finding, including sockets, which tar cannot represent.
pub fn write(
    fs: &dyn FileSystem,
    top: Ino,
    out: &mut dyn Write,
    options: &TarOptions,
) -> Result<ExtractReport, TreeError> {
    let attr = fs.attr(top)?;
    if attr.kind != FileKind::Directory {
        let message = format!("inode {top} is not a directory");
        return Err(FsError::new(FsErrorKind::NotADirectory, message).into());
    }
    let mut writer = Writer {
        fs,
        out,
        options,
        batch: vec![(b".".to_vec(), attr)],
        held: 0,
        entered: HashSet::from([top]),
        links: HashMap::new(),
        report: ExtractReport::default(),
    };
    walk(fs, top, &mut |visit| writer.visit(&visit))?;
    writer.run_batch()?;
    writer.put(&[0; 2 * BLOCK])?;
    writer.out.flush().map_err(TreeError::Output)?;
    Ok(writer.report)
}

struct Writer<'a> {
    fs: &'a dyn FileSystem,
    out: &'a mut dyn Write,
    options: &'a TarOptions,
    batch: Vec<(Vec<u8>, Attr)>,
    /// Bytes of small files in the batch.
    held: u64,
    entered: HashSet<Ino>,
    /// The path in the archive of the first name of an inode with several.
    links: HashMap<Ino, Vec<u8>>,
    report: ExtractReport,
}

/// The content of a small file, or the reason why it cannot be read.
type Loaded = Result<(Vec<u8>, Damage), FsError>;

impl Writer<'_> {
    fn visit(&mut self, visit: &Visit<'_>) -> Result<Descend, TreeError> {
        match visit {
            Visit::Entry { path, entry } => self.entry(path, entry),
            Visit::Unreadable { path, error } => {
                let message = format!("{}: cannot be listed completely: {error}", shown(path));
                self.report.findings.error(Location::Whole, codes::DIRECTORY_UNREADABLE, message);
                Ok(Descend::No)
            }
        }
    }

    fn entry(&mut self, path: &[u8], entry: &DirEntry) -> Result<Descend, TreeError> {
        let ino = entry.ino;
        if let Err(error) = check_name(&entry.name) {
            return Ok(self.leave_out(ino, path, "unsafe-name", &error.to_string()));
        }
        let attr = match self.fs.attr(ino) {
            Ok(attr) => attr,
            Err(error) => {
                return Ok(self.leave_out(ino, path, codes::INODE_UNREADABLE, &error.to_string()));
            }
        };
        let is_dir = attr.kind == FileKind::Directory;
        if is_dir != (entry.kind == FileKind::Directory) {
            let reason = format!("its entry says {:?}, its inode {:?}", entry.kind, attr.kind);
            return Ok(self.leave_out(ino, path, "kind-mismatch", &reason));
        }
        if is_dir && !self.entered.insert(ino) {
            let reason = "the directory has a second name";
            return Ok(self.leave_out(ino, path, "directory-named-twice", reason));
        }
        if is_small(&attr) {
            self.held += attr.size;
        }
        self.batch.push((path.to_vec(), attr));
        if self.batch.len() >= MAX_BATCH || self.held >= MAX_HELD - SMALL {
            self.run_batch()?;
        }
        Ok(if is_dir { Descend::Yes } else { Descend::No })
    }

    fn leave_out(&mut self, ino: Ino, path: &[u8], code: impl Into<Code>, reason: &str) -> Descend {
        let message = format!("{}: left out: {reason}", shown(path));
        self.report.findings.error(Location::Inode(ino), code, message);
        self.report.left_out += 1;
        Descend::No
    }

    fn run_batch(&mut self) -> Result<(), TreeError> {
        let batch = std::mem::take(&mut self.batch);
        self.held = 0;
        let (fs, keep) = (self.fs, self.options.keep_damaged);
        let loaded: Vec<Option<Loaded>> = batch
            .par_iter()
            .with_max_len(8)
            .map(|(_, attr)| is_small(attr).then(|| load(fs, attr, keep)))
            .collect();
        for ((path, attr), loaded) in batch.into_iter().zip(loaded) {
            self.member(path, &attr, loaded)?;
        }
        Ok(())
    }

    fn member(
        &mut self,
        path: Vec<u8>,
        attr: &Attr,
        loaded: Option<Loaded>,
    ) -> Result<(), TreeError> {
        if let Some(first) = self.links.get(&attr.ino).cloned() {
            self.header(&path, attr, b'1', &first, 0, Vec::new())?;
            self.report.hard_links += 1;
            return Ok(());
        }
        let left_out = self.report.left_out;
        match attr.kind {
            FileKind::Regular => self.file(&path, attr, loaded)?,
            FileKind::Directory => {
                let path = [&path, &b"/"[..]].concat();
                self.plain(&path, attr, b'5', b"")?;
                self.report.directories += 1;
            }
            FileKind::Symlink => match self.fs.read_link(attr.ino) {
                Ok(target) => {
                    self.plain(&path, attr, b'2', &target)?;
                    self.report.symlinks += 1;
                }
                Err(error) => {
                    self.leave_out(attr.ino, &path, "file-unreadable", &error.to_string());
                }
            },
            FileKind::Socket => {
                let reason = "tar cannot hold sockets";
                self.leave_out(attr.ino, &path, "socket-left-out", reason);
            }
            FileKind::CharDevice | FileKind::BlockDevice | FileKind::Fifo => {
                self.special(&path, attr)?;
            }
        }
        if attr.nlink > 1 && attr.kind != FileKind::Directory && self.report.left_out == left_out {
            self.links.insert(attr.ino, path);
        }
        Ok(())
    }

    fn special(&mut self, path: &[u8], attr: &Attr) -> Result<(), TreeError> {
        if attr.rdev.0.max(attr.rdev.1) > MAX_SHORT {
            let reason = format!("tar cannot hold device {}:{}", attr.rdev.0, attr.rdev.1);
            self.leave_out(attr.ino, path, "device-left-out", &reason);
            return Ok(());
        }
        let type_flag = match attr.kind {
            FileKind::CharDevice => b'3',
            FileKind::BlockDevice => b'4',
            _ => b'6',
        };
        self.report.specials += 1;
        self.plain(path, attr, type_flag, b"")
    }

    /// Writes a member without content.
    fn plain(
        &mut self,
        path: &[u8],
        attr: &Attr,
        type_flag: u8,
        link: &[u8],
    ) -> Result<(), TreeError> {
        let records = self.xattrs(path, attr);
        self.header(path, attr, type_flag, link, 0, records)
    }

    fn header(
        &mut self,
        path: &[u8],
        attr: &Attr,
        type_flag: u8,
        link: &[u8],
        size: u64,
        records: Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Result<(), TreeError> {
        let member = Member { path, link, type_flag, size, attr, records };
        self.put(&member.encode())
    }

    fn file(&mut self, path: &[u8], attr: &Attr, loaded: Option<Loaded>) -> Result<(), TreeError> {
        let Some(loaded) = loaded else {
            return self.large_file(path, attr);
        };
        let (content, damage) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                self.leave_out(attr.ino, path, "file-unreadable", &error.to_string());
                return Ok(());
            }
        };
        let records = self.xattrs(path, attr);
        self.header(path, attr, b'0', b"", attr.size, records)?;
        self.put(&content)?;
        self.pad(attr.size)?;
        self.delivered(path, attr, &damage);
        Ok(())
    }

    fn delivered(&mut self, path: &[u8], attr: &Attr, damage: &Damage) {
        self.report.files += 1;
        self.report.bytes += attr.size;
        if !damage.is_empty() {
            self.report.damaged += 1;
            let message = format!("{}: {}", shown(path), describe(damage));
            self.report.findings.error(Location::Inode(attr.ino), "file-damaged", message);
        }
    }

    fn large_file(&mut self, path: &[u8], attr: &Attr) -> Result<(), TreeError> {
        let keep = self.options.keep_damaged;
        let map = match data_map(self.fs, attr) {
            Err(_) if keep && attr.size <= MAX_ZEROS => Ok(vec![(0, attr.size)]),
            map => map,
        };
        let checked =
            map.and_then(|map| if keep { Ok(map) } else { self.check(attr).map(|()| map) });
        let map = match checked {
            Ok(map) => map,
            Err(error) => {
                self.leave_out(attr.ino, path, "file-unreadable", &error.to_string());
                return Ok(());
            }
        };
        let stored: u64 = map.iter().map(|(start, end)| end - start).sum();
        let holes = attr.size - stored;
        if holes > MAX_ZEROS || (self.options.sparse && holes > 0) {
            return self.sparse_file(path, attr, &map, stored);
        }
        let records = self.xattrs(path, attr);
        self.header(path, attr, b'0', b"", attr.size, records)?;
        let mut damage = Damage::new();
        self.put_range(attr, (0, attr.size), &mut damage)?;
        self.pad(attr.size)?;
        self.delivered(path, attr, &damage);
        Ok(())
    }

    /// Reads a file without keeping its content.
    fn check(&self, attr: &Attr) -> Result<(), FsError> {
        let mut buf = vec![0; CHUNK];
        let mut reader = DataReader::new(self.fs, attr.ino, attr.size);
        while reader.next(&mut buf)?.is_some() {}
        Ok(())
    }

    /// Writes a PAX 1.0 member: the map precedes the data, padded to a block.
    fn sparse_file(
        &mut self,
        path: &[u8],
        attr: &Attr,
        map: &[(u64, u64)],
        stored: u64,
    ) -> Result<(), TreeError> {
        // An empty piece at the end gives the length to readers that evaluate only the map.
        let pieces = map.iter().map(|(start, end)| (*start, end - start)).chain([(attr.size, 0)]);
        let mut front = format!("{}\n", map.len() + 1).into_bytes();
        for (start, len) in pieces {
            front.extend_from_slice(format!("{start}\n{len}\n").as_bytes());
        }
        front.resize(front.len().next_multiple_of(BLOCK), 0);
        let mut records = self.xattrs(path, attr);
        for (key, value) in [
            ("major", b"1".to_vec()),
            ("minor", b"0".to_vec()),
            ("name", path.to_vec()),
            ("realsize", attr.size.to_string().into_bytes()),
        ] {
            records.push((format!("GNU.sparse.{key}").into_bytes(), value));
        }
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let name = [b"GNUSparseFile.0/", &name[..name.len().min(80)]].concat();
        self.header(&name, attr, b'0', b"", front.len() as u64 + stored, records)?;
        self.put(&front)?;
        let mut damage = Damage::new();
        for range in map {
            self.put_range(attr, *range, &mut damage)?;
        }
        self.pad(stored)?;
        self.delivered(path, attr, &damage);
        Ok(())
    }

    /// Writes a part of a content, with zeros for its holes and for unreadable ranges.
    fn put_range(
        &mut self,
        attr: &Attr,
        (start, end): (u64, u64),
        damage: &mut Damage,
    ) -> Result<(), TreeError> {
        let mut buf = vec![0; CHUNK];
        let keep = self.options.keep_damaged;
        let mut reader = DataReader::range(self.fs, attr.ino, (start, end), keep);
        let mut at = start;
        loop {
            match reader.next(&mut buf) {
                Ok(Some((offset, len))) => {
                    self.put_zeros(offset - at)?;
                    self.put(&buf[..len])?;
                    at = offset + len as u64;
                }
                Ok(None) => break,
                Err(_) => {
                    // It was readable when it was checked (invariant 1).
                    reader.damage.push((at, end));
                    break;
                }
            }
        }
        damage.append(&mut reader.damage);
        self.put_zeros(end - at)
    }

    fn xattrs(&mut self, path: &[u8], attr: &Attr) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut records = Vec::new();
        if !self.options.xattrs {
            return records;
        }
        let at = Location::Inode(attr.ino);
        let findings = &mut self.report.findings;
        let names = match self.fs.list_xattrs(attr.ino) {
            Ok(names) => names,
            Err(error) => {
                let message = format!("{}: attributes cannot be listed: {error}", shown(path));
                findings.error(at, "xattr-unreadable", message);
                return records;
            }
        };
        for name in names {
            let attribute = String::from_utf8_lossy(&name);
            if name.contains(&b'=') {
                let message = format!("{}: tar cannot hold attribute `{attribute}`", shown(path));
                findings.error(at, "xattr-left-out", message);
                continue;
            }
            match self.fs.xattr(attr.ino, &name) {
                Ok(value) => records.push(([b"SCHILY.xattr.", &name[..]].concat(), value)),
                Err(error) => {
                    let message =
                        format!("{}: attribute `{attribute}` left out: {error}", shown(path));
                    findings.error(at, "xattr-unreadable", message);
                }
            }
        }
        records
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TreeError> {
        self.out.write_all(bytes).map_err(TreeError::Output)
    }

    fn put_zeros(&mut self, mut count: u64) -> Result<(), TreeError> {
        let zeros = [0; 8192];
        while count > 0 {
            let len = usize::try_from(count).unwrap_or(zeros.len()).min(zeros.len());
            self.put(&zeros[..len])?;
            count -= len as u64;
        }
        Ok(())
    }

    fn pad(&mut self, size: u64) -> Result<(), TreeError> {
        self.put_zeros(size.wrapping_neg() % BLOCK as u64)
    }
}

fn is_small(attr: &Attr) -> bool {
    attr.kind == FileKind::Regular && attr.size <= SMALL
}

fn load(fs: &dyn FileSystem, attr: &Attr, keep_damaged: bool) -> Loaded {
    let size = usize::try_from(attr.size).expect("a small file");
    let mut content = vec![0; size];
    let mut buf = vec![0; size.min(CHUNK)];
    let mut reader = DataReader::new(fs, attr.ino, attr.size).keep_damaged(keep_damaged);
    while let Some((offset, len)) = reader.next(&mut buf)? {
        let start = usize::try_from(offset).expect("within a small file");
        content[start..start + len].copy_from_slice(&buf[..len]);
    }
    Ok((content, reader.damage))
}

/// Returns the data ranges of a file: (start, end), ascending and disjoint.
fn data_map(fs: &dyn FileSystem, attr: &Attr) -> Result<Vec<(u64, u64)>, FsError> {
    let mut map: Vec<(u64, u64)> = Vec::new();
    let mut at = 0;
    while at < attr.size {
        let Some(start) = fs.seek_data(attr.ino, at)?.filter(|start| *start < attr.size) else {
            break;
        };
        let end = fs.seek_hole(attr.ino, start)?.min(attr.size);
        if start < at || end <= start {
            let message = format!("data and holes cannot be distinguished at byte {at}");
            return Err(FsError::new(FsErrorKind::Corrupted, message));
        }
        map.push((start, end));
        at = end;
    }
    Ok(map)
}
