//! `eraseblock timeline`: all versions of all files, as forensic tools read them.

mod dfxml;

use super::history;
use super::history::contents::{self, Algorithm, Digests, Hasher, Kind};
use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::documents::past::VersionReport;
use eraseblock::raw::base::VolumeId;
use eraseblock::raw::history::content::{Content, Run};
use eraseblock::raw::history::{Class, Seen, Version};
use eraseblock::raw::ubifs_format::Time;
use eraseblock::raw::ubifs_format::node::file_type;
use eraseblock::target::past::Past;
use eraseblock::text;
use serde::Serialize;
use std::collections::HashMap;
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
    /// Digests of the contents; a bodyfile has a column for MD5
    #[arg(long, value_name = "ALGORITHM,...", value_delimiter = ',')]
    hash: Vec<Algorithm>,
    /// Also read eraseblocks of the UBI that have lost their LEB and are not erased yet
    #[arg(long)]
    old_blocks: bool,
}

/// The formats of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum WrittenAs {
    /// Lines for mactime of the Sleuth Kit (bodyfile 3)
    Bodyfile,
    /// Digital Forensics XML, with the places of the contents
    Dfxml,
    /// One JSON object for each version
    Jsonl,
    /// Columns with commas between them: a line for each time
    Csv,
}

/// What only its content says of a version.
#[derive(Debug, Default)]
struct Detail {
    digests: Digests,
    /// The parts of the content, if they are wanted.
    runs: Vec<Run>,
    /// The target of a symbolic link, if it is wanted.
    link: Option<Vec<u8>>,
}

/// Writes it.
pub(crate) fn run(args: &TimelineArgs, session: &mut Session) -> Result<(), Failure> {
    if session.options.json {
        return Err(Failure::usage("--json: a timeline has formats of its own")
            .hint("--as jsonl writes one JSON object for each version"));
    }
    let is_bodyfile = args.written_as == WrittenAs::Bodyfile;
    if is_bodyfile && args.hash.contains(&Algorithm::Sha256) {
        return Err(Failure::usage("--hash sha256: a bodyfile has a column for MD5 only")
            .hint("--as dfxml, --as jsonl and --as csv have room for both"));
    }
    let past = history::read(&args.target, args.old_blocks, session)?;
    let versions: Vec<&Version> = past.history.all().collect();
    let details = details(args, &past, &versions, session)?;
    let mut rows = versions.iter().copied().zip(&details);
    match args.written_as {
        WrittenAs::Bodyfile => bodyfile(&past, &mut rows, session),
        WrittenAs::Dfxml => dfxml::write(&args.target, &past, &mut rows, &mut session.out),
        WrittenAs::Jsonl => jsonl(&mut rows, session),
        WrittenAs::Csv => csv(args, &past, &mut rows, session),
    }
}

/// Versions with what their contents say.
type Rows<'a, 'b> = dyn Iterator<Item = (&'a Version, &'b Detail)> + 'b;

/// Reads what the format and the digests need of the contents.
fn details(
    args: &TimelineArgs,
    past: &Past,
    versions: &[&Version],
    session: &Session,
) -> Result<Vec<Detail>, Failure> {
    let mut details: Vec<Detail> = versions.iter().map(|_| Detail::default()).collect();
    let is_dfxml = args.written_as == WrittenAs::Dfxml;
    if args.hash.is_empty() && !is_dfxml {
        return Ok(details);
    }
    let mut contents = past.contents();
    let bar = session.progress(versions.len() as u64, "contents");
    let mut unread = 0;
    for index in contents::by_state(versions) {
        bar.inc(1);
        let (Some(version), Some(detail)) = (versions.get(index), details.get_mut(index)) else {
            continue;
        };
        let kind = Kind::of(version);
        let is_encrypted = version.attributes.is_some_and(|known| known.is_encrypted);
        if kind == Kind::Other || is_encrypted || (kind == Kind::Link && !is_dfxml) {
            continue;
        }
        let content = contents.open(version)?;
        if kind == Kind::Link {
            detail.link = content.link().ok();
            continue;
        }
        if is_dfxml {
            detail.runs = content.runs();
        }
        let is_whole = version.class <= Class::Likely;
        if is_whole && !args.hash.is_empty() {
            match digests(&content, &args.hash)? {
                Some(digests) => detail.digests = digests,
                None => unread += 1,
            }
        }
    }
    bar.finish_and_clear();
    if unread > 0 {
        let unread = text::count(unread, "content", "contents");
        session.remark(&format!("{unread} cannot be read: without a digest"));
    }
    Ok(details)
}

/// Returns the digests of a content, or `None` if a part of it cannot be read.
fn digests(content: &Content, algorithms: &[Algorithm]) -> Result<Option<Digests>, Failure> {
    let mut hasher = Hasher::new(algorithms);
    let mut is_whole = true;
    contents::pieces(content, &mut |_, bytes, error| {
        is_whole &= error.is_none();
        hasher.update(bytes);
        Ok(())
    })?;
    Ok(is_whole.then(|| hasher.finish()))
}

fn jsonl(rows: &mut Rows<'_, '_>, session: &mut Session) -> Result<(), Failure> {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(flatten)]
        version: VersionReport,
        #[serde(flatten)]
        digests: &'a Digests,
    }
    for (version, detail) in rows {
        let line = Line { version: VersionReport::of(version), digests: &detail.digests };
        let line = serde_json::to_string(&line).map_err(std::io::Error::from)?;
        writeln!(session.out, "{line}")?;
    }
    Ok(())
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

/// A line for each version and path; the inode is `volume-inode-sequence number`, in the form of inodes of NTFS:
/// mactime leaves out lines with any other separator.
fn bodyfile(past: &Past, rows: &mut Rows<'_, '_>, session: &mut Session) -> Result<(), Failure> {
    let volume = past.volume.map_or(0, VolumeId::get);
    let mut names: HashMap<String, u64> = HashMap::new();
    for version in past.history.all().filter(|version| version.attributes.is_some()) {
        for path in paths(version) {
            *names.entry(escaped(path) + suffix(past, version)).or_default() += 1;
        }
    }
    for (version, detail) in rows {
        let Some(known) = version.attributes else { continue };
        let md5 = detail.digests.md5.as_deref().unwrap_or("0");
        let (ino, sqnum) = (version.ino, version.inode_sqnum.unwrap_or(0));
        for path in paths(version) {
            let mut name = escaped(path) + suffix(past, version);
            // mactime takes sizes and modes of all versions with one name from the last of them.
            if names.get(&name).is_some_and(|count| *count > 1) {
                name = format!("{} [sqnum {sqnum}]{}", escaped(path), suffix(past, version));
            }
            let kind = kind_letter(known.mode);
            let mode = text::mode(kind, known.mode & 0o7777);
            let [atime, mtime, ctime] =
                [known.atime, known.mtime, known.ctime].map(|time| time.seconds);
            let (uid, gid, size) = (known.uid, known.gid, known.size);
            writeln!(
                session.out,
                "{md5}|{name}|{volume}-{ino}-{sqnum}|{kind}/{mode}|{uid}|{gid}|{size}|{atime}|{mtime}|{ctime}|0"
            )?;
        }
    }
    Ok(())
}

fn csv(
    args: &TimelineArgs,
    past: &Past,
    versions: &mut Rows<'_, '_>,
    session: &mut Session,
) -> Result<(), Failure> {
    let columns = [(Algorithm::Md5, "md5,"), (Algorithm::Sha256, "sha256,")];
    let columns = columns.map(|(algorithm, name)| if_asked(args, algorithm, name)).concat();
    writeln!(session.out, "time,what,class,inode,sqnum,size,{columns}path")?;
    let mut rows: Vec<(Time, &str, &Version, &Detail)> = Vec::new();
    for (version, detail) in versions {
        let Some(known) = version.attributes else { continue };
        rows.push((known.mtime, "modified", version, detail));
        rows.push((known.ctime, "changed", version, detail));
        rows.push((known.atime, "accessed", version, detail));
    }
    rows.sort_by_key(|(time, what, version, _)| {
        (time.seconds, time.nanoseconds, version.ino, version.newest, *what)
    });
    for (time, what, version, detail) in rows {
        let size = version.attributes.map_or(0, |known| known.size);
        let (class, ino, sqnum) = (version.class.name(), version.ino, version.newest);
        let Digests { md5, sha256 } = &detail.digests;
        let digests =
            [(Algorithm::Md5, md5), (Algorithm::Sha256, sha256)].map(|(algorithm, sum)| {
                if_asked(args, algorithm, &(sum.clone().unwrap_or_default() + ","))
            });
        let digests = digests.concat();
        for path in paths(version) {
            let path = (escaped(path) + suffix(past, version)).replace('"', "\"\"");
            let time = text::time(time.seconds);
            writeln!(
                session.out,
                "{time},{what},{class},{ino},{sqnum},{size},{digests}\"{path}\""
            )?;
        }
    }
    Ok(())
}

/// A text, if the digests of an algorithm were asked for.
fn if_asked(args: &TimelineArgs, algorithm: Algorithm, text: &str) -> String {
    if args.hash.contains(&algorithm) { text.to_owned() } else { String::new() }
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
    match mode & file_type::MASK {
        file_type::DIRECTORY => 'd',
        file_type::SYMLINK => 'l',
        file_type::BLOCK => 'b',
        file_type::CHAR => 'c',
        file_type::FIFO => 'p',
        // `s` is a shadow inode of Solaris.
        file_type::SOCKET => 'h',
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
