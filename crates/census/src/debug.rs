//! Questions about an image: what is where, what refers to it, and where something is.
//!
//! Addresses: `@7.512` (block 7 of the only or first segment with blocks, byte 512), `peb 7:512` and
//! `leb 7:512` (the same where blocks are those), `0/leb 11:4056` (a LEB of volume 0), `byte 123456`.

use crate::census::{Census, Entry, State};
use crate::segment::{Format, Segment};
use crate::text;
use crate::value;
use crate::walk::What;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

/// Bytes that `x` prints without a length, and the most it prints.
const HEX: (u64, u64) = (64, 64 << 10);
/// Bytes in a line of a hex dump.
const ROW: usize = 16;

/// The commands, one line each, addresses and states.
pub const HELP: &str = "\
Commands:
census [STATE|KIND]...  records and bytes by state; with words, each record that fits one
p ADDRESS               the structure there, as text
x ADDRESS [LENGTH]      bytes there
where ADDRESS           all coordinates of a place
refs ADDRESS            what refers to the structure there, and what it refers to
find sqnum NUMBER       structures with this sequence number
find ino NUMBER         structures of this inode
find key KEY            structures with this key, as in 66/data/3
find crc-bad            structures with a wrong checksum
help, quit

Addresses: @7.512 (block, byte), byte 123, peb 7:512, leb 11:4056, 0/leb 11:4056 (of volume 0).
States: live, superseded, deleted, doubtful, torn, padding, free, garbage, old-block, foreign,
unknown.";

/// Records and bytes by state.
pub type Sums = BTreeMap<State, (u64, u64)>;

/// Why a command was not done.
#[derive(Debug)]
pub enum Refusal {
    /// The command makes no sense: what was expected.
    Usage(String),
    /// The image cannot be read.
    Host(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Host(error)
    }
}

fn usage<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal::Usage(message.into()))
}

/// Answers questions about one image.
#[derive(Debug)]
pub struct Debugger {
    census: Census,
}

impl Debugger {
    /// Takes over a census.
    pub fn new(census: Census) -> Self {
        Self { census }
    }

    /// Returns records and bytes by state.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read.
    pub fn sums(&self) -> io::Result<Sums> {
        let mut sums = Sums::new();
        self.census.walk(&mut |entry| {
            let sum = sums.entry(entry.state).or_default();
            *sum = (sum.0 + 1, sum.1 + entry.record.len);
            Ok(())
        })?;
        Ok(sums)
    }

    /// Runs a command; appends what it prints to `out`.
    ///
    /// # Errors
    ///
    /// Fails if the command makes no sense or the image cannot be read.
    pub fn run(&self, command: &str, out: &mut String) -> Result<(), Refusal> {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words.split_first() {
            None => Ok(()),
            Some((&"help", _)) => {
                out.push_str(HELP);
                out.push('\n');
                Ok(())
            }
            Some((&"census", rest)) => self.list(rest, out),
            Some((&("p" | "print"), rest)) => self.print(self.address(rest)?.0, out),
            Some((&"x", rest)) => self.hex(rest, out),
            Some((&"where", rest)) => self.coordinates(self.address(rest)?.0, out),
            Some((&"refs", rest)) => self.refs(self.address(rest)?.0, out),
            Some((&"find", rest)) => self.find(rest, out),
            Some((other, _)) => usage(format!("`{other}` is no command; `help` lists them")),
        }
    }

    fn list(&self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        if words.is_empty() {
            for (state, (records, bytes)) in self.sums()? {
                let _ = writeln!(out, "{state:<10} {records:>9} records {bytes:>13} bytes");
            }
            return Ok(());
        }
        self.each(out, &|entry| {
            words.iter().any(|word| {
                *word == "all" || entry.state.name() == *word || entry.kind().starts_with(*word)
            })
        })
    }

    /// Prints each entry that fits.
    fn each(&self, out: &mut String, fits: &dyn Fn(&Entry<'_>) -> bool) -> Result<(), Refusal> {
        self.census.walk(&mut |entry| {
            if fits(entry) {
                let _ = writeln!(out, "{}", self.line(entry));
            }
            Ok(())
        })?;
        Ok(())
    }

    fn segment(&self, entry: &Entry<'_>) -> &Segment {
        &self.census.plan().segments[entry.record.segment]
    }

    /// Returns an entry as one line.
    pub fn line(&self, entry: &Entry<'_>) -> String {
        let record = entry.record;
        let place = self.segment(entry).place(record.offset);
        let mut line = format!("@{place} {} {} {}", record.len, entry.kind(), entry.state);
        for (name, labels) in [
            ("key", &["key"][..]),
            ("ino", &["ino", "pino", "inum"]),
            ("sqnum", &["sqnum", "version"]),
        ] {
            if let Some(value) = entry.field(labels) {
                let _ = write!(line, " {name}={value}");
            }
        }
        match entry.sums_hold {
            Some(true) => line.push_str(" crc=ok"),
            Some(false) => line.push_str(" crc=bad"),
            None => {}
        }
        if let Some(by) = entry.by {
            let _ = write!(line, " by=@{}", self.segment(entry).place(by));
        }
        line
    }

    /// Returns the byte of the image that an address names, and how many words it took.
    fn address(&self, words: &[&str]) -> Result<(u64, usize), Refusal> {
        let expected =
            "expected an address: @7.512, byte 123, peb 7:512, leb 11:4056 or 0/leb 11:4056";
        let number = |text: &str| value::parse_number(text);
        let pair = |text: &str, sign: char| {
            let (block, offset) = text.split_once(sign).unwrap_or((text, "0"));
            Some((number(block)?, number(offset)?))
        };
        let found = match words {
            [place, ..] if place.starts_with('@') => {
                let place = &place[1..];
                let found = if place.contains('.') {
                    pair(place, '.').and_then(|(block, offset)| self.in_block(block, offset))
                } else {
                    number(place)
                };
                found.map(|at| (at, 1))
            }
            ["byte", at, ..] => number(at).map(|at| (at, 2)),
            ["peb", place, ..] => pair(place, ':')
                .and_then(|(block, offset)| self.in_block(block, offset))
                .map(|at| (at, 2)),
            ["leb", place, ..] => match pair(place, ':') {
                Some((leb, offset)) => self.in_leb(None, leb, offset)?.map(|at| (at, 2)),
                None => None,
            },
            [volume, place, ..] if volume.ends_with("/leb") => {
                let volume = volume.strip_suffix("/leb").and_then(number);
                match (volume, pair(place, ':')) {
                    (Some(volume), Some((leb, offset))) => {
                        self.in_leb(Some(volume), leb, offset)?.map(|at| (at, 2))
                    }
                    _ => None,
                }
            }
            _ => None,
        };
        let size = self.census.plan().size;
        match found {
            Some((at, used)) if at < size => Ok((at, used)),
            Some((at, _)) => usage(format!("byte {at}: the image has {size} bytes")),
            None => usage(expected),
        }
    }

    fn in_block(&self, block: u64, offset: u64) -> Option<u64> {
        let segments = &self.census.plan().segments;
        let segment = segments.iter().find(|segment| segment.format.block_size().is_some())?;
        let size = u64::from(segment.format.block_size()?);
        let at = block.checked_mul(size)?.checked_add(offset)?;
        (offset < size && at < segment.len).then(|| segment.offset + at)
    }

    /// Returns the place of a byte of a LEB: of the newest eraseblock that says it holds it.
    fn in_leb(&self, volume: Option<u64>, leb: u64, offset: u64) -> Result<Option<u64>, Refusal> {
        let segments = &self.census.plan().segments;
        let is_bare = |segment: &Segment| matches!(segment.format, Format::Ubifs { .. });
        if segments.iter().any(is_bare) {
            return Ok(self.in_block(leb, offset));
        }
        let mut newest: Option<(u64, u64)> = None;
        self.census.walk(&mut |entry| {
            let segment = self.segment(entry);
            let (Some(vid), Format::Ubi(layout)) = (entry.record.vid, segment.format) else {
                return Ok(());
            };
            let fits = entry.kind() == "ubi.vid"
                && u64::from(vid.leb.get()) == leb
                && volume.map_or(vid.volume.get() < 128, |id| id == u64::from(vid.volume.get()))
                && offset < u64::from(layout.leb_size());
            if fits && newest.is_none_or(|(sqnum, _)| vid.sqnum.get() >= sqnum) {
                let own = entry.record.offset - segment.offset;
                let peb = own - own % u64::from(layout.peb_size());
                let at = segment.offset + peb + u64::from(layout.data_offset()) + offset;
                newest = Some((vid.sqnum.get(), at));
            }
            Ok(())
        })?;
        Ok(newest.map(|(_, at)| at))
    }

    /// Calls `sink` for the record at a byte.
    fn at(&self, at: u64, sink: &mut dyn FnMut(&Entry<'_>)) -> Result<(), Refusal> {
        self.census.walk(&mut |entry| {
            let start = entry.record.offset;
            if (start..start + entry.record.len).contains(&at) {
                sink(entry);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn print(&self, at: u64, out: &mut String) -> Result<(), Refusal> {
        self.at(at, &mut |entry| {
            let _ = writeln!(out, "{}", self.line(entry));
            let record = entry.record;
            if let What::Structure { family, kind, len } = record.what
                && let Some(fields) =
                    self.census.tables().of(self.census.plan(), record.segment, family)
            {
                let own = &record.bytes[..len.min(record.bytes.len())];
                for (label, value) in text::fields_of(fields, kind, own).1 {
                    let _ = writeln!(out, "  {label} = {}", text::shortened(&value));
                }
            }
        })
    }

    fn hex(&self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let (at, used) = self.address(words)?;
        let len = match words.get(used) {
            None => HEX.0,
            Some(text) => match value::parse_number(text) {
                Some(len) if len <= HEX.1 => len,
                _ => {
                    return usage(format!(
                        "`{text}`: expected a length of at most {} bytes",
                        HEX.1
                    ));
                }
            },
        };
        let plan = self.census.plan();
        let len = len.min(plan.size - at) as usize;
        let mut bytes = vec![0; len];
        self.census.image().read_exact_at(&mut bytes, at)?;
        for (row, chunk) in bytes.chunks(ROW).enumerate() {
            let _ = write!(out, "{:08x} ", at + (row * ROW) as u64);
            for byte in chunk {
                let _ = write!(out, " {byte:02x}");
            }
            let shown = chunk.iter().map(|byte| match byte {
                0x20..=0x7E => char::from(*byte),
                _ => '.',
            });
            let fill = 3 * (ROW - chunk.len()) + 2;
            let _ = writeln!(out, "{:fill$}{}", "", shown.collect::<String>());
        }
        Ok(())
    }

    fn coordinates(&self, at: u64, out: &mut String) -> Result<(), Refusal> {
        self.at(at, &mut |entry| {
            let segment = self.segment(entry);
            let own = at - segment.offset;
            let _ = writeln!(out, "byte {at}");
            if let Some(size) = segment.format.block_size().map(u64::from) {
                let _ = writeln!(out, "@{}", segment.place(at));
                let (block, offset) = (own / size, own % size);
                match (segment.format, entry.record.vid) {
                    (Format::Ubi(layout), vid) => {
                        let _ = writeln!(out, "peb {block}:{offset}");
                        let data = offset.checked_sub(layout.data_offset().into());
                        if let (Some(vid), Some(data)) = (vid, data) {
                            let _ = writeln!(out, "{}/leb {}:{data}", vid.volume, vid.leb);
                        }
                    }
                    (Format::Ubifs { .. }, _) => {
                        let _ = writeln!(out, "leb {block}:{offset}");
                    }
                    _ => {}
                }
            }
            let _ = writeln!(out, "{} + {}", self.line(entry), at - entry.record.offset);
        })
    }

    fn refs(&self, at: u64, out: &mut String) -> Result<(), Refusal> {
        let (mut start, mut by) = (None, None);
        self.at(at, &mut |entry| (start, by) = (Some(entry.record.offset), entry.by))?;
        self.census.walk(&mut |entry| {
            let is_above = by == Some(entry.record.offset);
            let is_below = entry.by.is_some() && entry.by == start;
            if is_above || is_below {
                let arrow = if is_above { "from" } else { "to" };
                let _ = writeln!(out, "{arrow} {}", self.line(entry));
            }
            Ok(())
        })?;
        Ok(())
    }

    fn find(&self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let has = |entry: &Entry<'_>, labels: &[&str], wanted: &str| {
            entry.field(labels).is_some_and(|value| value == wanted)
        };
        match words {
            ["crc-bad"] => self.each(out, &|entry| entry.sums_hold == Some(false)),
            ["sqnum", number] => self.each(out, &|entry| has(entry, &["sqnum"], number)),
            ["key", key] => self.each(out, &|entry| has(entry, &["key"], key)),
            ["ino", ino] => self.each(out, &|entry| {
                let key = entry.field(&["key"]);
                has(entry, &["ino"], ino)
                    || key.is_some_and(|key| key.split('/').next() == Some(ino))
            }),
            _ => usage("expected: find sqnum NUMBER, ino NUMBER, key KEY or crc-bad"),
        }
    }
}
