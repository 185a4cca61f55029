//! Cached data always agrees with the flash.

use super::*;
use crate::mkfs::{self, LebSink, MkfsOptions, NoProgress};
use crate::report::Report;
use crate::rw::place::Place;
use crate::rw::shadow::Shadow;
use crate::sb;
use crate::volume::Volume;
use eraseblock_mtd::LebFile;
use eraseblock_vfs::SourceTree;
use eraseblock_vfs::source::{SourceKind, SourceNode};
use std::collections::BTreeMap;
use std::io;

const LEB: u32 = 15_872;

#[derive(Default)]
struct Image(Vec<u8>);

impl LebSink for Image {
    fn write_leb(&mut self, leb: Leb, data: &[u8]) -> io::Result<()> {
        let start = leb.index() * LEB as usize;
        self.0.resize(self.0.len().max(start + LEB as usize), 0xFF);
        self.0[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn finish(&mut self, _leb_cnt: u32) -> io::Result<()> {
        Ok(())
    }
}

fn image() -> Vec<u8> {
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut image = Image::default();
    let options = MkfsOptions::new(LEB, 512, 40);
    mkfs::build(&SourceTree::new(root), &options, &mut image, &NoProgress).unwrap();
    image.0
}

fn load(image: Vec<u8>) -> (Arc<dyn LebDevice>, Superblock) {
    let file = LebFile::new(image, LEB, 512, Some(40)).unwrap();
    let found = sb::load(Arc::new(Shadow::new(Arc::new(file))), &mut Report::strict()).unwrap();
    (found.device, found.sb)
}

fn flash() -> Flash {
    let (device, sb) = load(image());
    Flash::new(device, sb)
}

#[test]
fn a_leb_is_read_to_where_nothing_was_written() {
    let mut image = image();
    let last = 3 * LEB as usize - 1;
    image[last] = 0;
    let (device, sb) = load(image);
    let volume = Volume::new(device, sb);
    let (mut written, mut whole) = (Vec::new(), Vec::new());
    volume.read_leb(Leb::new(2), &mut whole).unwrap();
    volume.read_written(Leb::new(2), &mut written).unwrap();
    assert_eq!(whole.pop(), Some(0));
    assert_eq!(written.pop(), Some(0xFF), "data after an erased piece is not examined");
    assert!(whole == written && written[0] != 0xFF);
}

fn near(flash: &Flash, leb: u32, offset: u32, len: usize) -> Vec<u8> {
    let mut buf = vec![0; len];
    flash.read_near(leb, offset, &mut buf).unwrap();
    buf
}

#[test]
fn small_nodes_beside_each_other_are_those_on_flash() {
    let flash = flash();
    let mut leb = Vec::new();
    flash.read_leb(1, &mut leb).unwrap();
    assert!(leb.iter().take(600).any(|byte| *byte != 0xFF), "there is something to read");
    for len in [1, 7, 100, 511, 512, 513, 2000] {
        for offset in [0, 8, 400, 504, 511, 512, 520, 1000, 8] {
            let end = offset as usize + len;
            assert_eq!(near(&flash, 1, offset, len), leb[offset as usize..end], "{offset} {len}");
        }
    }
}

#[test]
fn a_remembered_page_is_forgotten_when_its_leb_changes() {
    let mut flash = flash();
    let leb = 30;
    assert_eq!(near(&flash, leb, 16, 8), [0xFF; 8]);
    flash.write(leb, 0, &[1; 512]).unwrap();
    assert_eq!(near(&flash, leb, 16, 8), [1; 8]);
    // A change of another LEB keeps the cached page; a change of this LEB discards it.
    flash.write(leb + 1, 0, &[5; 512]).unwrap();
    assert_eq!(near(&flash, leb, 24, 8), [1; 8]);
    flash.change(leb, &[2; 512]).unwrap();
    assert_eq!(near(&flash, leb, 16, 8), [2; 8]);
    flash.unmap(leb).unwrap();
    assert_eq!(near(&flash, leb, 16, 8), [0xFF; 8]);
    assert_eq!(near(&flash, leb + 1, 16, 8), [5; 8]);
    flash.renew(leb, &[3; 512]).unwrap();
    assert_eq!(near(&flash, leb, 500, 8), [3; 8]);
}

/// A page is read from the device once, regardless of the number of nodes read from it.
#[test]
fn a_page_is_read_once() {
    let flash = flash();
    near(&flash, 1, 0, 8);
    let at = |page: &Page| (page.leb, page.offset, page.bytes.as_ptr());
    let before = at(&flash.near.lock().unwrap());
    near(&flash, 1, 40, 100);
    assert_eq!(at(&flash.near.lock().unwrap()), before);
    near(&flash, 1, 512, 8);
    assert_eq!(flash.near.lock().unwrap().offset, 512);
}

#[test]
fn data_read_ahead_is_forgotten_when_its_leb_changes() {
    let mut flash = flash();
    let place = Place { leb: 30, offset: 0 };
    let copied = |flash: &Flash| {
        let mut buf = [0; 8];
        flash.ahead().copy_to(&mut buf, place).then_some(buf)
    };
    for step in 0..5 {
        flash.ahead().keep(place, vec![9; 512]);
        flash.write(31, 512 * step, &[1; 512]).unwrap();
        assert_eq!(copied(&flash), Some([9; 8]), "another LEB has changed");
        match step {
            0 => flash.write(30, 0, &[1; 512]),
            1 => flash.change(30, &[2; 512]),
            2 => flash.unmap(30),
            3 => flash.map(30),
            _ => flash.renew(30, &[3; 512]),
        }
        .unwrap();
        assert_eq!(copied(&flash), None, "{step}");
    }
}
