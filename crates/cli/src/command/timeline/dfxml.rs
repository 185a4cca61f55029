//! A timeline as Digital Forensics XML. Elements come in the order of fiwalk of the Sleuth Kit; what DFXML has
//! no word for is in a namespace of our own.

use super::{Detail, Kind, Rows, kind_letter};
use crate::args::TargetArgs;
use crate::failure::Failure;
use eraseblock::raw::base::VolumeId;
use eraseblock::raw::history::content::Run;
use eraseblock::raw::history::{Attributes, Class, Seen, Version};
use eraseblock::raw::ubifs_format::Time;
use eraseblock::raw::ubifs_format::node::file_type;
use eraseblock::target::past::Past;
use eraseblock::text;
use std::fmt::Write as _;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

const HEAD: &str = "<?xml version='1.0' encoding='UTF-8'?>
<dfxml
  xmlns='http://www.forensicswiki.org/wiki/Category:Digital_Forensics_XML'
  xmlns:dc='http://purl.org/dc/elements/1.1/'
  xmlns:eraseblock='urn:eraseblock:dfxml'
  version='1.0'>
  <metadata>
    <dc:type>Disk Image</dc:type>
  </metadata>
";

/// Writes the versions: a `fileobject` for each path of each of them.
pub(super) fn write(
    target: &TargetArgs,
    past: &Past,
    rows: &mut Rows<'_, '_>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let image = escaped(target.target.as_bytes());
    let version = env!("CARGO_PKG_VERSION");
    write!(
        out,
        "{HEAD}  <creator version='1.0'>
    <program>eraseblock</program>
    <version>{version}</version>
  </creator>
  <source>
    <image_filename>{image}</image_filename>
  </source>
"
    )?;
    match (past.volume, past.start()) {
        (None, Some(start)) => {
            writeln!(out, "  <volume offset='{start}'>")?;
            writeln!(out, "    <partition_offset>{start}</partition_offset>")?;
        }
        _ => writeln!(out, "  <volume>")?,
    }
    writeln!(out, "    <block_size>4096</block_size>")?;
    writeln!(out, "    <ftype_str>{}</ftype_str>", past.medium.name())?;
    let mut number = 0;
    for (version, detail) in rows {
        let paths = version.paths.iter().map(|path| Some(path.as_slice()));
        let unnamed = version.paths.is_empty().then_some(None);
        for path in paths.chain(unnamed) {
            number += 1;
            out.write_all(file_object(past, version, detail, path, number).as_bytes())?;
        }
    }
    write!(out, "  </volume>\n</dfxml>\n")?;
    Ok(())
}

/// A version under one of its paths.
fn file_object(
    past: &Past,
    version: &Version,
    detail: &Detail,
    path: Option<&[u8]>,
    number: u64,
) -> String {
    let mut text = String::from("    <fileobject>\n");
    let mut element = |name: &str, value: &dyn std::fmt::Display| {
        let _ = writeln!(text, "      <{name}>{value}</{name}>");
    };
    match path {
        // The name that fiwalk gives to the root.
        Some(b"") => element("filename", &"."),
        Some(path) => element("filename", &escaped(path)),
        None => {}
    }
    if let Some(volume) = past.volume {
        element("partition", &VolumeId::get(volume));
    }
    element("id", &number);
    if let Some(known) = version.attributes {
        element("name_type", &kind_letter(known.mode));
        element("filesize", &known.size);
    }
    let is_there = matches!(version.seen, Seen::Now { .. });
    element(if is_there { "alloc" } else { "unalloc" }, &1);
    element("inode", &version.ino);
    if let Some(known) = version.attributes {
        attributes(&known, &mut element);
    }
    if let Some(link) = &detail.link {
        element("link_target", &escaped(link));
    }
    text += &byte_runs(past, version, &detail.runs);
    let digests = [("md5", &detail.digests.md5), ("sha256", &detail.digests.sha256)];
    for (name, digest) in digests {
        if let Some(digest) = digest {
            let _ = writeln!(text, "      <hashdigest type='{name}'>{digest}</hashdigest>");
        }
    }
    text += &class(version);
    text + "    </fileobject>\n"
}

fn attributes(known: &Attributes, element: &mut dyn FnMut(&str, &dyn std::fmt::Display)) {
    element("meta_type", &meta_type(known.mode));
    element("mode", &(known.mode & 0o7777));
    element("nlink", &known.nlink);
    element("uid", &known.uid);
    element("gid", &known.gid);
    element("mtime", &moment(known.mtime));
    element("ctime", &moment(known.ctime));
    element("atime", &moment(known.atime));
}

/// What is known of a version and has no word in DFXML.
fn class(version: &Version) -> String {
    let mut text = format!("      <eraseblock:version class='{}'", version.class.name());
    let (first, last) = match version.seen {
        Seen::Now { since } => (since, None),
        Seen::Commits { first, last } => (Some(first), Some(last)),
        Seen::Nodes => (None, None),
    };
    let numbers = [
        ("inode_sqnum", version.inode_sqnum),
        ("newest_sqnum", Some(version.newest)),
        ("first_commit", first),
        ("last_commit", last),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            let _ = write!(text, " {name}='{number}'");
        }
    }
    text + "/>\n"
}

/// Where the bytes are; `len` counts those in the image.
fn byte_runs(past: &Past, version: &Version, runs: &[Run]) -> String {
    let size = version.attributes.map_or(0, |known| known.size);
    // What no node holds is a hole only where nothing is missing.
    let has_holes =
        Kind::of(version) == Kind::File && matches!(version.class, Class::Live | Class::Proven);
    let mut text = String::new();
    let mut at = 0;
    for run in runs {
        if has_holes {
            hole(&mut text, at, run.offset);
        }
        at = run.offset + byte_run(&mut text, past, run);
    }
    if has_holes {
        hole(&mut text, at, size);
    }
    if text.is_empty() { text } else { format!("      <byte_runs>\n{text}      </byte_runs>\n") }
}

/// Zeros that are nowhere.
fn hole(text: &mut String, from: u64, to: u64) {
    if from < to {
        let len = to - from;
        let _ = writeln!(text, "       <byte_run file_offset='{from}' fill='0' len='{len}'/>");
    }
}

/// Writes a run; returns how many bytes of the file are in it.
fn byte_run(text: &mut String, past: &Past, run: &Run) -> u64 {
    // A block that cannot be read is no hole.
    let Some(stored) = run.stored else { return run.len };
    let len = run.len.min(u64::from(stored.size.saturating_sub(run.skip)));
    let is_plain = stored.codec == "none";
    // Of plain bytes, the run is those of the file alone.
    let at = stored.offset + if is_plain { run.skip } else { 0 };
    let _ = write!(text, "       <byte_run file_offset='{}'", run.offset);
    if let Some(offset) = past.in_file(run.leb, at) {
        let _ = write!(text, " img_offset='{offset}'");
    }
    if is_plain {
        let _ = write!(text, " len='{len}'");
    } else {
        let _ = write!(text, " len='{}' uncompressed_len='{len}'", stored.len);
        let _ = write!(text, " eraseblock:codec='{}'", stored.codec);
        if run.skip > 0 {
            let _ = write!(text, " eraseblock:skip='{}'", run.skip);
        }
    }
    let (leb, old_peb) = past.place_of(run.leb);
    let (leb, offset, sqnum) = (leb.get(), at, stored.sqnum);
    if let Some(peb) = old_peb {
        let _ = write!(text, " eraseblock:old_peb='{}'", peb.get());
    }
    let _ = write!(text, " eraseblock:leb='{leb}' eraseblock:leb_offset='{offset}'");
    let _ = writeln!(text, " eraseblock:sqnum='{sqnum}'/>");
    len
}

/// A moment in UTC, as XML schemas have it.
fn moment(time: Time) -> String {
    let mut text = text::time(time.seconds).replace(' ', "T");
    if time.nanoseconds > 0 {
        let _ = write!(text, ".{:09}", time.nanoseconds);
    }
    text + "Z"
}

/// The number of a type in the Sleuth Kit.
fn meta_type(mode: u32) -> u32 {
    match mode & file_type::MASK {
        file_type::REGULAR => 1,
        file_type::DIRECTORY => 2,
        file_type::FIFO => 3,
        file_type::CHAR => 4,
        file_type::BLOCK => 5,
        file_type::SYMLINK => 6,
        file_type::SOCKET => 8,
        _ => 0,
    }
}

/// Bytes as text of XML, in which control characters and bytes that are not UTF-8 are escapes.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for character in text::name(bytes).chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '\'' => text.push_str("&apos;"),
            '"' => text.push_str("&quot;"),
            // No characters of XML.
            '\u{fffe}' | '\u{ffff}' => text.extend(character.escape_unicode()),
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_of_xml() {
        assert_eq!(escaped(b"a<b>&'\""), "a&lt;b&gt;&amp;&apos;&quot;");
        assert_eq!(escaped(b"\x01\xff\n\\"), "\\u{1}\\xff\\n\\\\");
        assert_eq!(escaped("\u{fffe}\u{e9}".as_bytes()), "\\u{fffe}\u{e9}");
    }

    #[test]
    fn moments_are_those_of_schemas() {
        let moment = |seconds, nanoseconds| moment(Time { seconds, nanoseconds });
        assert_eq!(moment(1_700_000_000, 0), "2023-11-14T22:13:20Z");
        assert_eq!(moment(1_700_000_000, 5_000_000), "2023-11-14T22:13:20.005000000Z");
    }
}
