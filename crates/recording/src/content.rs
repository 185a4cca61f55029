//! Content: how dense it is, and data of any density from a seed, written and read by replays.

use crate::replay::Counts;
use eraseblock_base::random::SplitMix64;
use eraseblock_codec::zlib::Encoder;

/// Bytes of a write that are looked at.
const SAMPLE: usize = 4096;

/// Measures to which share of its size data can be compressed.
#[derive(Debug)]
pub(crate) struct Meter {
    /// `None` if this machine has no memory for it: then data counts as random.
    encoder: Option<Encoder>,
    out: Vec<u8>,
}

impl Meter {
    pub(crate) fn new() -> Self {
        Self { encoder: Encoder::new(1).ok(), out: Vec::new() }
    }

    /// Returns the share in percent, from 1 to 100.
    pub(crate) fn density(&mut self, data: &[u8]) -> u8 {
        let sample = &data[..data.len().min(SAMPLE)];
        let Some(encoder) = self.encoder.as_mut().filter(|_| !sample.is_empty()) else {
            return 100;
        };
        self.out.clear();
        if !encoder.compress(sample, sample.len(), &mut self.out) {
            return 100;
        }
        u8::try_from(self.out.len() * 100 / sample.len()).unwrap_or(100).clamp(1, 100)
    }
}

/// Bytes of a run: random ones, then zeros.
const RUN: usize = 128;

/// Fills a buffer with data that can be compressed to about `dense` percent.
fn fill(random: &mut SplitMix64, dense: u8, buf: &mut [u8]) {
    let whole = RUN * usize::from(dense.min(100)) / 100;
    for run in buf.chunks_mut(RUN) {
        let (noise, zeros) = run.split_at_mut(whole.min(run.len()));
        for word in noise.chunks_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
        }
        zeros.fill(0);
    }
}

/// Bytes that are written or read with one call.
const PIECE: u64 = 128 << 10;
/// The longest value of an extended attribute.
const LONGEST_VALUE: u32 = 65_536;

/// The content that a replay makes and reads, in pieces, and its counts.
#[derive(Debug)]
pub(crate) struct Transfers {
    random: SplitMix64,
    buf: Vec<u8>,
    pub(crate) counts: Counts,
}

impl Transfers {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: SplitMix64::new(seed), buf: Vec::new(), counts: Counts::default() }
    }

    /// Passes pieces of new content to `put`, with their offsets.
    pub(crate) fn write<E>(
        &mut self,
        offset: u64,
        len: u64,
        dense: u8,
        mut put: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut done = 0;
        while done < len {
            let piece = (len - done).min(PIECE);
            self.buf.resize(usize::try_from(piece).unwrap_or(0), 0);
            fill(&mut self.random, dense, &mut self.buf);
            put(offset.saturating_add(done), &self.buf)?;
            done += piece;
            self.counts.written += piece;
        }
        Ok(())
    }

    /// Has pieces read by `get`, up to the end of the file.
    pub(crate) fn read<E>(
        &mut self,
        offset: u64,
        len: u64,
        mut get: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let mut done = 0;
        while done < len {
            self.buf.resize(usize::try_from((len - done).min(PIECE)).unwrap_or(0), 0);
            let count = get(offset.saturating_add(done), &mut self.buf)? as u64;
            if count == 0 {
                break;
            }
            done += count;
            self.counts.read += count;
        }
        Ok(())
    }

    /// Returns a new value of an extended attribute.
    pub(crate) fn value(&mut self, len: u32) -> &[u8] {
        self.buf.resize(len.min(LONGEST_VALUE) as usize, 0);
        fill(&mut self.random, 50, &mut self.buf);
        &self.buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_content_is_as_dense_as_the_measured_one() {
        let (mut random, mut meter) = (SplitMix64::new(7), Meter::new());
        for dense in [10, 40, 70, 100] {
            let mut data = vec![0xAA; SAMPLE];
            fill(&mut random, dense, &mut data);
            let found = meter.density(&data);
            assert!(found.abs_diff(dense) <= 8, "{dense}: {found}");
        }
        assert_eq!(meter.density(&[0; SAMPLE]), 1);
        assert_eq!(meter.density(&[]), 100);
    }
}
