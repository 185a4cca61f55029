//! Questions about an image and changes of it: what is where, what refers to it, why it is live, and
//! fields set to other values.
//!
//! # Invariants
//! 1. The image below is never written: changes stay in memory until the caller takes them.
//! 2. A command that fails changes nothing.
//! 3. The same commands change the same image in the same way.

mod address;
mod change;
mod explain;
mod record;
#[cfg(test)]
mod tests;

use crate::census::{Census, Entry, State};
use crate::overlay::{Changed, Overlay};
use crate::segment::{Format, Plan, Segment};
use crate::text;
use crate::value;
use crate::walk::Tables;
use change::Step;
use eraseblock_base::random::SplitMix64;
use eraseblock_mtd::ReadAt;
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::sync::Arc;

/// Bytes that `x` prints without a length, and the most it prints.
const HEX: (u64, u64) = (64, 64 << 10);
/// Bytes in a line of a hex dump.
const ROW: usize = 16;

/// The commands, one line each, addresses and states.
pub const HELP: &str = "\
Commands:
census [STATE|KIND]...  records and bytes by state; with words, each record that fits one
p ADDRESS               the structure there, or the field, as text
x ADDRESS [LENGTH]      bytes there
where ADDRESS           all coordinates of a place
refs ADDRESS            what refers to the structure there, and what it refers to
explain ADDRESS         why it is live or not
find sqnum NUMBER       structures with this sequence number
find ino NUMBER         structures of this inode
find key KEY            structures with this key, as in 66/data/3 or 1/dent/motd
find crc-bad            structures with a wrong checksum
set ADDRESS.FIELD=VALUE another value, and the checksums over it; keep-crc leaves those
fuzz ADDRESS.FIELD VERB zero, ones, first, middle, last (a bit flipped), add N, sub N, random
poke ADDRESS BYTES      other bytes, as hexadecimal digits; no checksum follows
crc [fix|break] ADDRESS show the checksums of a structure, make them right, make one wrong
crc keep                leave checksums as they are from now on; crc renew ends it
erase peb N             erase a block (leb N); erase ADDRESS erases one structure
copy ADDRESS to ADDRESS copy a block or a structure
undo, redo              take the last change back, make it again
changes                 what was changed and not written
write                   write the changes to what -o or -w names
help, quit

Addresses: @7.512 (block, byte), byte 123, peb 7:512, leb 11:4056, sb, master[-1] (the newest;
master2 is the copy), ltab, lsave, lpt 12 (the node of LEB 12), lpt root, idx root, idx root/2/0,
ino 66, key 66/data/3, key 1/dent/motd, /etc/motd, vtbl 0 (vtbl2 is the copy), ubifs.ref[0] (of a
kind the first; [-1] is the last), node +1 (the next one), . (the current one).
VOLUME/ before leb, sb, master, ltab, lsave, lpt, idx, ino, key and path names a volume, as in
rootfs/leb 11:4056 or rootfs/path /etc/motd. The last part may be .FIELD, as in `ino 66.size`,
`lpt 12 .leb[0].free8` or `set .nlink=3`. The place of a command is the current one of the next.
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

/// Answers questions about one image, and changes it in memory.
#[derive(Debug)]
pub struct Debugger {
    image: Arc<Overlay>,
    plan: Plan,
    tables: Tables,
    /// The census of the image as it is now, once it is needed.
    census: OnceCell<Census>,
    /// The byte that the last address named.
    at: Option<u64>,
    keeps_sums: bool,
    random: SplitMix64,
    done: Vec<Step>,
    undone: Vec<Step>,
}

/// Splits a command at spaces outside quotation marks.
fn words_of(command: &str) -> Vec<&str> {
    let (mut words, mut start) = (Vec::new(), 0);
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, letter) in command.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            letter if letter.is_whitespace() && !is_quoted => {
                words.push(&command[start..at]);
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    words.push(&command[start..]);
    words.retain(|word| !word.is_empty());
    words
}

impl Debugger {
    /// Takes over an image; `seed` determines what `fuzz random` does.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read.
    pub fn new(image: Arc<dyn ReadAt>, plan: Plan, seed: u64) -> io::Result<Self> {
        Ok(Self {
            image: Arc::new(Overlay::new(image)?),
            plan,
            tables: Tables::new(),
            census: OnceCell::new(),
            at: None,
            keeps_sums: false,
            random: SplitMix64::new(seed),
            done: Vec::new(),
            undone: Vec::new(),
        })
    }

    /// Returns the image with its changes.
    pub fn image(&self) -> &Arc<Overlay> {
        &self.image
    }

    /// Returns all changes.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read.
    pub fn changes(&self) -> io::Result<Vec<Changed>> {
        self.image.changes()
    }

    /// Returns the census of the image as it is now.
    fn census(&self) -> io::Result<&Census> {
        if let Some(census) = self.census.get() {
            return Ok(census);
        }
        let image = Arc::clone(&self.image) as Arc<dyn ReadAt>;
        let census = Census::new(image, self.plan.clone())?;
        Ok(self.census.get_or_init(|| census))
    }

    /// Returns records and bytes by state.
    ///
    /// # Errors
    ///
    /// Fails if the image cannot be read.
    pub fn sums(&self) -> io::Result<Sums> {
        let mut sums = Sums::new();
        self.census()?.walk(&mut |entry| {
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
    /// Fails without a change if the command makes no sense or the image cannot be read.
    pub fn run(&mut self, command: &str, out: &mut String) -> Result<(), Refusal> {
        let words = words_of(command);
        let Some((name, rest)) = words.split_first() else { return Ok(()) };
        match *name {
            "help" => {
                out.push_str(HELP);
                out.push('\n');
                Ok(())
            }
            "census" => self.list(rest, out),
            "p" | "print" => self.print(rest, out),
            "x" => self.hex(rest, out),
            "where" => self.coordinates(rest, out),
            "refs" => self.refs(rest, out),
            "explain" => self.explain(rest, out),
            "find" => self.find(rest, out),
            "changes" => self.list_changes(out),
            "set" => self.set(command, rest),
            "fuzz" => self.fuzz(command, rest, out),
            "poke" => self.poke(command, rest),
            "crc" => self.sums_of(command, rest, out),
            "erase" => self.erase(command, rest),
            "copy" => self.copy(command, rest),
            "undo" => self.undo(out),
            "redo" => self.redo(out),
            other => usage(format!("`{other}` is no command; `help` lists them")),
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
        })?;
        Ok(())
    }

    /// Prints each entry that fits; returns where the first one begins.
    fn each(
        &self,
        out: &mut String,
        fits: &dyn Fn(&Entry<'_>) -> bool,
    ) -> Result<Option<u64>, Refusal> {
        let mut first = None;
        self.census()?.walk(&mut |entry| {
            if fits(entry) {
                first = first.or(Some(entry.record.offset));
                let _ = writeln!(out, "{}", self.line(entry));
            }
            Ok(())
        })?;
        Ok(first)
    }

    fn segment(&self, entry: &Entry<'_>) -> &Segment {
        &self.plan.segments[entry.record.segment]
    }

    /// Returns the place of a byte of the image as text.
    fn place(&self, at: u64) -> String {
        let segment = self.plan.segments.iter().find(|one| (one.offset..one.end()).contains(&at));
        format!("@{}", segment.map_or_else(|| at.to_string(), |segment| segment.place(at)))
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

    /// Hands the entry of the record at a byte to `sink`.
    fn at(&self, at: u64, sink: &mut dyn FnMut(&Entry<'_>)) -> Result<(), Refusal> {
        let segments = &self.plan.segments;
        let Some(index) = segments.iter().position(|one| (one.offset..one.end()).contains(&at))
        else {
            return Ok(());
        };
        self.census()?.walk_block(index, at, &mut |entry| {
            let start = entry.record.offset;
            if (start..start + entry.record.len).contains(&at) {
                sink(entry);
            }
            Ok(())
        })?;
        Ok(())
    }

    fn print(&mut self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let (address, _) = self.address(words)?;
        if let Some(label) = &address.field {
            let found = self.record(address.at)?;
            let field = self.field(&found, label)?;
            let _ = writeln!(out, "{label} = {}", value::field(&field, &found.bytes));
            return Ok(());
        }
        self.at(address.at, &mut |entry| {
            let _ = writeln!(out, "{}", self.line(entry));
        })?;
        let found = self.record(address.at)?;
        if let Some((fields, kind, own)) = self.structure(&found) {
            for (label, value) in text::fields_of(fields, kind, own).1 {
                let _ = writeln!(out, "  {label} = {}", text::shortened(&value));
            }
        }
        Ok(())
    }

    fn hex(&mut self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let (address, used) = self.address(words)?;
        let at = address.at;
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
        let len = len.min(self.plan.size - at) as usize;
        let mut bytes = vec![0; len];
        self.image.read_exact_at(&mut bytes, at)?;
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

    fn coordinates(&mut self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let at = self.address(words)?.0.at;
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

    fn refs(&mut self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let at = self.address(words)?.0.at;
        let (mut start, mut by) = (None, None);
        self.at(at, &mut |entry| (start, by) = (Some(entry.record.offset), entry.by))?;
        self.census()?.walk(&mut |entry| {
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

    fn find(&mut self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let has = |entry: &Entry<'_>, labels: &[&str], wanted: &str| {
            entry.field(labels).is_some_and(|value| value == wanted)
        };
        let first = match words {
            ["crc-bad"] => self.each(out, &|entry| entry.sums_hold == Some(false))?,
            ["sqnum", number] => self.each(out, &|entry| has(entry, &["sqnum"], number))?,
            ["key", key] => match Self::named_key(key) {
                Some((parent, kind, name)) => self.each(out, &|entry| {
                    let own = address::entry_name(entry);
                    entry.kind() == kind && own.is_some_and(|own| own == (parent, name.clone()))
                })?,
                None => self.each(out, &|entry| has(entry, &["key"], key))?,
            },
            ["ino", ino] => self.each(out, &|entry| {
                let key = entry.field(&["key"]);
                has(entry, &["ino"], ino)
                    || key.is_some_and(|key| key.split('/').next() == Some(ino))
            })?,
            _ => return usage("expected: find sqnum NUMBER, ino NUMBER, key KEY or crc-bad"),
        };
        self.at = first.or(self.at);
        Ok(())
    }

    fn list_changes(&self, out: &mut String) -> Result<(), Refusal> {
        for change in self.changes()? {
            let place = self.place(change.offset);
            let (old, new) = (value::bytes(&change.old), value::bytes(&change.new));
            let (old, new) = (text::shortened(&old), text::shortened(&new));
            let _ = writeln!(out, "{place} {} bytes: {old} -> {new}", change.new.len());
        }
        Ok(())
    }
}
