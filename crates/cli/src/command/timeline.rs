//! `eraseblock timeline`: all versions of all files, as forensic tools read them.

use super::history;
use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::documents::past::VersionReport;
use eraseblock::raw::base::VolumeId;
use eraseblock::raw::history::{Seen, Version};
use eraseblock::raw::ubifs_format::Time;
use eraseblock::target::past::Past;
use eraseblock::text;
use std::fmt::Write as _;
use std::io::Write;

/// Arguments of `timeline`.
#[derive(Debug, clap::Args)]
pub(crate) struct TimelineArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// How it is written
    #[arg(long = "as", value_name = "FORMAT", default_value = "bodyfile")]
    written_as: WrittenAs,
}

/// The formats of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum WrittenAs {
    /// Lines for mactime of the Sleuth Kit (bodyfile 3)
    Bodyfile,
    /// One JSON object for each version
    Jsonl,
    /// Columns with commas between them: a line for each time
    Csv,
}

/// Writes it.
pub(crate) fn run(args: &TimelineArgs, session: &mut Session) -> Result<(), Failure> {
    if session.options.json {
        return Err(Failure::usage("--json: a timeline has formats of its own")
            .hint("--as jsonl writes one JSON object for each version"));
    }
    let past = history::read(&args.target, session)?;
    match args.written_as {
        WrittenAs::Bodyfile => bodyfile(&past, session),
        WrittenAs::Jsonl => {
            for version in past.history.all() {
                let line = serde_json::to_string(&VersionReport::of(version));
                writeln!(session.out, "{}", line.map_err(std::io::Error::from)?)?;
            }
            Ok(())
        }
        WrittenAs::Csv => csv(&past, session),
    }
}

/// What a version is called, after its path.
fn suffix(past: &Past, version: &Version) -> &'static str {
    match version.seen {
        Seen::Now { .. } => "",
        _ if past.history.is_live(version.ino) => " (superseded)",
        _ => " (deleted)",
    }
}

/// The paths of a version, or a question mark.
fn paths(version: &Version) -> Vec<&[u8]> {
    if version.paths.is_empty() {
        return vec![b"?"];
    }
    version.paths.iter().map(Vec::as_slice).collect()
}

/// A line for each version and path; the inode is `volume:inode:sequence number`.
fn bodyfile(past: &Past, session: &mut Session) -> Result<(), Failure> {
    let volume = past.volume.map_or(0, VolumeId::get);
    for version in past.history.all() {
        let Some(known) = version.attributes else { continue };
        for path in paths(version) {
            let name = escaped(path) + suffix(past, version);
            let (ino, sqnum) = (version.ino, version.inode_sqnum.unwrap_or(0));
            let kind = kind_letter(known.mode);
            let mode = text::mode(kind, known.mode & 0o7777);
            let [atime, mtime, ctime] =
                [known.atime, known.mtime, known.ctime].map(|time| time.seconds);
            let (uid, gid, size) = (known.uid, known.gid, known.size);
            writeln!(
                session.out,
                "0|{name}|{volume}:{ino}:{sqnum}|{kind}/{mode}|{uid}|{gid}|{size}|{atime}|{mtime}|{ctime}|0"
            )?;
        }
    }
    Ok(())
}

fn csv(past: &Past, session: &mut Session) -> Result<(), Failure> {
    writeln!(session.out, "time,what,class,inode,sqnum,size,path")?;
    let mut rows: Vec<(Time, &str, &Version)> = Vec::new();
    for version in past.history.all() {
        let Some(known) = version.attributes else { continue };
        rows.push((known.mtime, "modified", version));
        rows.push((known.ctime, "changed", version));
        rows.push((known.atime, "accessed", version));
    }
    rows.sort_by_key(|(time, what, version)| {
        (time.seconds, time.nanoseconds, version.ino, version.newest, *what)
    });
    for (time, what, version) in rows {
        let size = version.attributes.map_or(0, |known| known.size);
        let (class, ino, sqnum) = (version.class.name(), version.ino, version.newest);
        for path in paths(version) {
            let path = (escaped(path) + suffix(past, version)).replace('"', "\"\"");
            let time = text::time(time.seconds);
            writeln!(session.out, "{time},{what},{class},{ino},{sqnum},{size},\"{path}\"")?;
        }
    }
    Ok(())
}

/// A path as a field: what would end the field or the line is escaped.
fn escaped(path: &[u8]) -> String {
    let mut text = String::from("/");
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '|' => text.push_str("\\x7c"),
                '\\' => text.push_str("\\\\"),
                other if other.is_control() => {
                    let _ = write!(text, "{}", other.escape_default());
                }
                other => text.push(other),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The letter of a type, as the Sleuth Kit has it.
fn kind_letter(mode: u32) -> char {
    match mode & 0o170_000 {
        0o040_000 => 'd',
        0o120_000 => 'l',
        0o060_000 => 'b',
        0o020_000 => 'c',
        0o010_000 => 'p',
        0o140_000 => 's',
        _ => 'r',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_bodyfile_end_nothing() {
        assert_eq!(escaped(b"a|b\nc\\"), "/a\\x7cb\\nc\\\\");
        assert_eq!(escaped(b"\xff"), "/\\xff");
    }
}
