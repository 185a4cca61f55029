//! Records of the image as it is now, and their fields.

use super::{Debugger, Refusal, usage};
use crate::walk::{Family, What, walk_block};
use eraseblock_base::field::{Field, Placed, Structures};
use eraseblock_mtd::ReadAt;

/// A record with its own bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) segment: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) what: What,
    /// Its bytes; empty for a run.
    pub(super) bytes: Vec<u8>,
}

impl Debugger {
    /// Returns the record at a byte.
    pub(super) fn record(&self, at: u64) -> Result<Found, Refusal> {
        let mut found = None;
        self.records(at, &mut |record| {
            if (record.offset..record.offset + record.len).contains(&at) {
                found = Some(record);
            }
        })?;
        found.map_or_else(|| usage(format!("byte {at} is not in the image")), Ok)
    }

    /// Hands over all records of the block that a byte is in.
    pub(super) fn records(&self, at: u64, sink: &mut dyn FnMut(Found)) -> Result<(), Refusal> {
        let segments = &self.plan.segments;
        let Some(index) = segments.iter().position(|one| (one.offset..one.end()).contains(&at))
        else {
            return Ok(());
        };
        walk_block(self.image.as_ref(), &self.plan, &self.tables, index, at, &mut |record| {
            sink(Found {
                segment: record.segment,
                offset: record.offset,
                len: record.len,
                what: record.what,
                bytes: record.bytes.to_vec(),
            });
            Ok(())
        })?;
        Ok(())
    }

    /// Returns the fields, the kind and the own bytes of a structure.
    pub(super) fn structure<'a>(
        &'a self,
        found: &'a Found,
    ) -> Option<(&'a dyn Structures, usize, &'a [u8])> {
        let What::Structure { family, kind, len } = found.what else { return None };
        let fields = self.tables.of(&self.plan, found.segment, family)?;
        Some((fields, kind, found.bytes.get(..len)?))
    }

    /// Returns the name of the kind of a record.
    pub(super) fn kind(&self, found: &Found) -> &'static str {
        match self.structure(found) {
            Some((fields, kind, _)) => fields.structures()[kind].kind,
            None => "bytes",
        }
    }

    /// Returns the field of a structure with this label.
    pub(super) fn field(&self, found: &Found, label: &str) -> Result<Field, Refusal> {
        let Some((fields, kind, own)) = self.structure(found) else {
            let place = self.place(found.offset);
            return usage(format!("{place} is no structure, so it has no field `{label}`"));
        };
        let structure = &fields.structures()[kind];
        let tail = fields.split(kind, own);
        let in_tail = |placed: &&Placed| placed.label(structure) == label;
        let field = structure.part(label).map(|part| part.field);
        let found = field.or_else(|| tail.iter().find(in_tail).map(|placed| placed.field));
        let Some(field) = found else {
            let head = structure.head.iter().map(|part| part.label.clone());
            let tail = tail.iter().map(|placed| placed.label(structure));
            let all: Vec<String> = head.chain(tail).take(40).collect();
            return usage(format!("{} has no field `{label}`: {}", structure.kind, all.join(", ")));
        };
        Ok(field)
    }

    /// Returns the number in a field of a structure.
    pub(super) fn number(&self, found: &Found, label: &str) -> Result<u64, Refusal> {
        let field = self.field(found, label)?;
        let (bit, bits) = (field.bit as usize, field.bits as usize);
        Ok(eraseblock_base::field::number_at(&found.bytes, bit, bits, field.repr))
    }

    /// Returns the bytes that the checksums of a structure cover: its own, or as many as its field
    /// `len` says now, up to the end of the block.
    pub(super) fn covered(&self, found: &Found, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
        let own = bytes.to_vec();
        let What::Structure { family: Family::Ubifs, kind, .. } = found.what else {
            return Ok(own);
        };
        let Some(fields) = self.tables.of(&self.plan, found.segment, Family::Ubifs) else {
            return Ok(own);
        };
        let len = fields.structures()[kind].number("len", bytes) as usize;
        if len <= own.len() {
            return Ok(own[..len.max(fields.structures()[kind].head_len().min(own.len()))].to_vec());
        }
        let end = self.block_end(found.offset);
        let more = (len as u64).min(end - found.offset) as usize;
        let mut all = own;
        let from = all.len();
        if more > from {
            all.resize(more, 0);
            self.image.read_exact_at(&mut all[from..], found.offset + from as u64)?;
        }
        Ok(all)
    }

    /// Returns where the block of a byte ends, or the image.
    pub(super) fn block_end(&self, at: u64) -> u64 {
        let segments = &self.plan.segments;
        let segment = segments.iter().find(|one| (one.offset..one.end()).contains(&at));
        let Some(segment) = segment else { return self.plan.size };
        match segment.format.block_size().map(u64::from).filter(|size| *size > 0) {
            Some(size) => {
                let own = at - segment.offset;
                (segment.offset + own - own % size + size).min(segment.end())
            }
            None => segment.end(),
        }
    }
}
