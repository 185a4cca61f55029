//! Attaching reads many headers in one batch, with the same result as one by one.

use crate::builder::*;
use eraseblock_base::{Location, Peb};
use eraseblock_mtd::{MemoryMtd, Mtd, MtdError, ReadOutcome, forward};
use eraseblock_ubi::{AttachOptions, PebState, attach};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Flash with one block that cannot be read, alone or in a batch.
#[derive(Debug)]
struct Counting {
    inner: Arc<MemoryMtd>,
    unreadable: Option<Peb>,
    batches: AtomicUsize,
    reads: AtomicUsize,
}

impl Counting {
    fn check(&self, addr: u64) -> Result<(), MtdError> {
        let size = u64::from(self.geometry().peb_size());
        let at = Location::Byte(addr);
        match self.unreadable {
            Some(peb) if addr / size == u64::from(peb.get()) => {
                Err(MtdError::Failed { at, operation: "read" })
            }
            _ => Ok(()),
        }
    }
}

impl Mtd for Counting {
    forward!(geometry, program, erase, is_bad, mark_bad, sync);

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.check(addr)?;
        self.inner.read(addr, buf)
    }
    fn read_batch(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<Vec<ReadOutcome>, MtdError> {
        self.batches.fetch_add(1, Ordering::Relaxed);
        ranges.iter().try_for_each(|(addr, _)| self.check(*addr))?;
        self.inner.read_batch(ranges)
    }
}

/// LEBs, an erased, a torn, a bad and a flipped block.
fn mixed() -> (Flash, Arc<MemoryMtd>) {
    let mut flash = Flash::standard();
    (0..8).for_each(|leb| flash.put_leb(20 + leb, &dynamic(leb, 30 + u64::from(leb)), &[7; 512]));
    flash.clear(40);
    flash.poke(41, flash.layout.vid_hdr_offset(), &[0; 10]);
    flash.poke(42, 0, &[0; 10]);
    let device = flash.device();
    device.mark_bad(Peb::new(43)).unwrap();
    let size = u64::from(flash.layout.peb_size());
    let flipped = ReadOutcome { corrected_bits: 3, uncorrectable: false };
    device.plant_outcome(44 * size..44 * size + 64, flipped);
    (flash, device)
}

fn states(flash: &Flash, device: &Counting) -> Vec<PebState> {
    let attachment = attach(device, &flash.layout, &AttachOptions::default()).unwrap();
    (0..flash.peb_count).map(|peb| attachment.peb(Peb::new(peb)).unwrap().state).collect()
}

#[test]
fn headers_are_read_in_batches_and_one_unreadable_block_costs_no_other() {
    use PebState::{Bad, Erase, Free, Used};
    let (flash, inner) = mixed();
    let over = |unreadable| Counting {
        inner: inner.clone(),
        unreadable,
        batches: AtomicUsize::new(0),
        reads: AtomicUsize::new(0),
    };
    let healthy = over(None);
    let expected = states(&flash, &healthy);
    let kinds = [20, 40, 41, 42, 43, 44, 50].map(|peb: usize| expected[peb]);
    assert_eq!(kinds, [Used, Erase, Erase, Erase, Bad, Erase, Free]);
    assert_eq!(healthy.batches.load(Ordering::Relaxed), 1);
    let reads = healthy.reads.load(Ordering::Relaxed);
    assert!(reads < 20, "{reads} reads of 128 blocks");

    let broken = over(Some(Peb::new(60)));
    let mut found = states(&flash, &broken);
    assert_eq!(std::mem::replace(&mut found[60], Free), PebState::Unreadable);
    assert_eq!(found, expected);
}
