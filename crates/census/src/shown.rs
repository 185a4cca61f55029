//! All fields of a structure, with the bits that each one has: for eyes, not to be assembled again.

use crate::segment::Plan;
use crate::value;
use crate::walk::{Record, Tables, What};
use eraseblock_base::field::{Field, Show, number_at};

/// A field of a structure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// Its name, unique in the structure.
    pub label: String,
    /// Its value as text.
    pub value: String,
    /// Its first bit in the structure.
    pub bit: u32,
    /// The number of its bits.
    pub bits: u32,
    /// The value that a checksum should have, if it is another one.
    pub expected: Option<String>,
}

/// Returns the fields of the structure that a record is; none for other records. The bytes after the
/// structure belong to no field.
pub fn fields(plan: &Plan, tables: &Tables, record: &Record<'_>) -> Vec<Shown> {
    let What::Structure { family, kind, len } = record.what else { return Vec::new() };
    let Some(fields) = tables.of(plan, record.segment, family) else { return Vec::new() };
    let node = &record.bytes[..len.min(record.bytes.len())];
    let structure = &fields.structures()[kind];
    let mut all = Vec::new();
    for part in &structure.head {
        let Field { bit, bits, repr, show, .. } = part.field;
        let value = match show {
            Show::Text => value::quoted(value::trimmed(value::own(&part.field, node))),
            _ => value::field(&part.field, node),
        };
        let right = (show == Show::Sum).then(|| fields.sum(kind, &part.label, node));
        let stored = number_at(node, bit as usize, bits as usize, repr);
        let expected = right.filter(|right| *right != stored);
        let expected = expected.map(|right| value::number(show, right));
        all.push(Shown { label: part.label.clone(), value, bit, bits, expected });
    }
    for placed in fields.split(kind, node) {
        let Field { bit, bits, .. } = placed.field;
        let (label, value) = (placed.label(structure), value::field(&placed.field, node));
        all.push(Shown { label, value, bit, bits, expected: None });
    }
    all
}
