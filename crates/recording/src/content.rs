//! Content: how dense it is, and data of any density from a seed.

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
pub(crate) fn fill(random: &mut SplitMix64, dense: u8, buf: &mut [u8]) {
    let whole = RUN * usize::from(dense.min(100)) / 100;
    for run in buf.chunks_mut(RUN) {
        let (noise, zeros) = run.split_at_mut(whole.min(run.len()));
        for word in noise.chunks_mut(8) {
            word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
        }
        zeros.fill(0);
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
