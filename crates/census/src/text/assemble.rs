//! Text to an image.

use super::line::Line;
use super::{Contents, TITLE, VERSION};
use crate::segment::{Format, Lpt, Plan, Segment};
use crate::value;
use crate::walk::{Family, Tables};
use eraseblock_base::field::{Field, Repr, Show, Structures};
use eraseblock_base::{ByteOrder, Leb};
use eraseblock_ubi_format::HeaderLayout;
use eraseblock_ubifs_format::lpt::LptInputs;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// The longest line, in bytes: a structure that fills a window, in hexadecimal.
const LONGEST: u64 = 16 << 20;
/// The largest structure, in bytes.
const LARGEST: usize = 4 << 20;
/// Bytes of a run written at a time.
const CHUNK: usize = 64 << 10;

/// A text that is no image.
#[derive(Debug)]
pub struct TextError {
    /// The line, counted from 1.
    pub line: u64,
    /// What is wrong, and what was expected.
    pub message: String,
    /// The cause, if reading or writing failed.
    pub cause: Option<io::Error>,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)?;
        self.cause.as_ref().map_or(Ok(()), |cause| write!(f, ": {cause}"))
    }
}

impl Error for TextError {}

impl TextError {
    /// Returns the cause, if reading or writing failed.
    pub fn get_ref(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as &(dyn Error + 'static))
    }
}

/// What went wrong in a line.
#[derive(Debug)]
pub(super) enum Fault {
    /// The text.
    Text(String),
    /// Reading or writing.
    Host(io::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

impl From<String> for Fault {
    fn from(message: String) -> Self {
        Self::Text(message)
    }
}

fn fault<T>(message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Text(message.into()))
}

/// Writes the image that a text describes; returns its length.
///
/// # Errors
///
/// Fails if the text is no text of an image, naming the line, or if something cannot be read or
/// written.
pub fn assemble<'a>(
    text: &mut dyn BufRead,
    contents: Option<&'a mut dyn Contents>,
    out: &'a mut dyn Write,
) -> Result<u64, TextError> {
    let plan = Plan { size: 0, segments: Vec::new(), lpts: BTreeMap::new() };
    let tables = Tables::new();
    let mut assembler = Assembler { plan, tables, contents, out, position: 0, has_ended: false };
    let mut buffer = Vec::new();
    for line in 1.. {
        let wrong = |fault: Fault| match fault {
            Fault::Text(message) => TextError { line, message, cause: None },
            Fault::Host(cause) => {
                TextError { line, message: "input or output failed".to_owned(), cause: Some(cause) }
            }
        };
        buffer.clear();
        text.take(LONGEST).read_until(b'\n', &mut buffer).map_err(|error| wrong(error.into()))?;
        if buffer.is_empty() {
            let message = "the text ends without `end`: it is not complete".to_owned();
            return if assembler.has_ended {
                Ok(assembler.position)
            } else {
                Err(wrong(message.into()))
            };
        }
        assembler.line(line, &buffer).map_err(wrong)?;
    }
    Ok(assembler.position)
}

struct Assembler<'a> {
    plan: Plan,
    tables: Tables,
    contents: Option<&'a mut dyn Contents>,
    out: &'a mut dyn Write,
    position: u64,
    has_ended: bool,
}

impl Assembler<'_> {
    fn line(&mut self, number: u64, bytes: &[u8]) -> Result<(), Fault> {
        let Ok(text) = std::str::from_utf8(bytes) else { return fault("not UTF-8") };
        let text = text.trim_end_matches(['\n', '\r']);
        if number == 1 {
            return self.title(text);
        }
        if text.is_empty() || text.starts_with('#') {
            return Ok(());
        }
        if self.has_ended {
            return fault("something follows `end`");
        }
        let mut line = Line::parse(text);
        match line.word() {
            Some("segment") => self.segment(&mut line)?,
            Some("lpt") => self.lpt(&mut line)?,
            Some("end") if self.position == self.plan.size => self.has_ended = true,
            Some("end") => {
                let Self { position, plan, .. } = self;
                return fault(format!("{position} bytes were described, expected {}", plan.size));
            }
            Some(word) => match word.strip_prefix('@') {
                Some(place) => self.record(place, &mut line)?,
                None => {
                    return fault(format!(
                        "`{word}`: expected a place like @7.512, segment, lpt or end"
                    ));
                }
            },
            None => return fault("expected a place like @7.512, segment, lpt or end"),
        }
        match line.left() {
            Some(word) => fault(format!("`{word}` is no field of this")),
            None => Ok(()),
        }
    }

    fn title(&mut self, text: &str) -> Result<(), Fault> {
        let mut line = Line::parse(text);
        if line.word() != Some(TITLE) {
            return fault(format!("this is no text of an image: it begins with `{TITLE}`"));
        }
        match line.word() {
            Some(VERSION) => {}
            other => return fault(format!("version {}: expected {VERSION}", other.unwrap_or("?"))),
        }
        self.plan.size = number(&mut line, "size")?;
        Ok(())
    }

    fn segment(&mut self, line: &mut Line<'_>) -> Result<(), Fault> {
        let name = line.word().unwrap_or_default();
        let offset =
            line.word().and_then(|word| word.strip_prefix('@')).and_then(value::parse_number);
        if offset != Some(self.position) {
            return fault(format!(
                "the segment begins at @{}, where the one before ends",
                self.position
            ));
        }
        let len = number(line, "len")?;
        let format = match name {
            "ubi" => {
                let mut size = |label| number32(line, label);
                let (peb, min_io, unit) =
                    (size("peb_size")?, size("min_io")?, size("header_unit")?);
                let (vid, data) = (size("vid_hdr_offset")?, size("data_offset")?);
                let layout = HeaderLayout::from_offsets(peb, min_io, unit, vid, data);
                Format::Ubi(layout.map_err(|error| error.to_string())?)
            }
            "ubifs" => Format::Ubifs { leb_size: number32(line, "leb_size")? },
            "jffs2" => {
                let block_size = number32(line, "block_size")?;
                let order = match line.take("order") {
                    Some("little") => ByteOrder::Little,
                    Some("big") => ByteOrder::Big,
                    _ => return fault("order=little or order=big is missing"),
                };
                Format::Jffs2 { block_size, order }
            }
            "bytes" => Format::Bytes,
            other => return fault(format!("`{other}`: expected ubi, ubifs, jffs2 or bytes")),
        };
        self.plan.segments = vec![Segment { offset: self.position, len, format }];
        self.plan.lpts.clear();
        Ok(())
    }

    fn lpt(&mut self, line: &mut Line<'_>) -> Result<(), Fault> {
        let volume = number32(line, "volume")?;
        let mut size = |label| number32(line, label);
        let inputs = LptInputs {
            leb_size: size("leb_size")?,
            min_io: size("min_io")?,
            main_lebs: size("main_lebs")?,
            leb_cnt: size("leb_cnt")?,
            max_leb_cnt: size("max_leb_cnt")?,
            lpt_first: Leb::new(size("lpt_first")?),
            lpt_lebs: size("lpt_lebs")?,
            lsave_cnt: size("lsave_cnt")?,
            big: size("big")? != 0,
        };
        self.plan.lpts.insert((0, volume), Lpt::new(inputs));
        Ok(())
    }

    fn record(&mut self, place: &str, line: &mut Line<'_>) -> Result<(), Fault> {
        let Some(segment) = self.plan.segments.first() else {
            return fault("no segment begins before it");
        };
        let expected = segment.place(self.position);
        if place != expected {
            return fault(format!("@{place}: the record before it ends at @{expected}"));
        }
        let Some(word) = line.word() else {
            return fault("expected a kind, hex, or a run like ff*16");
        };
        if let Some((byte, count)) = word.split_once('*') {
            let byte = value::parse_byte(byte.as_bytes());
            let (Some(byte), Ok(count)) = (byte, count.parse()) else {
                return fault(format!("`{word}`: expected a run like ff*16"));
            };
            return self.run(byte, count);
        }
        if word == "hex" {
            let text = line.word().unwrap_or_default();
            let bytes = long(text, LARGEST, &mut self.contents)?;
            return self.put(&bytes);
        }
        let (name, volume) = word.split_once(':').unwrap_or((word, "0"));
        let family = match name.split_once('.').map(|(family, _)| family) {
            Some("ubi" | "fastmap") => Family::Ubi,
            Some("ubifs") => Family::Ubifs,
            Some("jffs2") => Family::Jffs2,
            Some("lpt") => Family::Lpt(volume.parse().unwrap_or(0)),
            _ => return fault(format!("`{word}`: expected a kind, hex, or a run like ff*16")),
        };
        let fields = self.tables.of(&self.plan, 0, family);
        let Some(fields) = fields else {
            return fault(format!("`{word}`: no line `lpt` says how to read it"));
        };
        let Some(kind) = fields.structures().iter().position(|one| one.kind == name) else {
            return fault(format!("`{word}` is no kind of structure"));
        };
        let bytes = structure(fields, kind, line, &mut self.contents)?;
        self.put(&bytes)
    }

    fn run(&mut self, byte: u8, count: u64) -> Result<(), Fault> {
        self.fits(count)?;
        let chunk = vec![byte; CHUNK.min(usize::try_from(count).unwrap_or(CHUNK))];
        let mut left = count;
        while left > 0 {
            let len = left.min(CHUNK as u64);
            self.out.write_all(&chunk[..len as usize])?;
            left -= len;
        }
        self.position += count;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.fits(bytes.len() as u64)?;
        self.out.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    /// Refuses what would go on after the end of the segment.
    fn fits(&self, len: u64) -> Result<(), Fault> {
        let end = self.plan.segments.first().map_or(0, Segment::end).min(self.plan.size);
        match self.position.checked_add(len) {
            Some(after) if after <= end => Ok(()),
            _ => fault(format!(
                "{len} bytes do not fit before byte {end}, where segment or image ends"
            )),
        }
    }
}

fn number(line: &mut Line<'_>, label: &str) -> Result<u64, Fault> {
    match line.take(label).and_then(value::parse_number) {
        Some(number) => Ok(number),
        None => fault(format!("`{label}` with a number is missing")),
    }
}

fn number32(line: &mut Line<'_>, label: &str) -> Result<u32, Fault> {
    match u32::try_from(number(line, label)?) {
        Ok(number) => Ok(number),
        Err(_) => fault(format!("`{label}` is above 4294967295")),
    }
}

/// Returns contents of any length.
fn long(
    text: &str,
    most: usize,
    contents: &mut Option<&mut dyn Contents>,
) -> Result<Vec<u8>, Fault> {
    let Some(name) = text.strip_prefix("file:") else {
        return Ok(value::parse_any(Show::Bytes, text, most).map_err(expected(text))?);
    };
    match contents {
        Some(contents) => Ok(contents.get(name)?),
        None => fault(format!("`{name}`: this text has no folder with contents")),
    }
}

/// Returns the words of an error about a value.
fn expected(text: &str) -> impl Fn(String) -> String {
    let mut start: String = text.chars().take(40).collect();
    if start.len() < text.len() {
        start += "...";
    }
    move |expected| format!("`{start}`: expected {expected}")
}

/// Returns the bytes of a structure and what fills up after it. Takes all words of the line.
pub(super) fn structure(
    fields: &dyn Structures,
    kind: usize,
    line: &mut Line<'_>,
    contents: &mut Option<&mut dyn Contents>,
) -> Result<Vec<u8>, Fault> {
    let structure = &fields.structures()[kind];
    let mut bytes = vec![0; structure.head_len()];
    let mut sums = Vec::new();
    for part in &structure.head {
        let Some(text) = line.take(&part.label) else {
            match (part.usual, part.field.show) {
                (_, Show::Sum | Show::Zero) => {}
                (Some(usual), _) => {
                    value::put(&part.field, &usual.to_string(), &mut bytes)?;
                }
                (None, _) => return fault(format!("the field `{}` is missing", part.label)),
            }
            continue;
        };
        let plain = text.strip_prefix('!').filter(|_| part.field.show == Show::Sum);
        if part.field.show == Show::Sum && plain.is_none() {
            return fault(format!(
                "`{}` follows the fields; `!{text}` keeps a wrong one",
                part.label
            ));
        }
        if plain.is_some() {
            sums.push(part.label.as_str());
        }
        let wrong = |what| format!("{}={}", part.label, expected(text)(what));
        value::put(&part.field, plain.unwrap_or(text), &mut bytes).map_err(wrong)?;
    }
    let fill = line.take("fill");
    tail(fields, kind, line, contents, &mut bytes)?;
    fields.seal(kind, &mut bytes, &|label| sums.contains(&label));
    match fill {
        Some(text) => {
            bytes.extend(value::parse_any(Show::Bytes, text, LARGEST).map_err(expected(text))?);
        }
        None => bytes.resize(bytes.len().next_multiple_of(structure.align), structure.filler),
    }
    Ok(bytes)
}

/// Appends the fields of a tail in the order in which they stand.
fn tail(
    fields: &dyn Structures,
    kind: usize,
    line: &mut Line<'_>,
    contents: &mut Option<&mut dyn Contents>,
    bytes: &mut Vec<u8>,
) -> Result<(), Fault> {
    let structure = &fields.structures()[kind];
    let mut bit = structure.head_bits();
    while let Some((label, text)) = line.pair() {
        let Some((_, field)) = structure.tail_field(label) else {
            return fault(format!("`{label}` is no field of {}, or stands twice", structure.kind));
        };
        let wrong = |what| format!("{label}={}", expected(text)(what));
        if field.repr == Repr::Bytes && field.bits == 0 {
            let value = match field.show {
                Show::Bytes => long(text, LARGEST, contents)?,
                show => value::parse_any(show, text, LARGEST).map_err(wrong)?,
            };
            bit += value.len() * 8;
            bytes.extend(value);
        } else {
            let end = bit + field.bits as usize;
            bytes.resize(end.div_ceil(8), 0);
            value::put(&Field { bit: bit as u32, ..field }, text, bytes).map_err(wrong)?;
            bit = end;
        }
        if bytes.len() > LARGEST {
            return fault(format!("a structure of more than {LARGEST} bytes"));
        }
    }
    Ok(())
}
