//! Damaged and forged images: for any bytes, attaching and reading end, and soon.

use crate::builder::*;
use eraseblock_base::VolumeId;
use eraseblock_base::random::SplitMix64;
use eraseblock_mtd::{ImageFile, ImageShape, LebDevice};
use eraseblock_ubi::{AttachOptions, Attachment, Hints, PebState, Ubi, VolumeMap, detect};
use eraseblock_ubi_format::*;
use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 20_000;

/// The generator in the sizes of these tests.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.0.below(u64::from(limit.max(1)))).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.0.interesting_byte()
    }
}

/// Returns a small device with one thing of every kind.
fn sample(layout: HeaderLayout) -> Flash {
    let mut flash = Flash::blank(layout, 14);
    let records =
        [(0, record("dyn", VolumeKind::Dynamic, 5)), (1, record("fix", VolumeKind::Static, 3))];
    flash.put_table(0, 0, 1, &records);
    flash.put_table(1, 1, 2, &records);
    let data = [0x5A; 200];
    flash.put_leb(2, &dynamic(0, 10), &data);
    flash.put_leb(3, &dynamic(1, 11), &data);
    flash.put_leb(4, &copy(1, 12, &data), &data);
    flash.put_leb(5, &copy(0, 13, &data), &[1; 100]);
    let full = vec![0xC3; layout.leb_size() as usize];
    let in_volume_1 = |header: VidHeader| VidHeader { volume: VolumeId::new(1), ..header };
    flash.put_leb(6, &in_volume_1(fixed(0, 2, &full)), &full);
    flash.put_leb(7, &in_volume_1(fixed(1, 2, &data)), &data);
    flash.put_leb(8, &internal(Compat::Preserve), &data);
    flash.put_leb(9, &internal(Compat::Delete), &data);
    flash.clear(10);
    flash
}

fn mutate(flash: &mut Flash, random: &mut Random) {
    let layout = flash.layout;
    let peb = random.below(flash.peb_count);
    let peb_size = layout.peb_size();
    let byte = [random.byte()];
    match random.below(10) {
        0 => {
            let at = random.below(peb * peb_size + peb_size) as usize;
            flash.bytes[at] ^= 1 << random.below(8);
        }
        1 => flash.poke(peb, random.below(peb_size), &byte),
        2 | 3 => flash.forge(peb, layout.vid_hdr_offset(), random.below(60), &byte),
        4 => flash.forge(peb, 0, random.below(60), &byte),
        5 | 6 => forge_record(flash, peb, random),
        7 => flash.poke(peb, 0, &vec![byte[0]; peb_size as usize]),
        8 => {
            let start = (random.below(flash.peb_count) * peb_size) as usize;
            let block = flash.bytes[start..start + peb_size as usize].to_vec();
            flash.poke(peb, 0, &block);
        }
        _ => {
            let start = random.below(peb_size);
            flash.poke(peb, start, &vec![byte[0]; (peb_size - start) as usize]);
        }
    }
}

/// Changes a byte of one of the first records of the table and updates the checksum.
fn forge_record(flash: &mut Flash, peb: u32, random: &mut Random) {
    let peb = if random.below(4) == 0 { peb } else { random.below(2) };
    let record = flash.layout.data_offset() + 172 * random.below(3);
    let fields = [random.below(168), random.below(16)];
    let field = fields[random.below(2) as usize];
    flash.poke(peb, record + field, &[random.byte()]);
    let start = (peb * flash.layout.peb_size() + record) as usize;
    let crc = eraseblock_base::crc::crc32(&flash.bytes[start..start + 168]);
    flash.poke(peb, record + 168, &crc.to_be_bytes());
}

/// The invariants of an attachment.
fn check(attachment: &Attachment) {
    let counts = &attachment.counts;
    let sum = counts.free
        + counts.used
        + counts.erase
        + counts.corrupted
        + counts.alien
        + counts.bad
        + counts.fastmap
        + counts.foreign
        + counts.unreadable;
    assert_eq!(sum, attachment.peb_count);
    let mut seen = std::collections::HashSet::new();
    for volume in &attachment.volumes {
        for (leb, peb) in attachment.map(volume.id).into_iter().flat_map(VolumeMap::iter) {
            assert!(leb.get() < volume.reserved_lebs);
            assert!(seen.insert(peb), "{peb:?} holds two LEBs");
            assert_eq!(attachment.peb(peb).unwrap().state, PebState::Used);
        }
    }
    for peb in attachment.erase_order() {
        assert!(matches!(attachment.peb(*peb).unwrap().state, PebState::Erase | PebState::Fastmap));
    }
    assert_eq!(attachment.erase_order().len(), (counts.erase + counts.fastmap) as usize);
    let has_error = attachment.findings.worst() == Some(eraseblock_base::Severity::Error);
    assert!(attachment.linux_refuses.is_none() || has_error);
}

fn read_everything(ubi: &Ubi) {
    for info in &ubi.attachment().volumes {
        let volume = ubi.volume(info.id).unwrap();
        let mut leb = vec![0; volume.leb_size() as usize];
        for (number, _) in volume.map().iter() {
            volume.read(number, 0, &mut leb).unwrap();
            let _ = volume.check_leb(number);
        }
        let mut content = Vec::new();
        volume.mapped_reader().take(1 << 18).read_to_end(&mut content).unwrap();
    }
}

#[test]
fn no_image_breaks_attaching_or_takes_long() {
    let layouts = [
        (4096, 1, 1, None),
        (4096, 512, 256, None),
        (8448, 64, 64, None),
        (16_384, 2048, 512, Some(1984)),
    ]
    .map(|(peb, min_io, unit, vid)| HeaderLayout::new(peb, min_io, unit, vid).unwrap());
    let samples = layouts.map(sample);
    let options = AttachOptions { verify_static: true, ..AttachOptions::default() };
    let mut slowest = (Duration::ZERO, 0);
    for round in 0..ROUNDS {
        let start = Instant::now();
        let mut random = Random(SplitMix64::new(round));
        let original = &samples[random.below(4) as usize];
        let mut flash = Flash { bytes: original.bytes.clone(), ..*original };
        for _ in 0..=random.below(4) {
            mutate(&mut flash, &mut random);
        }
        if random.below(8) == 0 {
            let len = random.below(u32::try_from(flash.bytes.len()).unwrap());
            flash.bytes.truncate(len as usize);
        }
        if round % 16 == 0
            && let Ok(Some(found)) = detect(&flash.bytes, &Hints::default())
        {
            assert!(u64::from(found.layout.peb_size()) <= flash.bytes.len() as u64);
        }
        let layout = flash.layout;
        let shape = ImageShape {
            start: 0,
            peb_size: layout.peb_size(),
            min_io: layout.min_io(),
            subpage: layout.header_unit(),
            peb_count: None,
        };
        let Ok(device) = ImageFile::new(flash.bytes, &shape) else { continue };
        let options = AttachOptions { whole_device: random.below(2) == 0, ..options };
        let ubi = Ubi::attach(Arc::new(device), &layout, &options).unwrap();
        check(ubi.attachment());
        read_everything(&ubi);
        slowest = slowest.max((start.elapsed(), round));
    }
    assert!(slowest.0 < Duration::from_secs(2), "round {} took {:?}", slowest.1, slowest.0);
}
