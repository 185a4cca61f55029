//! Written pages of a dump, picked evenly: detection looks at these alone, so that its memory is
//! bounded for dumps of any size.

use eraseblock_mtd::ReadAt;
use std::io;

/// Pages that are looked at to find the written ones.
const LOOKED_AT: u64 = 1 << 18;
/// Pages that are kept, and their bytes.
const KEPT: usize = 1024;
const KEPT_BYTES: usize = 4 << 20;
/// Written pages at the start of a dump, where boot blocks are.
const FIRST: usize = 192;
/// Bytes read at once.
const BATCH: usize = 1 << 20;

/// A page of a dump.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Its number.
    pub(crate) number: u64,
    /// Its raw bytes.
    pub(crate) raw: Vec<u8>,
}

/// Pages of one shape.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Pages spread evenly over the written ones.
    pub(crate) spread: Vec<Page>,
    /// The first written pages.
    pub(crate) first: Vec<Page>,
    /// The numbers of all written pages that were seen.
    pub(crate) written: Vec<u64>,
}

impl Sample {
    /// Picks written pages of `raw` bytes.
    pub(crate) fn take(dump: &dyn ReadAt, raw: usize) -> io::Result<Self> {
        let count = dump.size()? / raw as u64;
        let mut written = Vec::new();
        let every = count.div_ceil(LOOKED_AT).max(1);
        if every == 1 {
            Self::scan(dump, raw, count, &mut written)?;
        } else {
            let mut page = vec![0; raw];
            for number in (0..count).step_by(usize::try_from(every).unwrap_or(1)) {
                dump.read_exact_at(&mut page, number * raw as u64)?;
                if is_written(&page) {
                    written.push(number);
                }
            }
        }
        let read = |number: u64| {
            let mut bytes = vec![0; raw];
            dump.read_exact_at(&mut bytes, number * raw as u64)?;
            Ok(Page { number, raw: bytes })
        };
        let step = written.len().div_ceil(KEPT.min(KEPT_BYTES / raw)).max(1);
        let spread = written.iter().step_by(step).map(|number| read(*number));
        let spread = spread.collect::<io::Result<_>>()?;
        let first = written.iter().take(FIRST).map(|number| read(*number));
        let first = first.collect::<io::Result<_>>()?;
        Ok(Self { spread, first, written })
    }

    fn scan(dump: &dyn ReadAt, raw: usize, count: u64, written: &mut Vec<u64>) -> io::Result<()> {
        let per_batch = (BATCH / raw).max(1) as u64;
        let mut batch = vec![0; raw * usize::try_from(per_batch).unwrap_or(1)];
        let mut number = 0;
        while number < count {
            let pages = per_batch.min(count - number);
            let bytes = &mut batch[..raw * usize::try_from(pages).unwrap_or(1)];
            dump.read_exact_at(bytes, number * raw as u64)?;
            let found = (number..).zip(bytes.chunks_exact(raw));
            written.extend(found.filter(|(_, page)| is_written(page)).map(|(number, _)| number));
            number += pages;
        }
        Ok(())
    }
}

/// Returns whether a page is neither erased nor cleared.
fn is_written(page: &[u8]) -> bool {
    page.iter().any(|byte| *byte != page[0])
}
