//! A small client, and a disk in memory.

use eraseblock_nbd::{Disk, serve};
use std::io::{self, Cursor};
use std::sync::Mutex;

/// A disk in memory that notes what is done to it; sector 7 is broken.
pub(crate) struct Memory {
    pub(crate) bytes: Mutex<Vec<u8>>,
    pub(crate) done: Mutex<Vec<String>>,
}

impl Memory {
    pub(crate) fn new(size: usize) -> Self {
        Self { bytes: Mutex::new(vec![0; size]), done: Mutex::default() }
    }

    fn note(&self, what: String) {
        self.done.lock().unwrap().push(what);
    }
}

impl Disk for Memory {
    fn size(&self) -> u64 {
        self.bytes.lock().unwrap().len() as u64
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let at = offset as usize;
        if (at..at + buf.len()).contains(&(7 * 512)) {
            return Err(io::Error::other("broken"));
        }
        buf.copy_from_slice(&self.bytes.lock().unwrap()[at..at + buf.len()]);
        self.note(format!("read {at} {}", buf.len()));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8], fua: bool) -> io::Result<()> {
        let at = offset as usize;
        self.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        self.note(format!("write {at} {} {fua}", data.len()));
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.note("flush".to_owned());
        Ok(())
    }

    fn trim(&self, offset: u64, len: u64) -> io::Result<()> {
        self.note(format!("trim {offset} {len}"));
        Ok(())
    }
}

/// The bytes of an option.
pub(crate) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

/// The bytes of a request.
pub(crate) fn request(kind: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = 0x2560_9513_u32.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(kind.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// GO with the empty name, asking for block sizes.
pub(crate) fn go() -> Vec<u8> {
    [&3_u32.to_be_bytes()[..], &option(7, &[0, 0, 0, 0, 0, 1, 0, 3])].concat()
}

/// Sends everything and returns how the server ends and what it sent.
pub(crate) fn talk(disk: &Memory, sent: &[u8]) -> (io::Result<()>, Vec<u8>) {
    let mut output = Vec::new();
    let outcome = serve(&mut Cursor::new(sent), &mut output, disk);
    (outcome, output)
}

/// Bytes of the greeting and of the answers to [`go`].
pub(crate) const GREETING: usize = 18 + (20 + 12) + (20 + 14) + 20;

/// The error numbers and cookies of replies without data, after [`go`].
pub(crate) fn replies(output: &[u8]) -> Vec<(u32, u64)> {
    output[GREETING..]
        .chunks(16)
        .map(|reply| {
            assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
            let error = u32::from_be_bytes(reply[4..8].try_into().unwrap());
            (error, u64::from_be_bytes(reply[8..].try_into().unwrap()))
        })
        .collect()
}
