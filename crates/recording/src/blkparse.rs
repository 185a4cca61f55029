//! Recordings of block devices: the text that `blkparse` prints with its usual format.
//!
//! A device becomes a file that is named by its numbers, such as `8,0`. Requests count when they are
//! queued (action `Q`): later ones are merged, split and retried.

use crate::named::Named;
use crate::op::{Kind, Op, Step};
use std::collections::VecDeque;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// A recording of `blkparse` that is being read.
#[derive(Debug)]
pub(crate) struct Import {
    named: Named,
    pub(crate) left_out: u64,
}

/// A queued request.
struct Request<'a> {
    device: &'a str,
    /// Nanoseconds since the start.
    at: u64,
    process: u64,
    /// What it is: `R`, `W`, `D` (discard), with `F` before for a flush, and after for forced access.
    kind: &'a str,
    /// The first sector and the number of sectors; none in a flush alone.
    range: Option<(u64, u64)>,
}

impl Import {
    /// Starts, if this is the first line of such a recording.
    pub(crate) fn begin(first: &str) -> Option<Self> {
        let mut words = first.split_ascii_whitespace();
        let (major, minor) = words.next()?.split_once(',')?;
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if ![major, minor, words.next()?, words.next()?].into_iter().all(is_number) {
            return None;
        }
        nanoseconds(words.next()?)?;
        Some(Self { named: Named::new(b"/"), left_out: 0 })
    }

    /// Reads a line. Lines without a queued request, and the summary at the end, are no steps.
    pub(crate) fn line(&mut self, line: &str, steps: &mut VecDeque<Step>) {
        let Some(request) = Request::parse(line) else { return };
        let Request { at, process, .. } = request;
        let mut emit = |op| steps.push_back(Step { at, thread: process, op });
        let file = self.named.file(request.device.as_bytes(), Kind::File, &mut emit);
        let (flushes, rest) = match request.kind.strip_prefix('F') {
            Some(rest) => (true, rest),
            None => (false, request.kind),
        };
        if flushes {
            emit(Op::SyncFile { file });
        }
        let Some((sector, count)) = request.range.filter(|(_, count)| *count > 0) else { return };
        let (offset, len) = (sector.saturating_mul(SECTOR), count.saturating_mul(SECTOR));
        match rest.as_bytes().first() {
            Some(b'R') => emit(Op::Read { file, offset, len }),
            Some(b'W') => {
                emit(Op::Write { file, offset, len, dense: 100 });
                if rest[1..].contains('F') {
                    emit(Op::SyncFile { file });
                }
            }
            _ => self.left_out += 1,
        }
    }
}

impl<'a> Request<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let [device, _, _, time, process, "Q", kind, rest @ ..] = &words[..] else { return None };
        let range = match rest {
            [sector, "+", count, ..] => Some((sector.parse().ok()?, count.parse().ok()?)),
            _ => None,
        };
        let (at, process) = (nanoseconds(time)?, process.parse().ok()?);
        Some(Self { device, at, process, kind, range })
    }
}

/// Returns a time in seconds with nine places as nanoseconds.
fn nanoseconds(time: &str) -> Option<u64> {
    let (seconds, rest) = time.split_once('.')?;
    let rest: u64 = (rest.len() == 9).then(|| rest.parse().ok())??;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(rest)
}
