//! Transmission: requests and their replies.

use crate::wire::{
    EINVAL, EIO, ENOSPC, EOVERFLOW, REPLY_MAGIC, REQUEST_MAGIC, SECTOR, broken, get_u16, get_u32,
    get_u64,
};
use crate::{Disk, MAX_REQUEST};
use std::io::{self, Read, Write};

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;

const FUA: u16 = 1;

struct Request {
    flags: u16,
    kind: u16,
    cookie: u64,
    offset: u64,
    length: u32,
}

/// Carries out requests until the client disconnects.
pub(crate) fn run(
    input: &mut impl Read,
    output: &mut impl Write,
    disk: &dyn Disk,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let Some(request) = next(input)? else { return Ok(()) };
        // The length of other requests is no memory: a trim may be larger.
        let has_data = request.kind == READ || request.kind == WRITE;
        if has_data && request.length > MAX_REQUEST && request.kind == WRITE {
            let length = request.length;
            return Err(broken(format!("write of {length} bytes, expected at most {MAX_REQUEST}")));
        }
        buffer.clear();
        if request.kind == WRITE {
            buffer.resize(request.length as usize, 0);
            input.read_exact(&mut buffer)?;
        }
        let error = match check(&request, disk.size()) {
            Ok(()) => carry_out(&request, &mut buffer, disk),
            Err(error) => error,
        };
        output.write_all(&REPLY_MAGIC.to_be_bytes())?;
        output.write_all(&error.to_be_bytes())?;
        output.write_all(&request.cookie.to_be_bytes())?;
        if request.kind == READ && error == 0 {
            output.write_all(&buffer)?;
        }
        output.flush()?;
    }
}

/// Reads the next request; `None` at its end: the client may leave without a word.
fn next(input: &mut impl Read) -> io::Result<Option<Request>> {
    let magic = match get_u32(input) {
        Ok(magic) => magic,
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    };
    if magic != REQUEST_MAGIC {
        return Err(broken(format!("request magic {magic:#x}, expected {REQUEST_MAGIC:#x}")));
    }
    let request = Request {
        flags: get_u16(input)?,
        kind: get_u16(input)?,
        cookie: get_u64(input)?,
        offset: get_u64(input)?,
        length: get_u32(input)?,
    };
    Ok((request.kind != DISCONNECT).then_some(request))
}

/// Returns the error number of a request that must not be carried out.
fn check(request: &Request, size: u64) -> Result<(), u32> {
    if request.flags & !FUA != 0 || !matches!(request.kind, READ | WRITE | FLUSH | TRIM) {
        return Err(EINVAL);
    }
    if request.kind == FLUSH {
        let is_plain = request.offset == 0 && request.length == 0;
        return if is_plain { Ok(()) } else { Err(EINVAL) };
    }
    let is_aligned = request.offset.is_multiple_of(SECTOR.into())
        && request.length.is_multiple_of(SECTOR)
        && request.length > 0;
    let fits = request.offset.checked_add(request.length.into()).is_some_and(|end| end <= size);
    match (is_aligned, fits, request.kind) {
        (true, true, READ) if request.length > MAX_REQUEST => Err(EOVERFLOW),
        (true, true, _) => Ok(()),
        (true, false, WRITE) => Err(ENOSPC),
        _ => Err(EINVAL),
    }
}

/// Carries a request out and returns its error number, 0 on success.
fn carry_out(request: &Request, buffer: &mut Vec<u8>, disk: &dyn Disk) -> u32 {
    let (offset, length) = (request.offset, request.length);
    let fua = request.flags & FUA != 0;
    let outcome = match request.kind {
        READ => {
            buffer.resize(length as usize, 0);
            disk.read(offset, buffer)
        }
        WRITE => disk.write(offset, buffer, fua),
        FLUSH => disk.flush(),
        // The trim is a hint, but with FUA the client waits for what it did.
        _ => {
            disk.trim(offset, length.into()).and_then(|()| if fua { disk.flush() } else { Ok(()) })
        }
    };
    outcome.map_or(EIO, |()| 0)
}
