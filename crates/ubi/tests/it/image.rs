//! Images as `ubinize` 2.1.5 writes them: compared with the tool if it is installed, and with the
//! hashes of its output.

use eraseblock_base::VolumeId;
use eraseblock_base::crc::crc32;
use eraseblock_mtd::ImageFile;
use eraseblock_ubi::image::ini::parse_volumes;
use eraseblock_ubi::image::{
    ContentSize, ImageError, ImagePlan, ImageSpec, LebSource, ReaderSource, VERSION, VolumeSize,
    VolumeSpec,
};
use eraseblock_ubi::{AttachOptions, Hints, Ubi, detect};
use eraseblock_ubi_format::*;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

struct Case {
    options: &'static str,
    layout: (u32, u32, u32, Option<u32>),
    ec: u32,
    ini: &'static str,
    sha256: &'static str,
}

const TWO_VOLUMES: &str = "[root]\nmode=ubi\nimage=r.bin\nvol_id=0\nvol_type=dynamic\n\
    vol_name=rootfs\nvol_size=1MiB\nvol_flags=autoresize\n[kern]\nmode=ubi\nimage=k.bin\n\
    vol_id=1\nvol_type=static\nvol_name=kernel\nvol_alignment=4096\n";
const STATIC: &str = "[a]\nmode=ubi\nvol_id=5\nvol_name=data\nvol_type=static\nimage=r.bin\n\
    vol_flags=skip-check\n[b]\nmode=ubi\nvol_id=2\nvol_name=empty\nvol_size=3MiB\n";

const CASES: [Case; 5] = [
    Case {
        options: "-p 128KiB -m 2048 -s 512 -e 7",
        layout: (131_072, 2048, 512, None),
        ec: 7,
        ini: TWO_VOLUMES,
        sha256: "686d78e98e145aa092be10387327fb5b278b626b2633f2b13258387aac68d96b",
    },
    Case {
        options: "-p 128KiB -m 2048",
        layout: (131_072, 2048, 2048, None),
        ec: 0,
        ini: STATIC,
        sha256: "2dbbf97965266032e986cae0cb2681f6b30cc3606b50386791d59c4edeca3f4c",
    },
    Case {
        options: "-p 16KiB -m 512 -s 256",
        layout: (16_384, 512, 256, None),
        ec: 0,
        ini: STATIC,
        sha256: "98da50a6ba68373db9968710e6faa9fe293d989234aacf7e22695e3a3e4280bc",
    },
    Case {
        options: "-p 64KiB -m 1",
        layout: (65_536, 1, 1, None),
        ec: 0,
        ini: TWO_VOLUMES,
        sha256: "02b2c36741ae736c6a767d01b43db95a144a70ec290da408f22a32a15f48dd5e",
    },
    Case {
        options: "-p 128KiB -m 2048 -s 512 -O 1984",
        layout: (131_072, 2048, 512, Some(1984)),
        ec: 0,
        ini: STATIC,
        sha256: "df29672da5ee6fe696fbca68020c57b73f42b9197b34120ac7327a2ee7d1202f",
    },
];

fn content(name: &str) -> Vec<u8> {
    match name {
        "k.bin" => (0..=255).cycle().take(1000).collect(),
        _ => (0..300_000_u32).map(|n| (n * 7 + n / 256).to_le_bytes()[0]).collect(),
    }
}

/// Returns the specification described by an ini file, and the contents of its volumes.
fn read_case(case: &Case) -> (ImageSpec, Vec<Vec<u8>>) {
    let (peb, min_io, unit, vid) = case.layout;
    let mut contents = Vec::new();
    let mut volumes = Vec::new();
    for section in parse_volumes(case.ini).unwrap() {
        let bytes = section.image.as_deref().map(content).unwrap_or_default();
        volumes.push(VolumeSpec {
            id: section.id,
            name: section.name,
            kind: section.kind,
            alignment: section.alignment,
            size: VolumeSize::UbinizeBytes(section.size.unwrap_or(bytes.len() as u64)),
            flags: section.flags,
            content: ContentSize::Bytes(bytes.len() as u64),
        });
        contents.push(bytes);
    }
    let spec = ImageSpec {
        layout: HeaderLayout::new(peb, min_io, unit, vid).unwrap(),
        erase_count: EraseCount::new(case.ec.into()).unwrap(),
        image_seq: 305_419_896,
        volumes,
        version: VERSION,
        end_marks: 0,
    };
    (spec, contents)
}

fn write(spec: ImageSpec, contents: &[Vec<u8>]) -> Vec<u8> {
    let plan = ImagePlan::new(spec).unwrap();
    let mut sources: Vec<_> =
        contents.iter().map(|one| ReaderSource::new(Cursor::new(one))).collect();
    let mut sources: Vec<&mut dyn LebSource> =
        sources.iter_mut().map(|source| source as &mut dyn LebSource).collect();
    let mut bytes = Vec::new();
    plan.write(&mut bytes, &mut sources).unwrap();
    assert_eq!(bytes.len() as u64, plan.size());
    bytes
}

fn hex(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

fn ubinize(case: &Case) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.ini"), case.ini).unwrap();
    for name in ["r.bin", "k.bin"] {
        std::fs::write(folder.path().join(name), content(name)).unwrap();
    }
    let program =
        ["/usr/sbin/ubinize", "/usr/bin/ubinize"].into_iter().find(|at| Path::new(at).exists())?;
    let status = Command::new(program)
        .args(case.options.split(' '))
        .args(["-Q", "305419896", "-o", "out.ubi", "a.ini"])
        .current_dir(folder.path())
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    Some(std::fs::read(folder.path().join("out.ubi")).unwrap())
}

#[test]
fn images_are_those_of_ubinize() {
    for case in CASES {
        let (spec, contents) = read_case(&case);
        let ours = write(spec, &contents);
        if let Some(theirs) = ubinize(&case) {
            assert!(ours == theirs, "{}: differs", case.options);
        }
        assert_eq!(hex(&ours), case.sha256, "{}", case.options);
    }
}

#[test]
fn images_written_in_place_are_the_same() {
    for case in CASES {
        let (spec, contents) = read_case(&case);
        let streamed = write(spec.clone(), &contents);
        let plan = ImagePlan::new(spec).unwrap();
        let file = tempfile::tempfile().unwrap();
        for (volume, bytes) in contents.iter().enumerate().rev() {
            let usable = plan.usable_leb_size(volume).unwrap() as usize;
            let lebs: Vec<_> = (0..).zip(bytes.chunks(usable)).collect();
            for (leb, part) in lebs.into_iter().rev() {
                file.write_all_at(part, plan.data_offset(volume, leb).unwrap()).unwrap();
            }
        }
        plan.finish_in_place(&file).unwrap();
        let mut bytes = vec![0; streamed.len()];
        File::read_exact_at(&file, &mut bytes, 0).unwrap();
        assert!(bytes == streamed, "{}", case.options);
        assert_eq!(file.metadata().unwrap().len(), plan.size());
    }
}

#[test]
fn what_is_written_is_found_attached_and_read_back() {
    for case in CASES {
        let (spec, contents) = read_case(&case);
        let layout = spec.layout;
        let ids: Vec<VolumeId> = spec.volumes.iter().map(|volume| volume.id).collect();
        let bytes = write(spec, &contents);
        let detected = detect(&bytes, &Hints::default()).unwrap().unwrap();
        assert_eq!(detected.layout, layout);
        let device = Arc::new(ImageFile::new(bytes, &detected.shape()).unwrap());
        let options = AttachOptions { verify_static: true, ..AttachOptions::default() };
        let ubi = Ubi::attach(device, &detected.layout, &options).unwrap();
        assert!(ubi.attachment().findings.is_empty(), "{:?}", ubi.attachment().findings);
        assert_eq!(ubi.attachment().linux_refuses, None);
        for (id, content) in ids.into_iter().zip(&contents) {
            let mut read = Vec::new();
            ubi.volume(id).unwrap().mapped_reader().read_to_end(&mut read).unwrap();
            assert!(read.starts_with(content));
            assert!(read[content.len()..].iter().all(|byte| *byte == 0xFF));
        }
    }
}

fn spec(change: impl FnOnce(&mut VolumeSpec)) -> ImageSpec {
    let (mut spec, _) = read_case(&CASES[0]);
    change(&mut spec.volumes[1]);
    spec
}

#[test]
fn impossible_volumes_are_refused() {
    let refused = |change: fn(&mut VolumeSpec)| match ImagePlan::new(spec(change)) {
        Err(ImageError::Volume { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(|one| one.id = VolumeId::new(0)), "number");
    assert_eq!(refused(|one| one.id = VolumeId::new(128)), "number");
    assert_eq!(refused(|one| one.name = VolumeName::new("rootfs").unwrap()), "name");
    assert_eq!(refused(|one| one.flags = VolumeFlags::AUTORESIZE), "autoresize flag");
    assert_eq!(refused(|one| one.alignment = 0), "alignment");
    assert_eq!(refused(|one| one.alignment = 3), "alignment");
    assert_eq!(refused(|one| one.alignment = 131_072), "alignment");
    assert_eq!(refused(|one| one.size = VolumeSize::Lebs(0)), "size in LEBs");
    assert_eq!(refused(|one| one.size = VolumeSize::Bytes(u64::MAX)), "size");
    assert_eq!(refused(|one| one.size = VolumeSize::Lebs(u32::MAX)), "size");
    assert_eq!(refused(|one| one.content = ContentSize::Lebs(1)), "content");
    assert_eq!(refused(|one| one.content = ContentSize::Bytes(u64::MAX)), "size");
    let empty = |one: &mut VolumeSpec| {
        one.size = VolumeSize::Content;
        one.content = ContentSize::Empty;
    };
    assert_eq!(refused(empty), "size");
    let skipping = |one: &mut VolumeSpec| {
        one.kind = VolumeKind::Dynamic;
        one.flags = VolumeFlags::SKIP_CHECK;
    };
    assert_eq!(refused(skipping), "skip-check flag");
    // The size as ubinize counts it is too small for content that fits without alignment.
    let quirk = |one: &mut VolumeSpec| {
        one.size = VolumeSize::UbinizeBytes(2 * 129_024);
        one.content = ContentSize::Bytes(2 * 129_024);
    };
    assert_eq!(refused(quirk), "size in LEBs");
}

#[test]
fn content_that_ends_too_early_is_an_error() {
    let (spec, contents) = read_case(&CASES[0]);
    let plan = ImagePlan::new(spec).unwrap();
    let mut short = ReaderSource::new(&contents[0][..200_000]);
    let mut kernel = ReaderSource::new(&contents[1][..]);
    let mut out = Vec::new();
    let error = plan.write(&mut out, &mut [&mut short, &mut kernel]).unwrap_err();
    assert!(matches!(error, ImageError::Content { leb: 1, .. }), "{error}");
    let error = plan.write(&mut out, &mut []).unwrap_err();
    assert!(matches!(error, ImageError::Sources { found: 0, expected: 2 }));
}

#[test]
fn a_block_too_small_for_a_table_is_refused() {
    let (mut spec, _) = read_case(&CASES[0]);
    spec.layout = HeaderLayout::new(192, 1, 1, None).unwrap();
    assert!(matches!(ImagePlan::new(spec), Err(ImageError::LebTooSmall { .. })));
}

#[test]
fn whole_lebs_can_be_given() {
    let (mut spec, _) = read_case(&CASES[0]);
    spec.volumes.truncate(1);
    spec.volumes[0].size = VolumeSize::Lebs(9);
    spec.volumes[0].content = ContentSize::Lebs(3);
    let mut padded = content("r.bin");
    padded.resize(3 * 129_024, 0xFF);
    let ours = write(spec.clone(), &[padded]);
    spec.volumes[0].content = ContentSize::Bytes(300_000);
    assert!(ours == write(spec, &[content("r.bin")]));
}

/// The layout of OpenWrt's `ubinize -E 2`, byte for byte (spec: ubi 4.1).
#[test]
fn end_marks_follow_the_last_volume() {
    let (plain, contents) = read_case(&CASES[0]);
    let peb = plain.layout.peb_size() as usize;
    let without = write(plain.clone(), &contents);
    let with = write(ImageSpec { end_marks: 2, ..plain.clone() }, &contents);
    assert_eq!(with.len(), without.len() + 2 * peb);
    let (image, marks) = with.split_at(without.len());
    assert!(image == without, "the volumes are as they were");
    for mark in marks.chunks(peb) {
        let mut expected = without[..64].to_vec();
        expected[5..8].copy_from_slice(&[0x45, 0x4F, 0x46]);
        let crc = crc32(&expected[..60]);
        expected[60..].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(&mark[..64], expected);
        assert!(mark[64..].iter().all(|byte| *byte == 0xFF));
    }
    let in_place = tempfile::tempfile().unwrap();
    let plan = ImagePlan::new(ImageSpec { end_marks: 2, ..plain.clone() }).unwrap();
    in_place.write_all_at(&without, 0).unwrap();
    plan.finish_in_place(&in_place).unwrap();
    let mut bytes = vec![0; with.len()];
    in_place.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == with, "in place as in a stream");
    let many = ImagePlan::new(ImageSpec { end_marks: u32::MAX, ..plain });
    assert!(matches!(many, Err(ImageError::TooLong { .. })));
}
