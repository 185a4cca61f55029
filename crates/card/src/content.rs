//! The bytes of a card: in memory or in the card's file. What was never written is erased.

use rustix::fs::{FallocateFlags, fallocate};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a part of a content in memory.
const CHUNK: usize = 64 << 10;

/// The bytes of a card.
#[derive(Debug)]
pub(crate) struct Content {
    store: Store,
    /// Erased bytes read as 0xFF: everything is stored inverted, so that holes are erased bytes.
    inverted: bool,
}

#[derive(Debug)]
enum Store {
    Memory(BTreeMap<u64, Vec<u8>>),
    File { file: File, start: u64 },
}

impl Content {
    pub(crate) fn in_memory(inverted: bool) -> Self {
        Self { store: Store::Memory(BTreeMap::new()), inverted }
    }

    pub(crate) fn in_file(file: File, start: u64, inverted: bool) -> Self {
        Self { store: Store::File { file, start }, inverted }
    }

    pub(crate) fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match &self.store {
            Store::Memory(chunks) => {
                for (number, from, part) in parts(offset, buf.len()) {
                    let buf = &mut buf[part];
                    match chunks.get(&number) {
                        Some(chunk) => buf.copy_from_slice(&chunk[from..from + buf.len()]),
                        None => buf.fill(0),
                    }
                }
            }
            Store::File { file, start } => file.read_exact_at(buf, start + offset)?,
        }
        if self.inverted {
            for byte in buf {
                *byte = !*byte;
            }
        }
        Ok(())
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        if self.inverted {
            let data: Vec<u8> = data.iter().map(|byte| !byte).collect();
            return self.store(offset, &data);
        }
        self.store(offset, data)
    }

    fn store(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        match &mut self.store {
            Store::Memory(chunks) => {
                for (number, from, part) in parts(offset, data.len()) {
                    let data = &data[part];
                    let chunk = chunks.entry(number).or_insert_with(|| vec![0; CHUNK]);
                    chunk[from..from + data.len()].copy_from_slice(data);
                }
                Ok(())
            }
            Store::File { file, start } => file.write_all_at(data, *start + offset),
        }
    }

    /// Makes a range read as erased.
    pub(crate) fn erase(&mut self, offset: u64, len: u64) -> io::Result<()> {
        match &mut self.store {
            Store::Memory(_) => self.fill(offset, len),
            Store::File { file, start } => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                match fallocate(&*file, flags, *start + offset, len) {
                    Ok(()) => Ok(()),
                    // A host without holes gets zeros.
                    Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
                        self.fill(offset, len)
                    }
                    Err(errno) => Err(errno.into()),
                }
            }
        }
    }

    fn fill(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let zeros = vec![0; CHUNK];
        let mut at = offset;
        while at < offset + len {
            let part = usize::try_from(offset + len - at).unwrap_or(CHUNK).min(CHUNK);
            self.store(at, &zeros[..part])?;
            at += part as u64;
        }
        Ok(())
    }
}

/// The parts of a range by chunk: its number, the first byte in it, and the range of the buffer.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        let (number, from) = (at / CHUNK as u64, at % CHUNK as u64);
        let from = usize::try_from(from).unwrap_or(CHUNK);
        let part = done..len.min(done + CHUNK - from);
        done = part.end;
        Some((number, from, part))
    })
}
