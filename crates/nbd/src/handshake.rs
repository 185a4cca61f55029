//! The handshake: the client asks for options until it enters transmission or leaves.

use crate::MAX_REQUEST;
use crate::wire::{
    EXPORT_FLAGS, FIXED_NEWSTYLE, INIT_MAGIC, NO_ZEROES, OPTION_MAGIC, OPTION_REPLY_MAGIC, SECTOR,
    broken, get_u16, get_u32, get_u64,
};
use std::io::{self, Read, Write};

/// How a handshake ends.
pub(crate) enum Outcome {
    Transmits,
    Leaves,
}

/// The longest data of an option: a name of 4096 bytes and a list of requests.
const MAX_OPTION: u32 = 16 << 10;
/// More options than any client sends; ends a client that never stops asking.
const MAX_OPTIONS: u32 = 1000;

const EXPORT_NAME: u32 = 1;
const ABORT: u32 = 2;
const LIST: u32 = 3;
const INFO: u32 = 6;
const GO: u32 = 7;

const ACK: u32 = 1;
const REPLY_SERVER: u32 = 2;
const REPLY_INFO: u32 = 3;
const UNSUPPORTED: u32 = 0x8000_0001;
const INVALID: u32 = 0x8000_0003;

const INFO_EXPORT: u16 = 0;
const INFO_BLOCK_SIZE: u16 = 3;

/// The block size that a client should prefer.
const PREFERRED: u32 = 4096;

/// Negotiates with a client. There is one export; it has every name.
pub(crate) fn negotiate(
    input: &mut impl Read,
    output: &mut impl Write,
    size: u64,
) -> io::Result<Outcome> {
    output.write_all(&INIT_MAGIC.to_be_bytes())?;
    output.write_all(&OPTION_MAGIC.to_be_bytes())?;
    output.write_all(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes())?;
    output.flush()?;
    let flags = get_u32(input)?;
    if flags & !u32::from(FIXED_NEWSTYLE | NO_ZEROES) != 0 {
        return Err(broken(format!("client flags {flags:#x}, expected at most 0x3")));
    }
    for _ in 0..MAX_OPTIONS {
        let magic = get_u64(input)?;
        if magic != OPTION_MAGIC {
            return Err(broken(format!("option magic {magic:#x}, expected {OPTION_MAGIC:#x}")));
        }
        let (option, length) = (get_u32(input)?, get_u32(input)?);
        if length > MAX_OPTION {
            return Err(broken(format!("option of {length} bytes, expected at most {MAX_OPTION}")));
        }
        let mut data = vec![0; length as usize];
        input.read_exact(&mut data)?;
        if option == EXPORT_NAME {
            output.write_all(&size.to_be_bytes())?;
            output.write_all(&EXPORT_FLAGS.to_be_bytes())?;
            if flags & u32::from(NO_ZEROES) == 0 {
                output.write_all(&[0; 124])?;
            }
            output.flush()?;
            return Ok(Outcome::Transmits);
        }
        let outcome = answer(output, option, &data, size)?;
        output.flush()?;
        if let Some(outcome) = outcome {
            return Ok(outcome);
        }
    }
    Err(broken(format!("more than {MAX_OPTIONS} options")))
}

fn answer(
    output: &mut impl Write,
    option: u32,
    data: &[u8],
    size: u64,
) -> io::Result<Option<Outcome>> {
    match option {
        ABORT => {
            reply(output, option, ACK, &[])?;
            return Ok(Some(Outcome::Leaves));
        }
        LIST if data.is_empty() => {
            reply(output, option, REPLY_SERVER, &0_u32.to_be_bytes())?;
            reply(output, option, ACK, &[])?;
        }
        INFO | GO => {
            let Some(requests) = requests(data) else {
                reply(output, option, INVALID, &[])?;
                return Ok(None);
            };
            let mut export = INFO_EXPORT.to_be_bytes().to_vec();
            export.extend(size.to_be_bytes());
            export.extend(EXPORT_FLAGS.to_be_bytes());
            reply(output, option, REPLY_INFO, &export)?;
            if requests.contains(&INFO_BLOCK_SIZE) {
                let mut sizes = INFO_BLOCK_SIZE.to_be_bytes().to_vec();
                sizes.extend([SECTOR, PREFERRED, MAX_REQUEST].map(u32::to_be_bytes).concat());
                reply(output, option, REPLY_INFO, &sizes)?;
            }
            reply(output, option, ACK, &[])?;
            return Ok((option == GO).then_some(Outcome::Transmits));
        }
        LIST => reply(output, option, INVALID, &[])?,
        _ => reply(output, option, UNSUPPORTED, &[])?,
    }
    Ok(None)
}

/// Returns the kinds of information that an INFO or GO asks for, or `None` if it is malformed.
fn requests(mut data: &[u8]) -> Option<Vec<u16>> {
    let name = get_u32(&mut data).ok()?;
    data = data.get(name as usize..)?;
    let count = get_u16(&mut data).ok()?;
    let requests: Vec<u16> =
        data.chunks_exact(2).map(|kind| u16::from_be_bytes([kind[0], kind[1]])).collect();
    (data.len() == 2 * usize::from(count)).then_some(requests)
}

fn reply(output: &mut impl Write, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    output.write_all(&OPTION_REPLY_MAGIC.to_be_bytes())?;
    output.write_all(&option.to_be_bytes())?;
    output.write_all(&kind.to_be_bytes())?;
    output.write_all(&u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes())?;
    output.write_all(data)
}
