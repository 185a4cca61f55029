//! The text form of an image: one line a record, in the order of the image.
//!
//! ```text
//! eraseblock-text 1 size=262144
//! segment ubi @0 len=262144 peb_size=131072 min_io=2048 header_unit=512 vid_hdr_offset=512 data_offset=2048
//! @0.0 ubi.ec ec=1 vid_hdr_offset=512 data_offset=2048 image_seq=0x7
//! @0.64 ff*448
//! @1.2048 ubifs.ino sqnum=4 len=160 key=1/ino size=224 ...
//! @1.2304 hex 0011aabb
//! end
//! ```
//!
//! # Invariants
//! 1. [`assemble`] makes the same image of what [`disassemble`] writes: a structure whose line would
//!    not be assembled to the same bytes is written as bytes.
//! 2. A checksum stands in the text only if it is wrong, as `crc=!0x1234`; all others follow the
//!    fields when the text is assembled.
//! 3. Memory is bounded by a window of the image and a line of the text.

mod assemble;
mod line;

pub use assemble::{TextError, assemble};

use crate::segment::{Format, Plan, Segment};
use crate::value;
use crate::walk::{Family, Record, Tables, What, walk};
use eraseblock_base::ByteOrder;
use eraseblock_base::field::{Field, Placed, Show, Structure, Structures, number_at};
use eraseblock_mtd::ReadAt;
use line::Line;
use std::fmt::Write as _;
use std::io::{self, Write};

/// The first word of a text.
const TITLE: &str = "eraseblock-text";
/// The version of the form.
const VERSION: &str = "1";
/// Contents of at most this many bytes stand in the text itself.
const INLINE: usize = 64;
/// Bytes without structure in one line, if longer contents stand elsewhere.
const PIECE: usize = 64 << 10;

/// Long contents kept outside a text, by names made of their bytes.
pub trait Contents {
    /// Keeps bytes; returns their name, which has no spaces.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be kept.
    fn put(&mut self, bytes: &[u8]) -> io::Result<String>;

    /// Returns the bytes of this name.
    ///
    /// # Errors
    ///
    /// Fails if they cannot be read, or are not those that were kept.
    fn get(&mut self, name: &str) -> io::Result<Vec<u8>>;
}

/// Writes an image as text. Long contents stand in `contents`, or else in the text.
///
/// # Errors
///
/// Fails if the image cannot be read or the text cannot be written.
pub fn disassemble(
    image: &dyn ReadAt,
    plan: &Plan,
    tables: &Tables,
    mut contents: Option<&mut dyn Contents>,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{TITLE} {VERSION} size={}", plan.size)?;
    let mut current = None;
    let mut sink = |record: &Record<'_>| {
        if current != Some(record.segment) {
            current = Some(record.segment);
            write_segment(plan, record.segment, out)?;
        }
        write_record(plan, tables, record, &mut contents, out)
    };
    walk(image, plan, tables, &mut sink)?;
    writeln!(out, "end")
}

fn write_segment(plan: &Plan, index: usize, out: &mut dyn Write) -> io::Result<()> {
    let Segment { offset, len, format } = plan.segments[index];
    write!(out, "segment {} @{offset} len={len}", format.name())?;
    match format {
        Format::Ubi(layout) => {
            write!(out, " peb_size={} min_io={}", layout.peb_size(), layout.min_io())?;
            write!(out, " header_unit={}", layout.header_unit())?;
            write!(out, " vid_hdr_offset={}", layout.vid_hdr_offset())?;
            writeln!(out, " data_offset={}", layout.data_offset())?;
        }
        Format::Ubifs { leb_size } => writeln!(out, " leb_size={leb_size}")?,
        Format::Jffs2 { block_size, order } => {
            let order = if order == ByteOrder::Big { "big" } else { "little" };
            writeln!(out, " block_size={block_size} order={order}")?;
        }
        Format::Bytes => writeln!(out)?,
    }
    for ((segment, volume), lpt) in &plan.lpts {
        if *segment == index {
            let i = &lpt.inputs;
            write!(out, "lpt volume={volume} leb_size={} min_io={}", i.leb_size, i.min_io)?;
            write!(out, " main_lebs={} leb_cnt={}", i.main_lebs, i.leb_cnt)?;
            write!(out, " max_leb_cnt={} lpt_first={}", i.max_leb_cnt, i.lpt_first)?;
            write!(out, " lpt_lebs={} lsave_cnt={}", i.lpt_lebs, i.lsave_cnt)?;
            writeln!(out, " big={}", u8::from(i.big))?;
        }
    }
    Ok(())
}

fn write_record(
    plan: &Plan,
    tables: &Tables,
    record: &Record<'_>,
    contents: &mut Option<&mut dyn Contents>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let segment = &plan.segments[record.segment];
    let place = segment.place(record.offset);
    match record.what {
        What::Run(byte) => writeln!(out, "@{place} {byte:02x}*{}", record.len),
        What::Bytes => write_bytes(segment, record, contents, out),
        What::Structure { family, kind, len } => {
            let Some(fields) = tables.of(plan, record.segment, family) else {
                return write_bytes(segment, record, contents, out);
            };
            let text = structure(fields, family, kind, record.bytes, len, contents)?;
            let mut line = Line::parse(&text);
            line.word();
            let again = assemble::structure(fields, kind, &mut line, contents);
            if again.is_ok_and(|bytes| bytes == record.bytes) {
                writeln!(out, "@{place} {text}")
            } else {
                write_bytes(segment, record, contents, out)
            }
        }
    }
}

fn write_bytes(
    segment: &Segment,
    record: &Record<'_>,
    contents: &mut Option<&mut dyn Contents>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let piece = if contents.is_some() { PIECE } else { INLINE };
    let mut offset = record.offset;
    for bytes in record.bytes.chunks(piece) {
        let place = segment.place(offset);
        writeln!(out, "@{place} hex {}", long(bytes, contents)?)?;
        offset += bytes.len() as u64;
    }
    Ok(())
}

/// Returns contents of any length: in hexadecimal, or the name under which they stand elsewhere.
fn long(bytes: &[u8], contents: &mut Option<&mut dyn Contents>) -> io::Result<String> {
    let text = value::bytes(bytes);
    match contents {
        Some(contents) if text.len() > 2 * INLINE => Ok(format!("file:{}", contents.put(bytes)?)),
        _ => Ok(text),
    }
}

/// Returns the line of a structure without its place.
fn structure(
    fields: &dyn Structures,
    family: Family,
    kind: usize,
    bytes: &[u8],
    len: usize,
    contents: &mut Option<&mut dyn Contents>,
) -> io::Result<String> {
    let structure = &fields.structures()[kind];
    let (node, fill) = bytes.split_at(len.min(bytes.len()));
    let mut text = structure.kind.to_owned();
    if let Family::Lpt(volume) = family {
        let _ = write!(text, ":{volume}");
    }
    for (label, value) in head_values(fields, kind, node) {
        let _ = write!(text, " {label}={value}");
    }
    for placed in shown_tail(structure, fields.split(kind, node), node) {
        let is_long = placed.field.show == Show::Bytes && placed.field.bits as usize > 8 * INLINE;
        let value = if is_long {
            long(value::own(&placed.field, node), contents)?
        } else {
            value::field(&placed.field, node)
        };
        let _ = write!(text, " {}={value}", placed.label(structure));
    }
    let usual_fill = len.next_multiple_of(structure.align) - len;
    if fill.len() != usual_fill || fill.iter().any(|byte| *byte != structure.filler) {
        text += " fill=";
        value::push_hex(&mut text, fill);
    }
    Ok(text)
}

/// Returns the kind of a structure, and labels and values of all that its text contains.
pub fn fields_of(
    fields: &dyn Structures,
    kind: usize,
    node: &[u8],
) -> (&'static str, Vec<(String, String)>) {
    let structure = &fields.structures()[kind];
    let mut values = head_values(fields, kind, node);
    for placed in shown_tail(structure, fields.split(kind, node), node) {
        values.push((placed.label(structure), value::field(&placed.field, node)));
    }
    (structure.kind, values)
}

/// Returns a value that fits a line.
pub fn shortened(value: &str) -> String {
    const MOST: usize = 64;
    if value.len() <= MOST {
        return value.to_owned();
    }
    let start: String = value.chars().take(MOST - 16).collect();
    format!("{start}...")
}

/// Returns labels and values of a head; those of sound structures and right checksums are left out.
fn head_values(fields: &dyn Structures, kind: usize, node: &[u8]) -> Vec<(String, String)> {
    let structure = &fields.structures()[kind];
    let mut values = Vec::new();
    for part in &structure.head {
        let Field { bit, bits, repr, show, .. } = part.field;
        let number = number_at(node, bit as usize, bits as usize, repr);
        let text = match show {
            Show::Sum if number == fields.sum(kind, &part.label, node) => continue,
            Show::Sum => format!("!{}", value::number(show, number)),
            Show::Zero if value::is_zero(&part.field, node) => continue,
            Show::Text => value::quoted(value::trimmed(value::own(&part.field, node))),
            _ if show != Show::Zero && part.usual == Some(number) => continue,
            _ => value::field(&part.field, node),
        };
        values.push((part.label.clone(), text));
    }
    values
}

/// Leaves out the bits after the last field of packed structures, if none is set.
fn shown_tail(structure: &Structure, mut tail: Vec<Placed>, node: &[u8]) -> Vec<Placed> {
    let is_unused = |placed: &Placed| structure.tail[placed.element].name == "unused";
    let is_set = |placed: &Placed| {
        let Field { bit, bits, repr, .. } = placed.field;
        number_at(node, bit as usize, bits as usize, repr) != 0
    };
    while tail.last().is_some_and(|last| is_unused(last) && !is_set(last)) {
        tail.pop();
    }
    tail
}
