//! A flash in memory with a UBI: the sample file system in volume 0, a static volume 1, free blocks.

use crate::volume::{LEB, Memory, Tree, sample, tree};
use eraseblock_base::crc::crc32;
use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd};
use eraseblock_repair::ubi::{FlashRepair, UbiOptions, examine};
use eraseblock_repair::{Action, Level, RepairError};
use eraseblock_ubi::{AttachOptions, Ubi};
use eraseblock_ubi_format::constants::{LAYOUT_VOLUME, RECORD_SIZE};
use eraseblock_ubi_format::encode::{encode_ec, encode_vid};
use eraseblock_ubi_format::table::encode_table;
use eraseblock_ubi_format::{
    Compat, EcHeader, EraseCount, HeaderLayout, SqNum, VidHeader, VolumeFlags, VolumeKind,
    VolumeName, VolumeRecord,
};
use eraseblock_ubifs::{OpenOptions, Ubifs};
use std::sync::Arc;

pub(crate) const PEB: usize = 16_384;
pub(crate) const VID: usize = 256;
pub(crate) const DATA: usize = 512;
pub(crate) const SEQ: u32 = 77;
/// LEBs of the volume with the file system.
pub(crate) const LEBS: u32 = 60;
/// What the static volume holds.
pub(crate) const KERNEL: &[u8] = b"a very small kernel";

pub(crate) fn layout() -> HeaderLayout {
    let layout = HeaderLayout::new(PEB as u32, 512, 256, None).unwrap();
    assert_eq!((layout.vid_hdr_offset() as usize, layout.data_offset() as usize), (VID, DATA));
    layout
}

pub(crate) fn ec(count: u64, image_seq: u32) -> [u8; 64] {
    encode_ec(&EcHeader {
        erase_count: EraseCount::new(count).unwrap(),
        vid_hdr_offset: VID as u32,
        data_offset: DATA as u32,
        image_seq,
        end_mark: false,
    })
}

pub(crate) fn vid(volume: VolumeId, leb: u32, sqnum: u64) -> VidHeader {
    let compat = if volume == LAYOUT_VOLUME { Compat::Reject } else { Compat::None };
    VidHeader {
        kind: VolumeKind::Dynamic,
        copy_flag: false,
        compat,
        volume,
        leb: Leb::new(leb),
        data_size: 0,
        used_lebs: 0,
        data_pad: 0,
        data_crc: 0,
        sqnum: SqNum::new(sqnum),
    }
}

fn record(name: &str, kind: VolumeKind, lebs: u32) -> VolumeRecord {
    VolumeRecord {
        reserved_lebs: lebs,
        alignment: 1,
        data_pad: 0,
        kind,
        upd_marker: false,
        name: VolumeName::new(name).unwrap(),
        flags: VolumeFlags::default(),
    }
}

/// The table of the sample.
pub(crate) fn table() -> Vec<u8> {
    let records = [
        (VolumeId::new(0), record("rootfs", VolumeKind::Dynamic, LEBS)),
        (VolumeId::new(1), record("kernel", VolumeKind::Static, 3)),
    ];
    encode_table(&layout(), &records)
}

/// A flash with a UBI.
#[derive(Clone, Debug)]
pub(crate) struct Chip {
    pub(crate) bytes: Vec<u8>,
}

impl Chip {
    /// The sample: the table in blocks 0 and 1, the kernel in 2, then the file system, and 6 free blocks.
    pub(crate) fn new() -> Self {
        Self::of(&sample())
    }

    pub(crate) fn of(volume: &Arc<Memory>) -> Self {
        let mut chip = Self { bytes: Vec::new() };
        for leb in 0..2 {
            chip.add(&vid(LAYOUT_VOLUME, leb, 1 + u64::from(leb)), &table());
        }
        let kernel = VidHeader {
            kind: VolumeKind::Static,
            data_size: KERNEL.len() as u32,
            used_lebs: 1,
            data_crc: crc32(KERNEL),
            ..vid(VolumeId::new(1), 0, 3)
        };
        chip.add(&kernel, KERNEL);
        for leb in 0..LEBS {
            if volume.is_mapped(Leb::new(leb)).unwrap() {
                let header = vid(VolumeId::new(0), leb, 10 + u64::from(leb));
                chip.add(&header, &volume.bytes(leb as usize));
            }
        }
        for _ in 0..6 {
            chip.add_free();
        }
        chip
    }

    pub(crate) fn count(&self) -> usize {
        self.bytes.len() / PEB
    }

    /// Appends a block with a LEB; returns its number.
    pub(crate) fn add(&mut self, header: &VidHeader, data: &[u8]) -> usize {
        let peb = self.add_free();
        self.put(peb, VID, &encode_vid(header));
        self.put(peb, DATA, data);
        peb
    }

    pub(crate) fn add_free(&mut self) -> usize {
        let peb = self.count();
        self.bytes.resize(self.bytes.len() + PEB, 0xFF);
        self.put(peb, 0, &ec(100 + peb as u64, SEQ));
        peb
    }

    pub(crate) fn block(&self, peb: usize) -> &[u8] {
        &self.bytes[peb * PEB..][..PEB]
    }

    pub(crate) fn put(&mut self, peb: usize, at: usize, bytes: &[u8]) {
        self.bytes[peb * PEB + at..][..bytes.len()].copy_from_slice(bytes);
    }

    pub(crate) fn flip(&mut self, peb: usize, at: usize) {
        self.bytes[peb * PEB + at] ^= 0x20;
    }

    /// The block of a LEB.
    pub(crate) fn peb_of(&self, volume: u32, leb: u32) -> usize {
        let ubi = self.attached();
        let map = ubi.attachment().map(VolumeId::new(volume)).unwrap();
        map.get(Leb::new(leb)).unwrap().index()
    }

    /// A block of the file system with a leaf of this file.
    pub(crate) fn record_at(slot: u32) -> usize {
        DATA + (slot * RECORD_SIZE) as usize
    }

    pub(crate) fn device(&self) -> Arc<dyn Mtd> {
        let kind = MediumKind::Nand;
        let geometry = Geometry::new(kind, PEB as u32, self.count() as u32, 512, 256, 16).unwrap();
        Arc::new(MemoryMtd::with_bytes(geometry, self.bytes.clone()))
    }

    pub(crate) fn attached(&self) -> Ubi {
        attached(self.device())
    }

    pub(crate) fn examined(&self, level: Level) -> Result<FlashRepair, RepairError> {
        let attach = AttachOptions { verify_static: true, ..AttachOptions::default() };
        let options = UbiOptions { attach, level, can_grow: true };
        examine(&self.device(), &layout(), options)
    }

    /// Repairs it; returns the repair and the repaired flash.
    pub(crate) fn repaired(&self, level: Level) -> (FlashRepair, Self) {
        let repair = self.examined(level).unwrap_or_else(|error| panic!("{error}"));
        assert!(repair.plan().level() <= Some(level), "{:#?}", lines(&repair));
        let after = self.with(&repair);
        let again = after.examined(level).unwrap();
        assert!(again.plan().is_empty(), "{:#?}", lines(&again));
        (repair, after)
    }

    /// The flash after a repair.
    pub(crate) fn with(&self, repair: &FlashRepair) -> Self {
        let mut after = self.clone();
        for (peb, bytes) in repair.blocks() {
            let start = *peb as usize * PEB;
            let end = after.bytes.len().max(start + PEB);
            after.bytes.resize(end, 0xFF);
            after.bytes[start..start + PEB].fill(0xFF);
            after.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        }
        after
    }

    /// The tree of the file system, which must be consistent.
    pub(crate) fn tree(&self) -> Tree {
        let volume = self.attached().volume(VolumeId::new(0)).unwrap();
        let device: Arc<dyn LebDevice> = Arc::new(volume);
        let repair = eraseblock_repair::examine(&device).unwrap();
        assert!(repair.plan().is_empty(), "{:?}", repair.plan());
        tree(&Ubifs::open(device, &OpenOptions { strict: true }).unwrap().0)
    }

    /// Fails unless attaching finds nothing.
    pub(crate) fn assert_consistent(&self) {
        let ubi = self.attached();
        let left: Vec<_> = ubi.attachment().findings.iter().map(ToString::to_string).collect();
        assert!(!ubi.attachment().findings.has_problems(), "{left:#?}");
        assert!(ubi.attachment().linux_refuses.is_none());
    }

    /// The blocks whose headers say that they hold the volume table.
    pub(crate) fn table(&self) -> Vec<usize> {
        let id = LAYOUT_VOLUME.get().to_be_bytes();
        (0..self.count()).filter(|peb| self.block(*peb)[VID + 8..VID + 12] == id).collect()
    }

    /// A LEB of the file system that its index refers to, by the block that holds it.
    pub(crate) fn leb_with(&self, text: &[u8]) -> usize {
        let holds = |peb: &usize| self.block(*peb).windows(text.len()).any(|part| part == text);
        (3..self.count()).find(holds).unwrap()
    }

    pub(crate) fn erase_count(&self, peb: usize) -> u32 {
        let info = self.attached().attachment().peb(Peb::new(peb as u32)).unwrap();
        info.erase_count.unwrap().get()
    }
}

fn attached(device: Arc<dyn Mtd>) -> Ubi {
    let attach = AttachOptions { verify_static: true, ..AttachOptions::default() };
    Ubi::attach(device, &layout(), &attach).unwrap()
}

pub(crate) fn lines(repair: &FlashRepair) -> Vec<String> {
    repair.plan().actions().iter().map(Action::line).collect()
}

#[test]
fn the_sample_has_nothing_to_repair() {
    let chip = Chip::new();
    chip.assert_consistent();
    let repair = chip.examined(Level::Rebuild).unwrap();
    assert!(repair.plan().is_empty() && repair.left().is_empty(), "{:#?}", lines(&repair));
    assert!(chip.tree().len() > 5);
    assert_eq!(chip.block(2)[DATA..DATA + KERNEL.len()], *KERNEL);
    assert_eq!(LEB, layout().leb_size() as usize);
}
