//! Undo files of flash: what the eraseblocks that change held before. The format is that of files, with
//! byte addresses as places and whole blocks in records; the checksum in the header is that of all other
//! blocks.
//!
//! # Invariants
//! 1. The undo file is on the disk before the first block is erased.
//! 2. After a cut at any moment, [`undo_blocks`] restores every block that the repair touched, with any
//!    content; it refuses if any other block has changed.

use super::{DONE, Header, KIND_BLOCKS, PIECE, Record, Run, SECTOR, UndoReport, sync_folder, tool};
use crate::error::RepairError;
use crate::flash::{self, Blocks};
use eraseblock_base::Peb;
use eraseblock_base::crc::crc32;
use eraseblock_mtd::Mtd;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

/// Replaces eraseblocks of a flash; first writes what they hold to a new file at `undo`.
///
/// # Errors
///
/// Fails if a file exists at `undo`, or if the flash or the file cannot be read or written.
pub fn replace_blocks(
    device: &dyn Mtd,
    blocks: &Blocks,
    undo: &Path,
) -> Result<UndoReport, RepairError> {
    let size = device.geometry().peb_size() as usize;
    let pieces = size.div_ceil(PIECE);
    let changed: BTreeSet<u32> = blocks.keys().copied().collect();
    let file = File::options().write(true).create_new(true).open(undo)?;
    let mut out = BufWriter::new(&file);
    let header = Header {
        kind: KIND_BLOCKS,
        tool: tool(),
        size: size as u64,
        new_size: device.geometry().peb_count().into(),
        sha: sha_of_others(device, &changed)?,
        records: (blocks.len() * pieces) as u64,
    };
    out.write_all(&header.bytes())?;
    for (peb, bytes) in blocks {
        let old = read(device, *peb)?;
        let mut new = bytes.clone();
        new.resize(size, 0xFF);
        let start = device.geometry().address_of(Peb::new(*peb));
        for (number, (old, new)) in old.chunks(PIECE).zip(new.chunks(PIECE)).enumerate() {
            let place = start + (number * PIECE) as u64;
            let sums = new.chunks(SECTOR).map(crc32).collect();
            let record = Record { place, new_len: new.len() as u32, sums, old: old.to_vec() };
            out.write_all(&record.bytes()?)?;
        }
    }
    out.flush()?;
    drop(out);
    file.sync_all()?;
    sync_folder(undo)?;
    // From here on the flash changes.
    flash::write(device, blocks)?;
    let mut trailer = DONE.to_vec();
    trailer.extend(sha_of(device, &changed)?);
    trailer.extend(crc32(&trailer).to_le_bytes());
    (&file).write_all(&trailer)?;
    file.sync_all()?;
    Ok(UndoReport {
        places: blocks.len() as u64,
        bytes: (blocks.len() * size) as u64,
        size: size as u64,
    })
}

/// Restores the eraseblocks of a flash that the undo file holds, or only verifies that it could.
///
/// # Errors
///
/// Fails if the undo file is damaged or belongs to another flash, or if another eraseblock has changed
/// since; then nothing is written.
pub fn undo_blocks(undo: &File, device: &dyn Mtd, run: Run) -> Result<UndoReport, RepairError> {
    let mut reader = BufReader::new(undo);
    let header = Header::read(&mut reader)?;
    let geometry = device.geometry();
    let size = geometry.peb_size() as usize;
    let is_ours = header.kind == KIND_BLOCKS
        && header.size == size as u64
        && header.new_size == u64::from(geometry.peb_count());
    if !is_ours {
        let message = "the undo file belongs to another flash";
        return Err(RepairError::Undo(message.to_owned()));
    }
    let mut old = Blocks::new();
    for _ in 0..header.records {
        let record = Record::read(&mut reader)?;
        let (peb, offset) = (record.place / size as u64, (record.place % size as u64) as usize);
        if peb >= header.new_size || offset + record.old.len() > size {
            let message = "the undo file is damaged: a place behind the end of the flash";
            return Err(RepairError::Undo(message.to_owned()));
        }
        let block = old.entry(peb as u32).or_insert_with(|| vec![0xFF; size]);
        block[offset..offset + record.old.len()].copy_from_slice(&record.old);
    }
    if sha_of_others(device, &old.keys().copied().collect())? != header.sha {
        let message = "an eraseblock that the repair did not touch has changed since";
        return Err(RepairError::Undo(message.to_owned()));
    }
    let mut report = UndoReport { size: size as u64, ..UndoReport::default() };
    for (peb, bytes) in &old {
        if read(device, *peb)? != *bytes {
            report.places += 1;
            report.bytes += size as u64;
        }
    }
    if run == Run::Real {
        // A block whose erasure was cut short may read as before once, and decay: all are written again.
        flash::write(device, &old)?;
    }
    Ok(report)
}

/// Reads an eraseblock; what cannot be read is zeros.
fn read(device: &dyn Mtd, peb: u32) -> Result<Vec<u8>, RepairError> {
    let mut bytes = vec![0; device.geometry().peb_size() as usize];
    device.read(device.geometry().address_of(Peb::new(peb)), &mut bytes)?;
    Ok(bytes)
}

/// Returns the checksum of the eraseblocks that do not change.
fn sha_of_others(device: &dyn Mtd, changed: &BTreeSet<u32>) -> Result<[u8; 32], RepairError> {
    let all = 0..device.geometry().peb_count();
    sha_of(device, &all.filter(|peb| !changed.contains(peb)).collect())
}

fn sha_of(device: &dyn Mtd, blocks: &BTreeSet<u32>) -> Result<[u8; 32], RepairError> {
    let mut digest = Sha256::new();
    for peb in blocks {
        if !device.is_bad(Peb::new(*peb))? {
            digest.update(read(device, *peb)?);
        }
    }
    Ok(digest.finalize().into())
}
