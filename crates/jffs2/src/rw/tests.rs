//! The run time on simulated chips.

use super::{Jffs2Rw, RwOptions};
use crate::{Jffs2, OpenOptions, Source};
use eraseblock_base::{Geometry, MediumKind};
use eraseblock_nandsim::{Chip, ChipConfig};
use eraseblock_vfs::{FileSystem, NewInode, NewKind, RenameMode, Timestamp, WritableFileSystem};
use std::sync::Arc;

const FILE: NewInode<'static> =
    NewInode { kind: NewKind::Regular, permissions: 0o644, uid: 0, gid: 0 };
const DIR: NewInode<'static> =
    NewInode { kind: NewKind::Directory, permissions: 0o755, uid: 0, gid: 0 };

fn nor() -> Arc<Chip> {
    let geometry = Geometry::new(MediumKind::Nor, 16 << 10, 16, 1, 1, 0).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

fn nand() -> Arc<Chip> {
    let geometry = Geometry::new(MediumKind::Nand, 16 << 10, 16, 512, 512, 16).unwrap();
    Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()))
}

fn mount(chip: &Arc<Chip>) -> Jffs2Rw {
    let (fs, _) = Jffs2Rw::mount(chip.clone(), &RwOptions::default()).unwrap();
    fs
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn content(fs: &dyn FileSystem, path: &str) -> Vec<u8> {
    let ino = fs.resolve(path.as_bytes()).unwrap();
    let mut buf = vec![0xAA; fs.attr(ino).unwrap().size as usize + 10];
    let len = fs.read(ino, 0, &mut buf).unwrap();
    buf.truncate(len);
    buf
}

#[test]
fn a_file_survives_on_both_media() {
    for chip in [nor(), nand()] {
        let fs = mount(&chip);
        let ino = fs.create(1, b"log", &FILE, at(100)).unwrap();
        let mut text = Vec::new();
        for line in 0..300 {
            let line = format!("line {line}\n");
            fs.write(ino, text.len() as u64, line.as_bytes(), at(200)).unwrap();
            text.extend_from_slice(line.as_bytes());
        }
        let dir = fs.create(1, b"dir", &DIR, at(300)).unwrap();
        fs.rename((1, b"log"), (dir, b"moved"), RenameMode::Replace, at(400)).unwrap();
        fs.create(dir, b"gone", &FILE, at(500)).unwrap();
        fs.unlink(dir, b"gone", at(600)).unwrap();
        fs.check().unwrap();
        assert_eq!(content(&fs, "dir/moved"), text);
        fs.unmount().unwrap();
        let again = mount(&chip);
        again.check().unwrap();
        assert_eq!(content(&again, "dir/moved"), text);
        assert!(again.resolve(b"dir/gone").is_err());
        let source = Source::Device(chip.clone());
        let (reader, _) = Jffs2::open(source, &OpenOptions::default()).unwrap();
        assert_eq!(content(&reader, "dir/moved"), text);
        assert_eq!(reader.attr(dir).unwrap(), again.attr(dir).unwrap());
    }
}
