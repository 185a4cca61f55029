//! Field tables: what the bits of an on-flash structure mean. One table prints a structure, changes
//! it, writes it as text and tests its decoder.
//!
//! A [`Structure`] has a head of fixed fields and a tail of elements that repeat (names, branches,
//! data). [`Structures`] is what a format crate implements once.
//!
//! # Invariants
//! 1. The fields of a head tile it: each bit belongs to exactly one field ([`Structure::new`] checks).
//! 2. The parts that [`Structures::split`] returns tile the rest of the bytes.

use crate::raw::Raw;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// How the bits of a field are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Repr {
    /// A number with the lowest bits first, at any bit.
    Little,
    /// A number of whole bytes with the highest byte first.
    Big,
    /// Whole bytes.
    Bytes,
}

/// How a field is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Show {
    /// A number in decimal.
    Number,
    /// A number in hexadecimal.
    Hex,
    /// A number in octal: a mode.
    Octal,
    /// Bytes in hexadecimal.
    Bytes,
    /// A name.
    Text,
    /// A key of UBIFS.
    Key,
    /// Zero unless something is wrong.
    Zero,
    /// A checksum over other parts of the structure.
    Sum,
}

impl Show {
    /// Returns how fields of this kind are shown unless their table says more.
    pub const fn usual(repr: Repr) -> Self {
        match repr {
            Repr::Little | Repr::Big => Self::Number,
            Repr::Bytes => Self::Bytes,
        }
    }
}

/// A field of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name; empty if its element has no other field.
    pub name: &'static str,
    /// The position of its first bit.
    pub bit: u32,
    /// The number of its bits; 0 for bytes of any number, in tails only.
    pub bits: u32,
    /// How it is read.
    pub repr: Repr,
    /// How it is shown.
    pub show: Show,
    /// The fields that it consists of.
    pub inner: &'static [Field],
}

impl Field {
    /// Returns a number of `bytes` bytes at `offset`.
    pub const fn number(name: &'static str, offset: u32, bytes: u32, show: Show) -> Self {
        Self { name, bit: offset * 8, bits: bytes * 8, repr: Repr::Little, show, inner: &[] }
    }

    /// Returns the field of a raw structure that has this type.
    #[allow(clippy::cast_possible_truncation)] // raw structures have a few KiB
    pub const fn raw<T: Raw>(name: &'static str, offset: u32, show: Show) -> Self {
        let bits = T::SIZE as u32 * 8;
        Self { name, bit: offset * 8, bits, repr: T::REPR, show, inner: T::FIELDS }
    }

    /// Returns bytes of any number at the end of an element that has `offset` bytes before them.
    pub const fn rest(name: &'static str, offset: u32, show: Show) -> Self {
        Self { name, bit: offset * 8, bits: 0, repr: Repr::Bytes, show, inner: &[] }
    }

    /// Returns the same field read as `repr`, unless it is bytes.
    #[must_use]
    pub fn read_as(self, repr: Repr) -> Self {
        if self.repr == Repr::Bytes { self } else { Self { repr, ..self } }
    }

    /// Returns whether the largest number that fits is at least `number`.
    pub fn holds(&self, number: u64) -> bool {
        self.bits >= 64 || number >> self.bits == 0
    }
}

/// Returns the number in `bits` bits at the position `bit`; bits after the end read as 0.
pub fn number_at(bytes: &[u8], bit: usize, bits: usize, repr: Repr) -> u64 {
    let byte = |at: usize| bytes.get(at).copied().map_or(0, u64::from);
    if repr == Repr::Big {
        return (0..bits / 8).fold(0, |number, at| number << 8 | byte(bit / 8 + at));
    }
    (0..bits.min(64)).fold(0, |number, at| {
        let place = bit + at;
        number | (byte(place / 8) >> (place % 8) & 1) << at
    })
}

/// Writes a number to `bits` bits at the position `bit`; bits after the end are dropped.
pub fn put_number(bytes: &mut [u8], bit: usize, bits: usize, repr: Repr, number: u64) {
    if repr == Repr::Big {
        for at in 0..bits / 8 {
            // Numbers have at most 8 bytes.
            let from_low = bits / 8 - 1 - at;
            if let Some(byte) = bytes.get_mut(bit / 8 + at) {
                *byte = number.to_le_bytes().get(from_low).copied().unwrap_or(0);
            }
        }
        return;
    }
    for at in 0..bits.min(64) {
        let place = bit + at;
        if let Some(byte) = bytes.get_mut(place / 8) {
            let mask = 1 << (place % 8);
            *byte = if number >> at & 1 == 1 { *byte | mask } else { *byte & !mask };
        }
    }
}

/// A field of a head.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    /// The name by which text and addresses call it; unique in the structure.
    pub label: String,
    /// The field.
    pub field: Field,
    /// The number that it has in a sound structure.
    pub usual: Option<u64>,
}

/// Something that a tail consists of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Element {
    /// Its name.
    pub name: &'static str,
    /// Its fields, at positions from its start; only the last may have any number of bytes.
    pub fields: Vec<Field>,
    /// Whether there may be several, which have indexes.
    pub repeats: bool,
}

/// A kind of structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Structure {
    /// Its name; unique among all formats.
    pub kind: &'static str,
    /// The fields of its fixed part.
    pub head: Vec<Part>,
    /// What may follow.
    pub tail: Vec<Element>,
    /// Structures begin at multiples of this many bytes.
    pub align: usize,
    /// The byte with which writers fill up to the next multiple.
    pub filler: u8,
}

impl Structure {
    /// Returns a structure with these fields in its head, of which those in `usual` have the same
    /// number in all sound ones.
    ///
    /// # Panics
    ///
    /// Panics if the fields do not tile the head.
    pub fn new(kind: &'static str, fields: &[Field], usual: &[(&str, u64)]) -> Self {
        let mut head = Vec::new();
        for field in fields {
            let group = (!field.inner.is_empty()).then_some(field.name);
            let inner = if group.is_some() { field.inner } else { core::slice::from_ref(field) };
            for one in inner {
                let shift = if group.is_some() { field.bit } else { 0 };
                let shares = |other: &Field| other.name == one.name;
                let label = match group {
                    Some(group) if fields.iter().any(shares) => format!("{group}.{}", one.name),
                    _ => one.name.to_owned(),
                };
                let known = usual.iter().find(|(name, _)| *name == label).map(|(_, value)| *value);
                let usual = known.or((one.show == Show::Zero).then_some(0));
                head.push(Part { label, field: Field { bit: one.bit + shift, ..*one }, usual });
            }
        }
        let end = head.iter().fold(0, |end, part| {
            assert!(
                part.field.bit == end,
                "{kind}: {} is not where the field before ends",
                part.label
            );
            end + part.field.bits
        });
        debug_assert!(end > 0 || fields.is_empty(), "{kind}: a head without bits");
        Self { kind, head, tail: Vec::new(), align: 1, filler: 0 }
    }

    /// Adds elements to the tail.
    #[must_use]
    pub fn with_tail(mut self, tail: &[(&'static str, &[Field], bool)]) -> Self {
        let elements = tail.iter().map(|(name, fields, repeats)| Element {
            name,
            fields: fields.to_vec(),
            repeats: *repeats,
        });
        self.tail.extend(elements);
        self
    }

    /// Sets where such structures begin, and what fills the bytes before the next.
    #[must_use]
    pub fn aligned(self, align: usize, filler: u8) -> Self {
        Self { align, filler, ..self }
    }

    /// Returns the number of bits of the fixed part.
    pub fn head_bits(&self) -> usize {
        self.head.last().map_or(0, |part| (part.field.bit + part.field.bits) as usize)
    }

    /// Returns the number of bytes of the fixed part, a started one included.
    pub fn head_len(&self) -> usize {
        self.head_bits().div_ceil(8)
    }

    /// Returns the field of the head with this label.
    pub fn part(&self, label: &str) -> Option<&Part> {
        self.head.iter().find(|part| part.label == label)
    }

    /// Returns the number in a field of the head, 0 for a field that does not exist.
    pub fn number(&self, label: &str, bytes: &[u8]) -> u64 {
        let field = self.part(label).map(|part| part.field);
        field.map_or(0, |f| number_at(bytes, f.bit as usize, f.bits as usize, f.repr))
    }

    /// Returns the element and the field that a label like `branch[3].lnum` names.
    pub fn tail_field(&self, label: &str) -> Option<(&Element, Field)> {
        let (name, field) = match label.rsplit_once('.') {
            Some((name, field)) => (name, field),
            None => (label, ""),
        };
        let (name, is_indexed) = match name.split_once('[') {
            Some((name, index)) => {
                index.strip_suffix(']')?.parse::<u32>().ok()?;
                (name, true)
            }
            None => (name, false),
        };
        let element = self.tail.iter().find(|one| one.name == name && one.repeats == is_indexed)?;
        let field = element.fields.iter().find(|one| one.name == field)?;
        Some((element, *field))
    }
}

/// A field in the tail of certain bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The index of its element in [`Structure::tail`].
    pub element: usize,
    /// Which of the elements of this kind it belongs to.
    pub index: u32,
    /// The field, at its position in the bytes and with its actual size.
    pub field: Field,
}

impl Placed {
    /// Returns its label.
    pub fn label(&self, structure: &Structure) -> String {
        let element = &structure.tail[self.element];
        let Field { name, .. } = self.field;
        let dot = if name.is_empty() { "" } else { "." };
        if element.repeats {
            return format!("{}[{}]{dot}{name}", element.name, self.index);
        }
        format!("{}{dot}{name}", element.name)
    }
}

/// Collects the parts of a tail one after the other.
#[derive(Debug)]
pub struct TailBuilder<'a> {
    structure: &'a Structure,
    placed: Vec<Placed>,
    bit: usize,
    bits: usize,
    counts: Vec<u32>,
}

impl<'a> TailBuilder<'a> {
    /// Starts after the head of `len` bytes.
    pub fn new(structure: &'a Structure, len: usize) -> Self {
        let (bit, bits) = (structure.head_bits(), len * 8);
        let counts = alloc::vec![0; structure.tail.len()];
        Self { structure, placed: Vec::new(), bit, bits, counts }
    }

    /// Returns the bytes after the current position.
    pub fn left(&self) -> usize {
        self.bits.saturating_sub(self.bit) / 8
    }

    /// Returns the current position in bytes.
    pub fn position(&self) -> usize {
        self.bit / 8
    }

    /// Adds one element if it fits, with `more` bytes in a last field of any number. Returns whether
    /// it did.
    pub fn add(&mut self, name: &str, more: usize) -> bool {
        let Some(element) = self.structure.tail.iter().position(|one| one.name == name) else {
            return false;
        };
        let fields = &self.structure.tail[element].fields;
        let sizes = fields.iter().map(|field| match field.bits {
            0 => more * 8,
            bits => bits as usize,
        });
        if sizes.clone().sum::<usize>() > self.bits.saturating_sub(self.bit) {
            return false;
        }
        let index = self.counts[element];
        self.counts[element] += 1;
        for (field, bits) in fields.iter().zip(sizes) {
            if bits > 0 {
                // A structure has less than 512 MiB.
                let place = |bits: usize| u32::try_from(bits).unwrap_or(u32::MAX);
                let field = Field { bit: place(self.bit), bits: place(bits), ..*field };
                self.placed.push(Placed { element, index, field });
                self.bit += bits;
            }
        }
        true
    }

    /// Ends the tail with the element `rest`, which takes what is left.
    pub fn finish(mut self) -> Vec<Placed> {
        let left = self.left();
        if left > 0 {
            self.add("rest", left);
        }
        self.placed
    }
}

/// The structures of a format.
pub trait Structures {
    /// Returns all kinds.
    fn structures(&self) -> &[Structure];

    /// Returns the kind and the exact length of the structure that starts the bytes, which reach to
    /// the end of a block; `None` if none does. Its checksums need not be right.
    fn recognise(&self, bytes: &[u8]) -> Option<(usize, usize)>;

    /// Returns the fields of the tail of a structure of `kind` that has exactly these bytes.
    fn split(&self, kind: usize, bytes: &[u8]) -> Vec<Placed>;

    /// Returns the right value of the checksum in the field `label` of the head.
    fn sum(&self, kind: usize, label: &str, bytes: &[u8]) -> u64;

    /// Returns whether all checksums of a structure are right.
    fn sums_hold(&self, kind: usize, bytes: &[u8]) -> bool {
        let Some(structure) = self.structures().get(kind) else { return false };
        let mut sums = structure.head.iter().filter(|part| part.field.show == Show::Sum);
        sums.all(|part| structure.number(&part.label, bytes) == self.sum(kind, &part.label, bytes))
    }

    /// Writes all checksums of a structure but those that `keep` names.
    fn seal(&self, kind: usize, bytes: &mut [u8], keep: &dyn Fn(&str) -> bool) {
        let Some(structure) = self.structures().get(kind) else { return };
        // In the order of the head, since later checksums cover earlier ones.
        for part in structure.head.iter().filter(|part| part.field.show == Show::Sum) {
            if !keep(&part.label) {
                let Field { bit, bits, repr, .. } = part.field;
                let value = self.sum(kind, &part.label, bytes);
                put_number(bytes, bit as usize, bits as usize, repr, value);
            }
        }
    }
}

/// The element for bytes that no field explains.
pub const REST: (&str, &[Field], bool) = ("rest", &[Field::rest("", 0, Show::Bytes)], false);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for (bit, bits, repr) in
            [(0, 8, Repr::Little), (3, 13, Repr::Little), (8, 32, Repr::Big), (8, 64, Repr::Little)]
        {
            for number in [0, 1, 0x55, 0x7F] {
                let mut bytes = [0xAA; 10];
                put_number(&mut bytes, bit, bits, repr, number);
                assert_eq!(number_at(&bytes, bit, bits, repr), number, "{bit} {bits}");
                let before = number_at(&[0xAA; 10], 0, bit, Repr::Little);
                assert_eq!(number_at(&bytes, 0, bit, Repr::Little), before);
            }
        }
        assert_eq!(number_at(&[1, 2], 0, 32, Repr::Little), 0x201);
    }

    #[test]
    fn labels_name_fields() {
        let fields = [Field::number("a", 0, 4, Show::Number), Field::number("b", 4, 2, Show::Hex)];
        let structure = Structure::new("x", &fields, &[("b", 7)]).with_tail(&[
            (
                "pair",
                &[Field::number("left", 0, 1, Show::Number), Field::rest("name", 1, Show::Text)],
                true,
            ),
            REST,
        ]);
        let mut tail = TailBuilder::new(&structure, 12);
        assert!(tail.add("pair", 2) && tail.add("pair", 0) && !tail.add("pair", 9));
        let placed = tail.finish();
        let labels: Vec<String> = placed.iter().map(|one| one.label(&structure)).collect();
        assert_eq!(labels, ["pair[0].left", "pair[0].name", "pair[1].left", "rest"]);
        for label in &labels {
            assert!(structure.tail_field(label).is_some(), "{label}");
        }
        assert!(structure.tail_field("pair.left").is_none());
        assert_eq!(structure.part("b").unwrap().usual, Some(7));
        assert_eq!(structure.head_len(), 6);
    }
}
