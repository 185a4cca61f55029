//! `eraseblock stat`: everything an image says about one file.

use crate::args::{PastArgs, TargetArgs, path_bytes};
use crate::failure::{Context, Failure};
use crate::find::find;
use crate::session::Session;
use crate::style::Ink;
use eraseblock::documents::listing::FileReport;
use eraseblock::target;
use eraseblock::text;
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
}
