//! Fastmaps in images: they agree with a scan, and are rejected if the image is shifted.

use eraseblock_base::{Geometry, Leb, MediumKind, Peb, VolumeId};
use eraseblock_mtd::{LebDevice, MemoryMtd, Mtd};
use eraseblock_ubi::image::{
    ContentSize, FastmapPlace, ImageError, ImagePlan, ImageSpec, LebSource, ReaderSource, VERSION,
    VolumeSize, VolumeSpec, first_volume_peb,
};
use eraseblock_ubi::{
    AttachOptions, Attachment, FastmapStatus, OpenOptions, UbiDevice, attach, described_peb_count,
};
use eraseblock_ubi_format::{EraseCount, HeaderLayout, VolumeFlags, VolumeKind, VolumeName};
use std::io::Cursor;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

const PEB: usize = 16_384;
const FLASH: FastmapPlace = FastmapPlace { peb_count: 200, bad_blocks: 4 };

fn layout() -> HeaderLayout {
    HeaderLayout::new(16_384, 512, 512, None).unwrap()
}

fn volume(id: u32, name: &str, kind: VolumeKind, lebs: u32, bytes: u64) -> VolumeSpec {
    VolumeSpec {
        id: VolumeId::new(id),
        name: VolumeName::new(name).unwrap(),
        kind,
        alignment: 1,
        size: VolumeSize::Lebs(lebs),
        flags: VolumeFlags::default(),
        content: ContentSize::Bytes(bytes),
    }
}

/// Volumes whose numbers are not in the order in which they are written.
fn spec() -> ImageSpec {
    ImageSpec {
        layout: layout(),
        erase_count: EraseCount::new(3).unwrap(),
        image_seq: 77,
        version: VERSION,
        end_marks: 0,
        volumes: vec![
            volume(5, "data", VolumeKind::Dynamic, 20, 40_000),
            volume(1, "kernel", VolumeKind::Static, 9, 100_000),
            volume(2, "empty", VolumeKind::Static, 4, 0),
        ],
    }
}

fn contents() -> Vec<Vec<u8>> {
    [40_000, 100_000, 0].map(|len| (0..=250).cycle().take(len).collect()).into()
}

fn image() -> Vec<u8> {
    let plan = ImagePlan::with_fastmap(spec(), FLASH).unwrap();
    let contents = contents();
    let mut sources: Vec<_> =
        contents.iter().map(|one| ReaderSource::new(Cursor::new(one))).collect();
    let mut sources: Vec<&mut dyn LebSource> =
        sources.iter_mut().map(|source| source as &mut dyn LebSource).collect();
    let mut bytes = Vec::new();
    plan.write(&mut bytes, &mut sources).unwrap();
    assert_eq!(bytes.len() as u64, plan.size());
    bytes
}

/// Returns a flash onto which the image was written, past the bad blocks.
fn flashed(image: &[u8], bad: &[u32]) -> Arc<MemoryMtd> {
    let geometry = Geometry::new(MediumKind::Nand, 16_384, 200, 512, 512, 16).unwrap();
    let flash = MemoryMtd::new(geometry);
    for peb in bad {
        flash.mark_bad(Peb::new(*peb)).unwrap();
    }
    let good = (0..200).filter(|peb| !bad.contains(peb));
    for (peb, block) in good.zip(image.chunks(PEB)) {
        for (page, data) in block.chunks(512).enumerate() {
            if data.iter().any(|byte| *byte != 0xFF) {
                flash.program(u64::from(peb) * PEB as u64 + page as u64 * 512, data).unwrap();
            }
        }
    }
    Arc::new(flash)
}

fn attached(flash: &MemoryMtd, fastmap: bool) -> Attachment {
    let options = AttachOptions { whole_device: true, fastmap, ..AttachOptions::default() };
    attach(flash, &layout(), &options).unwrap()
}

#[test]
fn both_writers_write_the_same() {
    let plan = ImagePlan::with_fastmap(spec(), FLASH).unwrap();
    assert_eq!(plan.data_offset(0, 0), Some(4 * PEB as u64 + 1024));
    let file = tempfile::tempfile().unwrap();
    for (index, content) in contents().iter().enumerate() {
        let usable = plan.usable_leb_size(index).unwrap() as usize;
        for (leb, part) in (0..).zip(content.chunks(usable)) {
            file.write_all_at(part, plan.data_offset(index, leb).unwrap()).unwrap();
        }
    }
    plan.finish_in_place(&file).unwrap();
    let mut bytes = vec![0; usize::try_from(plan.size()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == image());
    assert_eq!(file.metadata().unwrap().len(), plan.size());
}

#[test]
fn the_fastmap_says_what_a_scan_finds() {
    let flash = flashed(&image(), &[]);
    let (scanned, mapped) = (attached(&flash, false), attached(&flash, true));
    assert!(mapped.is_by_fastmap() && !scanned.is_by_fastmap());
    assert!(scanned.findings.is_empty(), "{:?}", scanned.findings);
    assert_eq!(scanned.volumes, mapped.volumes);
    for volume in &scanned.volumes {
        let map =
            |found: &Attachment| found.map(volume.id).map(|map| map.iter().collect::<Vec<_>>());
        assert_eq!(map(&scanned), map(&mapped), "{}", volume.id);
    }
    assert_eq!(described_peb_count(&*flash, &layout()), Some(200));
    let usable = FastmapStatus::Usable { anchor: Peb::new(2), blocks: 1, pebs: 200 };
    assert_eq!(FastmapStatus::of(&*flash, &layout()).unwrap(), usable);
}

/// For every position of up to four bad blocks, and every resulting shift of the image.
#[test]
fn a_shifted_image_is_scanned() {
    let image = image();
    let blocks = u32::try_from(image.len() / PEB).unwrap();
    let expected = attached(&flashed(&image, &[]), false).volumes;
    for first in 0..blocks {
        for count in 1..=4 {
            for apart in [1, 3] {
                let bad: Vec<u32> = (0..count).map(|number| first + number * apart).collect();
                let flash = flashed(&image, &bad);
                let found = attached(&flash, true);
                assert!(!found.is_by_fastmap(), "{bad:?}");
                assert_eq!(found.linux_refuses, None, "{bad:?}");
                assert_eq!(found.volumes, expected, "{bad:?}");
            }
        }
    }
    // After the image nothing is shifted.
    let found = attached(&flashed(&image, &[blocks, 199]), true);
    assert!(found.is_by_fastmap());
    assert_eq!(found.volumes, expected);
}

/// Blocks after the image have no header: one that held a LEB would be lost at the next scan.
#[test]
fn a_device_attached_by_it_works() {
    let flash = flashed(&image(), &[]);
    let options = OpenOptions { fastmap: true, ..OpenOptions::default() };
    let (ubi, attachment) =
        UbiDevice::open_with_report(flash.clone(), &layout(), &options).unwrap();
    assert!(attachment.is_by_fastmap());
    let data = ubi.volume(VolumeId::new(5)).unwrap();
    for round in 0..60_u8 {
        data.change(Leb::new(u32::from(round % 20)), &[round + 1; 2048]).unwrap();
    }
    ubi.check_invariants().unwrap();
    drop(data);
    // Neither completed work nor a fastmap: everything must be found anyway.
    drop(ubi);
    for fastmap in [true, false] {
        let options = OpenOptions { fastmap, ..options.clone() };
        let ubi = UbiDevice::open(flash.clone(), &layout(), &options).unwrap();
        ubi.verify_flash().unwrap();
        let data = ubi.volume(VolumeId::new(5)).unwrap();
        let mut byte = [0];
        for leb in 0..20 {
            data.read(Leb::new(leb), 0, &mut byte).unwrap();
            assert_eq!(u32::from(byte[0]), leb + 41, "{fastmap}");
        }
        assert!(ubi.check_volume(VolumeId::new(1)).unwrap());
        drop(data);
        ubi.flush().unwrap();
        ubi.check_invariants().unwrap();
    }
}

#[test]
fn what_has_no_room_is_refused() {
    let with = |peb_count, bad_blocks| {
        ImagePlan::with_fastmap(spec(), FastmapPlace { peb_count, bad_blocks })
    };
    assert!(matches!(with(64, 0), Err(ImageError::NoFastmap { found: 64, .. })));
    assert_eq!(first_volume_peb(&layout(), 64), None);
    // 4 blocks before 3 + 7 LEBs: with 55 guards one block of 70 is left for a pool.
    assert_eq!(with(70, 55).unwrap().peb_count(), 70);
    assert!(matches!(with(69, 55), Err(ImageError::FastmapFull { found: 70, expected: 69, .. })));
    let mut large = spec();
    large.volumes[0].size = VolumeSize::Lebs(i32::MAX as u32);
    assert!(matches!(ImagePlan::with_fastmap(large, FLASH), Err(ImageError::FastmapFull { .. })));
}
