//! `eraseblock stat`: everything an image says about one file.

use crate::args::{PastArgs, TargetArgs, path_bytes};
use crate::entry::kind_word;
use crate::failure::{Context, Failure};
use crate::find::find;
use crate::session::Session;
use crate::style::Ink;
use eraseblock::raw::vfs::attr::InodeFlags;
use eraseblock::raw::vfs::{Attr, FileKind, FileSystem, Ino, Timestamp};
use eraseblock::target;
use eraseblock::text;
use serde::Serialize;
use std::ffi::OsString;
use std::io::Write;

/// Arguments of `stat`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatArgs {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    past: PastArgs,
    /// The file
    path: OsString,
}

/// The JSON result.
#[derive(Debug, Serialize)]
struct FileReport {
    path: String,
    ino: u64,
    kind: &'static str,
    permissions: String,
    nlink: u32,
    uid: u32,
    gid: u32,
    size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    atime: Moment,
    mtime: Moment,
    ctime: Moment,
    flags: Vec<&'static str>,
    xattrs: Vec<Xattr>,
    /// Stretches that are not holes, as (first byte, length).
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Vec<(u64, u64)>>,
}

#[derive(Debug, Serialize)]
struct Moment {
    seconds: i64,
    nanoseconds: u32,
}

#[derive(Debug, Serialize)]
struct Xattr {
    name: String,
    /// The value as hexadecimal digits.
    value: String,
    #[serde(skip)]
    bytes: Vec<u8>,
}

/// Stretches of data listed at most.
const MOST_STRETCHES: usize = 1000;

/// Prints the report.
pub(crate) fn run(args: &StatArgs, session: &mut Session) -> Result<(), Failure> {
    let opened = target::open_file_system(&args.past.of(&args.target), session)?;
    let path = path_bytes(&args.path);
    let shown = text::name(path);
    let ino = find(opened.fs(), path)?;
    session.ask(&args.target.target, [ino]);
    let report = FileReport::of(opened.fs(), ino, shown.clone()).context(&shown)?;
    opened.finish(session);
    if session.options.json { session.json(&report) } else { print(&report, session) }
}

impl FileReport {
    fn of(fs: &dyn FileSystem, ino: Ino, path: String) -> Result<Self, Failure> {
        let attr = fs.attr(ino)?;
        let is_device = matches!(attr.kind, FileKind::BlockDevice | FileKind::CharDevice);
        let is_link = attr.kind == FileKind::Symlink;
        let target = if is_link { Some(text::name(&fs.read_link(ino)?)) } else { None };
        let data = match attr.kind {
            FileKind::Regular => Some(stretches(fs, &attr)?),
            _ => None,
        };
        Ok(Self {
            path,
            ino,
            kind: kind_word(attr.kind),
            permissions: format!("{:04o}", attr.permissions),
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            size: attr.size,
            device: is_device.then_some(attr.rdev),
            target,
            atime: attr.atime.into(),
            mtime: attr.mtime.into(),
            ctime: attr.ctime.into(),
            flags: flag_words(attr.flags),
            xattrs: xattrs(fs, ino)?,
            data,
        })
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Self { seconds: time.seconds, nanoseconds: time.nanoseconds }
    }
}

fn flag_words(flags: InodeFlags) -> Vec<&'static str> {
    let table = [
        (flags.compress, "compress"),
        (flags.sync, "sync"),
        (flags.immutable, "immutable"),
        (flags.append, "append"),
        (flags.dirsync, "dirsync"),
        (flags.encrypted, "encrypted"),
    ];
    table.iter().filter(|row| row.0).map(|row| row.1).collect()
}

fn xattrs(fs: &dyn FileSystem, ino: Ino) -> Result<Vec<Xattr>, Failure> {
    let mut names = fs.list_xattrs(ino)?;
    names.sort();
    let mut xattrs = Vec::with_capacity(names.len());
    for name in names {
        let bytes = fs.xattr(ino, &name)?;
        let value = text::hex(&bytes);
        xattrs.push(Xattr { name: text::name(&name), value, bytes });
    }
    Ok(xattrs)
}

fn stretches(fs: &dyn FileSystem, attr: &Attr) -> Result<Vec<(u64, u64)>, Failure> {
    let mut found = Vec::new();
    let mut offset = 0;
    while let Some(start) = fs.seek_data(attr.ino, offset)? {
        let end = fs.seek_hole(attr.ino, start)?.min(attr.size);
        if end <= start || found.len() == MOST_STRETCHES {
            break;
        }
        found.push((start, end - start));
        offset = end;
    }
    Ok(found)
}

fn print(report: &FileReport, session: &mut Session) -> Result<(), Failure> {
    let style = session.style;
    let mut line = |label: &str, value: String| {
        writeln!(session.out, "{}  {value}", style.paint(Ink::Faint, format!("{label:>11}")))
    };
    line("path", style.paint(Ink::Bold, &report.path))?;
    let target = report.target.as_ref().map(|t| format!(" -> {t}")).unwrap_or_default();
    line("kind", format!("{}{target}", report.kind))?;
    line("inode", report.ino.to_string())?;
    line("permissions", report.permissions.clone())?;
    line("owner", format!("{}:{}", report.uid, report.gid))?;
    line("names", report.nlink.to_string())?;
    line("size", text::size(report.size))?;
    if let Some((major, minor)) = report.device {
        line("device", format!("{major}:{minor}"))?;
    }
    for (label, moment) in
        [("accessed", &report.atime), ("modified", &report.mtime), ("changed", &report.ctime)]
    {
        let fraction = moment.nanoseconds;
        line(label, format!("{}.{fraction:09} UTC", text::time(moment.seconds)))?;
    }
    if !report.flags.is_empty() {
        line("flags", report.flags.join(" "))?;
    }
    if let Some(data) = &report.data {
        let stored: u64 = data.iter().map(|stretch| stretch.1).sum();
        if stored < report.size {
            line("holes", text::size(report.size - stored))?;
        }
    }
    for xattr in &report.xattrs {
        line("xattr", format!("{} = {}", xattr.name, xattr_text(&xattr.bytes)))?;
    }
    Ok(())
}

/// A value as text where it is text, as hexadecimal digits otherwise.
fn xattr_text(value: &[u8]) -> String {
    let trimmed = value.strip_suffix(b"\0").unwrap_or(value);
    if trimmed.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return format!("\"{}\"", String::from_utf8_lossy(trimmed));
    }
    format!("0x{}", text::hex(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xattr_values_are_text_or_digits() {
        assert_eq!(xattr_text(b"system_u:object_r\0"), "\"system_u:object_r\"");
        assert_eq!(xattr_text(b"\x01\x00\x02"), "0x010002");
    }

    #[test]
    fn flags_have_words() {
        let flags = InodeFlags { compress: true, immutable: true, ..InodeFlags::default() };
        assert_eq!(flag_words(flags), ["compress", "immutable"]);
    }
}
