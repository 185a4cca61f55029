//! Scrub requests under every order of reader, worker and writer: none is lost.
#![allow(clippy::unwrap_used)] // an integration test is test code throughout

use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd, MtdError, ReadOutcome, forward};
use eraseblock_ubi_format::{HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use eraseblock_ubi_schedule::{AttachOptions, NewVolume, OpenOptions, UbiDevice, Volume, attach};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const SCHEDULES: usize = 300;
const NONE: u32 = u32::MAX;

/// Flash with a block whose reads are corrected until it is erased.
#[derive(Debug)]
struct Weak {
    inner: MemoryMtd,
    weak: AtomicU32,
}

impl Mtd for Weak {
    forward!(geometry, program, is_bad, mark_bad, sync);

    fn read(&self, addr: u64, buf: &mut [u8]) -> Result<ReadOutcome, MtdError> {
        let mut outcome = self.inner.read(addr, buf)?;
        let weak = u64::from(self.weak.load(Ordering::Relaxed));
        if addr / u64::from(self.geometry().peb_size()) == weak {
            outcome.corrected_bits = 1;
        }
        Ok(outcome)
    }

    fn erase(&self, peb: Peb) -> Result<(), MtdError> {
        let _ = self.weak.compare_exchange(peb.get(), NONE, Ordering::Relaxed, Ordering::Relaxed);
        self.inner.erase(peb)
    }
}

fn open_volume(ubi: &UbiDevice) -> Volume {
    ubi.volume(VolumeId::new(0)).unwrap()
}

/// Reads a block with bit flips while the worker erases and another LEB is changed. In the end the
/// LEB must have left its block.
fn race() {
    let geometry = Geometry::new(MediumKind::Nand, 16_384, 24, 512, 512, 16).unwrap();
    let layout = HeaderLayout::new(16_384, 512, 512, None).unwrap();
    let flash = Arc::new(Weak { inner: MemoryMtd::new(geometry), weak: AtomicU32::new(NONE) });
    let options = OpenOptions { wl_threshold: 100, ..OpenOptions::default() };
    let ubi = UbiDevice::open(flash.clone(), &layout, &options).unwrap();
    let (name, flags) = (VolumeName::new("data").unwrap(), VolumeFlags::default());
    let kind = VolumeKind::Dynamic;
    ubi.create_volume(&NewVolume { id: None, name, kind, lebs: 4, alignment: 1, flags }).unwrap();
    for leb in 0..3 {
        open_volume(&ubi).change(Leb::new(leb), &[7; 512]).unwrap();
    }
    ubi.flush().unwrap();
    let found = attach(flash.as_ref(), &layout, &AttachOptions::default()).unwrap();
    let peb = found.map(VolumeId::new(0)).unwrap().get(Leb::new(0)).unwrap();
    flash.weak.store(peb.get(), Ordering::Relaxed);

    let (reading, working, writing) = (ubi.clone(), ubi.clone(), ubi.clone());
    let reader = thread::spawn(move || {
        let outcome = open_volume(&reading).read(Leb::new(0), 0, &mut [0; 512]).unwrap();
        assert_eq!(outcome.corrected_bits, 1);
    });
    let worker = thread::spawn(move || {
        for _ in 0..2 {
            working.background_step().unwrap();
        }
    });
    let writer = thread::spawn(move || {
        open_volume(&writing).change(Leb::new(1), &[8; 512]).unwrap();
    });
    for thread in [reader, worker, writer] {
        thread.join().unwrap();
    }
    ubi.flush().unwrap();
    ubi.check_invariants().unwrap();
    let mut data = [0; 512];
    let outcome = open_volume(&ubi).read(Leb::new(0), 0, &mut data).unwrap();
    assert_eq!((outcome, data), (ReadOutcome::CLEAN, [7; 512]), "the scrub request was lost");
}

#[test]
fn no_scrub_request_is_lost() {
    shuttle::check_random(race, SCHEDULES);
}
