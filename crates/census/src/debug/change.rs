//! Changes: fields, bytes, checksums, blocks.

use super::record::Found;
use super::{Debugger, Refusal, usage, words_of};
use crate::value;
use crate::walk::What;
use eraseblock_base::field::{Field, Repr, Show, number_at, put_number};
use eraseblock_mtd::ReadAt;
use std::fmt::Write;

/// The word that leaves checksums as they are.
const KEEP: &str = "keep-crc";
/// The most bytes that a command replaces: a block.
const MOST: u64 = 64 << 20;
/// Names that stand for numbers: a kind of structure, a field, and the names from 0 on.
const NAMES: [(&str, &str, &[&str]); 3] = [
    ("ubifs.dent", "kind", &["file", "dir", "link", "block", "char", "fifo", "socket"]),
    ("ubifs.data", "compr_type", &["none", "lzo", "zlib", "zstd"]),
    ("ubi.vid", "vol_type", &["", "dynamic", "static"]),
];

/// Bytes that a command replaced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    at: u64,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// What a command changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Step {
    command: String,
    pieces: Vec<Piece>,
}

/// What becomes of the bytes of a structure when a field of it is replaced.
type Replace<'a> = dyn FnMut(&Field, &mut [u8]) -> Result<(), Refusal> + 'a;

impl Debugger {
    /// Replaces bytes as one step that can be undone.
    fn apply(&mut self, command: &str, changes: Vec<(u64, Vec<u8>)>) -> Result<(), Refusal> {
        let mut pieces = Vec::new();
        for (at, new) in changes {
            let mut old = vec![0; new.len()];
            self.image.read_exact_at(&mut old, at)?;
            pieces.push(Piece { at, old, new });
        }
        let mut done = 0;
        let mut result = Ok(());
        for piece in &pieces {
            result = self.image.put(piece.at, &piece.new);
            if result.is_err() {
                break;
            }
            done += 1;
        }
        if let Err(error) = result {
            for piece in pieces[..done].iter().rev() {
                self.image.put(piece.at, &piece.old)?;
            }
            return Err(error.into());
        }
        self.done.push(Step { command: command.trim().to_owned(), pieces });
        self.undone.clear();
        self.census.take();
        Ok(())
    }

    pub(super) fn undo(&mut self, out: &mut String) -> Result<(), Refusal> {
        let Some(step) = self.done.pop() else { return usage("nothing was changed") };
        for piece in step.pieces.iter().rev() {
            self.image.put(piece.at, &piece.old)?;
        }
        let _ = writeln!(out, "undone: {}", step.command);
        self.undone.push(step);
        self.census.take();
        Ok(())
    }

    pub(super) fn redo(&mut self, out: &mut String) -> Result<(), Refusal> {
        let Some(step) = self.undone.pop() else { return usage("nothing was undone") };
        for piece in &step.pieces {
            self.image.put(piece.at, &piece.new)?;
        }
        let _ = writeln!(out, "done again: {}", step.command);
        self.done.push(step);
        self.census.take();
        Ok(())
    }

    /// Takes the option that leaves checksums as they are out of the words.
    fn keeps<'a>(&self, words: &[&'a str]) -> (bool, Vec<&'a str>) {
        let rest: Vec<&str> = words.iter().copied().filter(|word| *word != KEEP).collect();
        (self.keeps_sums || rest.len() < words.len(), rest)
    }

    /// Returns the structure and the label of a field: of an address, or of the current place.
    fn target(&mut self, words: &[&str]) -> Result<(Found, String, usize), Refusal> {
        if let [label, ..] = words
            && let Some(at) = self.at
            && let Ok(found) = self.record(at)
            && self.field(&found, label).is_ok()
        {
            return Ok((found, (*label).to_owned(), 1));
        }
        let before = self.at;
        let (address, used) = self.address(words)?;
        let found = self.record(address.at)?;
        let Some(label) = address.field else {
            self.at = before;
            return usage("expected a field, as in `set ino 66.size=3` or `set .size=3`");
        };
        Ok((found, label, used))
    }

    /// Replaces a field, and the checksums over it unless they are kept.
    fn replace(
        &mut self,
        command: &str,
        found: &Found,
        label: &str,
        keeps: bool,
        change: &mut Replace<'_>,
    ) -> Result<(), Refusal> {
        let field = self.field(found, label)?;
        let What::Structure { len, .. } = found.what else { return usage("no structure") };
        let mut own = found.bytes[..len.min(found.bytes.len())].to_vec();
        change(&field, &mut own)?;
        if !keeps && field.show != Show::Sum {
            self.seal(found, &mut own, &|_| false)?;
        }
        self.at = Some(found.offset);
        self.apply(command, vec![(found.offset, own)])
    }

    /// Makes the checksums of a structure right.
    fn seal(
        &self,
        found: &Found,
        own: &mut [u8],
        keep: &dyn Fn(&str) -> bool,
    ) -> Result<(), Refusal> {
        let mut covered = self.covered(found, own)?;
        if let Some((fields, kind, _)) = self.structure(found) {
            fields.seal(kind, &mut covered, keep);
        }
        let len = own.len().min(covered.len());
        own[..len].copy_from_slice(&covered[..len]);
        Ok(())
    }

    pub(super) fn set(&mut self, command: &str, words: &[&str]) -> Result<(), Refusal> {
        let (keeps, words) = self.keeps(words);
        let text = words.join(" ");
        let Some((left, right)) = text.split_once('=') else {
            return usage("expected: set ADDRESS.FIELD=VALUE");
        };
        let (left, right) = (words_of(left), right.trim());
        let (found, label, used) = self.target(&left)?;
        if let Some(extra) = left.get(used) {
            return usage(format!("`{extra}`: expected `=`"));
        }
        let names = NAMES.iter().find(|(kind, field, _)| {
            *kind == self.kind(&found) && *field == label && !right.is_empty()
        });
        let number = names.and_then(|(.., names)| names.iter().position(|name| *name == right));
        let right = number.map_or_else(|| right.to_owned(), |number| number.to_string());
        self.replace(command, &found, &label, keeps, &mut |field, bytes| {
            let wrong = |what| Refusal::Usage(format!("{label}={right}: expected {what}"));
            value::put(field, &right, bytes).map_err(wrong)
        })
    }

    pub(super) fn fuzz(
        &mut self,
        command: &str,
        words: &[&str],
        out: &mut String,
    ) -> Result<(), Refusal> {
        let (keeps, words) = self.keeps(words);
        let (found, label, used) = self.target(&words)?;
        let verb = Verb::parse(&words[used..])?;
        // A command that fails uses no number of the sequence.
        let mut random = self.random.clone();
        self.replace(command, &found, &label, keeps, &mut |field, bytes| {
            verb.change(field, bytes, &mut || random.next_u64())
        })?;
        self.random = random;
        let now = self.record(found.offset)?;
        if let Ok(field) = self.field(&now, &label) {
            let _ = writeln!(out, "{label} = {}", value::field(&field, &now.bytes));
        }
        Ok(())
    }

    pub(super) fn poke(&mut self, command: &str, words: &[&str]) -> Result<(), Refusal> {
        let Some((text, words)) = words.split_last() else {
            return usage("expected: poke ADDRESS BYTES");
        };
        let most = usize::try_from(MOST).unwrap_or(usize::MAX);
        let Some(bytes) = value::parse_bytes(text, most).filter(|bytes| !bytes.is_empty()) else {
            return usage(format!(
                "`{text}`: expected pairs of hexadecimal digits, or a run like ff*16"
            ));
        };
        let (address, used) = self.address(words)?;
        if let Some(extra) = words.get(used) {
            return usage(format!("`{extra}` follows the address"));
        }
        let mut at = address.at;
        if let Some(label) = &address.field {
            let found = self.record(at)?;
            at = found.offset + u64::from(self.field(&found, label)?.bit / 8);
        }
        if at + bytes.len() as u64 > self.plan.size {
            let (len, size) = (bytes.len(), self.plan.size);
            return usage(format!("{len} bytes at byte {at}: the image has {size} bytes"));
        }
        self.apply(command, vec![(at, bytes)])
    }

    /// Returns the range of a block or a structure.
    fn range(&mut self, words: &[&str]) -> Result<(u64, u64, usize), Refusal> {
        let (address, used) = self.address(words)?;
        if !address.is_block {
            let found = self.record(address.at)?;
            return Ok((found.offset, found.len, used));
        }
        let end = self.block_end(address.at);
        let segments = &self.plan.segments;
        let segment = segments.iter().find(|one| (one.offset..one.end()).contains(&address.at));
        let size = segment.and_then(|segment| segment.format.block_size()).map_or(1, u64::from);
        let start = segment.map_or(address.at, |segment| {
            let own = address.at - segment.offset;
            segment.offset + own - own % size
        });
        Ok((start, end - start, used))
    }

    pub(super) fn erase(&mut self, command: &str, words: &[&str]) -> Result<(), Refusal> {
        let (start, len, used) = self.range(words)?;
        if let Some(extra) = words.get(used) {
            return usage(format!("`{extra}` follows the address"));
        }
        let len = bounded(len)?;
        self.apply(command, vec![(start, vec![0xFF; len])])
    }

    pub(super) fn copy(&mut self, command: &str, words: &[&str]) -> Result<(), Refusal> {
        let Some(to) = words.iter().position(|word| *word == "to") else {
            return usage("expected: copy ADDRESS to ADDRESS");
        };
        let (from, len, _) = self.range(&words[..to])?;
        let (at, used) = self.address(&words[to + 1..])?;
        if let Some(extra) = words.get(to + 1 + used) {
            return usage(format!("`{extra}` follows the address"));
        }
        let mut at = at;
        if at.is_block {
            (at.at, ..) = self.range(&words[to + 1..])?;
        }
        let mut bytes = vec![0; bounded(len)?];
        if at.at + len > self.plan.size {
            return usage(format!("{len} bytes do not fit at byte {}", at.at));
        }
        self.image.read_exact_at(&mut bytes, from)?;
        self.apply(command, vec![(at.at, bytes)])
    }

    pub(super) fn sums_of(
        &mut self,
        command: &str,
        words: &[&str],
        out: &mut String,
    ) -> Result<(), Refusal> {
        match words {
            ["keep"] => self.keeps_sums = true,
            ["renew"] => self.keeps_sums = false,
            ["fix", rest @ ..] => return self.fix_sums(command, rest),
            ["break", rest @ ..] => return self.break_sum(command, rest),
            rest => return self.show_sums(rest, out),
        }
        Ok(())
    }

    fn show_sums(&mut self, words: &[&str], out: &mut String) -> Result<(), Refusal> {
        let at = self.address(words)?.0.at;
        let found = self.record(at)?;
        let Some((fields, kind, own)) = self.structure(&found) else {
            return usage("no structure is there");
        };
        let structure = &fields.structures()[kind];
        for part in structure.head.iter().filter(|part| part.field.show == Show::Sum) {
            let stored = structure.number(&part.label, own);
            let computed = fields.sum(kind, &part.label, own);
            let verdict = if stored == computed { "right" } else { "wrong" };
            let _ = writeln!(
                out,
                "{} = {stored:#010x}, computed {computed:#010x}: {verdict}",
                part.label
            );
        }
        Ok(())
    }

    fn fix_sums(&mut self, command: &str, words: &[&str]) -> Result<(), Refusal> {
        let at = self.address(words)?.0.at;
        let found = self.record(at)?;
        let Some((.., own)) = self.structure(&found) else {
            return usage("no structure is there");
        };
        let mut own = own.to_vec();
        self.seal(&found, &mut own, &|_| false)?;
        self.apply(command, vec![(found.offset, own)])
    }

    /// Makes one checksum wrong: that of the address, or the last one of the structure.
    fn break_sum(&mut self, command: &str, words: &[&str]) -> Result<(), Refusal> {
        let (address, _) = self.address(words)?;
        let found = self.record(address.at)?;
        let Some((fields, kind, own)) = self.structure(&found) else {
            return usage("no structure is there");
        };
        let structure = &fields.structures()[kind];
        let mut sums = structure.head.iter().filter(|part| part.field.show == Show::Sum);
        let is_wanted = |label: &str| address.field.as_ref().is_none_or(|wanted| wanted == label);
        let Some(part) = sums.rfind(|part| is_wanted(&part.label)) else {
            return usage(format!("{} has no such checksum", structure.kind));
        };
        let Field { bit, bits, repr, .. } = part.field;
        let (bit, bits) = (bit as usize, bits as usize);
        let right = fields.sum(kind, &part.label, own);
        let mut own = own.to_vec();
        put_number(&mut own, bit, bits, repr, !right & (u64::MAX >> (64 - bits.clamp(1, 64))));
        self.apply(command, vec![(found.offset, own)])
    }
}

fn bounded(len: u64) -> Result<usize, Refusal> {
    match usize::try_from(len) {
        Ok(own) if len <= MOST => Ok(own),
        _ => usage(format!("{len} bytes, expected {MOST} at most")),
    }
}

/// How `fuzz` changes a field.
enum Verb {
    Zero,
    Ones,
    First,
    Middle,
    Last,
    Add(u64),
    Sub(u64),
    Random,
}

impl Verb {
    fn parse(words: &[&str]) -> Result<Self, Refusal> {
        let number = |text: &str| value::parse_number(text);
        let verb = match words {
            ["zero"] => Some(Self::Zero),
            ["ones"] => Some(Self::Ones),
            ["first"] => Some(Self::First),
            ["middle"] => Some(Self::Middle),
            ["last"] => Some(Self::Last),
            ["random"] => Some(Self::Random),
            ["add", text] => number(text).map(Self::Add),
            ["sub", text] => number(text).map(Self::Sub),
            _ => None,
        };
        let expected = "expected zero, ones, first, middle, last, add N, sub N or random";
        verb.map_or_else(|| usage(expected), Ok)
    }

    /// Changes a field in the bytes of its structure. First and last are bits by value: the highest
    /// and the lowest.
    fn change(
        &self,
        field: &Field,
        bytes: &mut [u8],
        random: &mut dyn FnMut() -> u64,
    ) -> Result<(), Refusal> {
        let (start, bits) = (field.bit as usize, field.bits as usize);
        if bits == 0 {
            return usage("the field is empty");
        }
        if field.repr == Repr::Bytes {
            return self.change_bytes(&mut bytes[start / 8..(start + bits) / 8], random);
        }
        let now = number_at(bytes, start, bits, field.repr);
        let ones = u64::MAX >> (64 - bits.min(64));
        let new = match self {
            Self::Zero => 0,
            Self::Ones => ones,
            Self::First => now ^ 1 << (bits.min(64) - 1),
            Self::Middle => now ^ 1 << (bits.min(64) / 2),
            Self::Last => now ^ 1,
            Self::Add(number) => now.wrapping_add(*number),
            Self::Sub(number) => now.wrapping_sub(*number),
            Self::Random => random(),
        };
        put_number(bytes, start, bits, field.repr, new & ones);
        Ok(())
    }

    fn change_bytes(&self, own: &mut [u8], random: &mut dyn FnMut() -> u64) -> Result<(), Refusal> {
        let middle = own.len() / 2;
        match self {
            Self::Zero => own.fill(0),
            Self::Ones => own.fill(0xFF),
            Self::First => own.iter_mut().take(1).for_each(|byte| *byte ^= 0x80),
            Self::Middle => own.iter_mut().skip(middle).take(1).for_each(|byte| *byte ^= 0x80),
            Self::Last => own.iter_mut().rev().take(1).for_each(|byte| *byte ^= 1),
            Self::Random => {
                for chunk in own.chunks_mut(8) {
                    chunk.copy_from_slice(&random().to_le_bytes()[..chunk.len()]);
                }
            }
            Self::Add(_) | Self::Sub(_) => return usage("add and sub are for numbers"),
        }
        Ok(())
    }
}
