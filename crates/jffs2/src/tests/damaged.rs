//! Broken nodes: neither reader ever delivers their content.

use super::*;
use eraseblock_base::Severity;
use eraseblock_vfs::Caller;
use eraseblock_vfs::WritableFileSystem;

const PAGE: u32 = 4096;

/// Returns a file of 3 pages, as a writer leaves it, and the places of its data nodes.
fn file() -> (Image, [usize; 3]) {
    let mut image = Image::new(ByteOrder::Little);
    image.name(1, 1, "f", 2, 8);
    let page = |number: u8| vec![number; PAGE as usize];
    let places = [1, 2, 3].map(|n| image.data(2, n, (n - 1) * PAGE, 3 * PAGE, &page(n as u8)));
    (image, places)
}

fn chip(image: &Image) -> Arc<Chip> {
    let geometry = Geometry::new(MediumKind::Nor, BLOCK as u32, 16, 1, 1, 0).unwrap();
    let chip = Arc::new(Chip::new(ChipConfig::of_geometry(geometry).unwrap()));
    let mut bytes = image.bytes.clone();
    bytes.resize(16 * BLOCK, 0xFF);
    chip.import(&mut &*bytes, false).unwrap();
    chip
}

fn mount(chip: &Arc<Chip>) -> Jffs2Rw {
    Jffs2Rw::mount(Arc::<Chip>::clone(chip), &RwOptions::default()).unwrap().0
}

/// Returns which pages of the file can be read, the error of the first other one, and the start of
/// the first data.
fn pages(fs: &dyn FileSystem) -> (Vec<bool>, String, Option<u64>) {
    let ino = fs.resolve(b"f").unwrap();
    let (mut good, mut text) = (Vec::new(), String::new());
    for page in 0..fs.attr(ino).unwrap().size.div_ceil(PAGE.into()) {
        let mut buf = [0; PAGE as usize];
        let read = fs.read(ino, page * u64::from(PAGE), &mut buf);
        good.push(read.is_ok());
        if let Err(error) = read {
            assert_eq!(error.kind(), FsErrorKind::Corrupted);
            text = if text.is_empty() { error.to_string() } else { text };
        }
    }
    (good, text, fs.seek_data(ino, 0).unwrap())
}

/// Returns the results of both readers.
fn both(image: &Image) -> (Vec<bool>, String) {
    let mounted = mount(&chip(image));
    let found = pages(&image.open().0);
    assert_eq!(pages(&mounted), found);
    mounted.check().unwrap();
    assert_eq!(found.2, Some(0), "what is lost is no hole");
    (found.0, found.1)
}

#[test]
fn data_of_a_broken_node_is_lost_and_no_hole() {
    for broken in 0..3 {
        let (mut image, places) = file();
        image.bytes[places[broken] + 100] ^= 1;
        let mut expected = vec![true; 3];
        expected[broken] = false;
        let (good, text) = both(&image);
        assert_eq!(good, expected);
        let (start, end) = (broken * 4096, (broken + 1) * 4096);
        let range = format!("inode 2: bytes {start} to {end}: ");
        assert!(text.starts_with(&range) && text.contains("inode data CRC"), "{text}");
    }
}

#[test]
fn a_file_all_of_whose_nodes_are_broken_has_its_attributes() {
    let (mut image, places) = file();
    for place in places {
        image.bytes[place + 100] ^= 1;
    }
    assert_eq!(both(&image).0, [false; 3]);
    assert_eq!(image.open().0.attr(2).unwrap().size, 3 * u64::from(PAGE));
}

/// The header or the fields of a node are lost, so that its file is unknown.
#[test]
fn a_gap_is_lost_while_a_node_of_an_unknown_file_is_broken() {
    for at in [0, 8, 20, 50] {
        for broken in 0..3 {
            let (mut image, places) = file();
            image.bytes[places[broken] + at] ^= 0x10;
            let mut expected = vec![true; 3];
            expected[broken] = false;
            let (good, text) = both(&image);
            assert_eq!(good, expected, "byte {at} of node {broken}");
            assert!(text.contains("no node, but damaged places"), "{text}");
        }
    }
    let (mut image, places) = file();
    image.bytes[places[1]..][..PAGE as usize + 68].fill(0);
    assert_eq!(both(&image).0, [true, false, true], "zeros are no less lost");
}

#[test]
fn a_hole_that_never_had_a_node_is_one() {
    let (mut image, _) = file();
    image.data(2, 4, 5 * PAGE, 6 * PAGE, &[6; PAGE as usize]);
    assert_eq!(both(&image).0, [true; 6]);
}

/// A power cut leaves torn nodes, and nothing is lost with them.
#[test]
fn broken_nodes_hide_nothing_and_lose_nothing_that_others_hold() {
    let (mut image, _) = file();
    let newer = image.data(2, 4, 0, 3 * PAGE, &[9; PAGE as usize]);
    image.bytes[newer + 100] ^= 1;
    assert_eq!(both(&image).0, [true; 3]);
    let (fs, _) = image.open();
    assert_eq!(content(&fs, "f")[0], 1);
    let doubt = |fs: &Jffs2| {
        let found = fs.late_findings();
        let found = found.iter().find(|finding| finding.code == "older-content").cloned();
        found.map(|finding| (finding.severity, finding.message))
    };
    let (severity, message) = doubt(&fs).unwrap();
    assert_eq!(severity, Severity::Warning);
    assert!(message.starts_with("bytes 0 to 4096: older content"), "{message}");
    // The end of the node was never programmed: that is a cut.
    image.bytes[newer + 2000..newer + 68 + 4096].fill(0xFF);
    let (fs, _) = image.open();
    assert_eq!((content(&fs, "f")[0], doubt(&fs).unwrap().0), (1, Severity::Note));
    // After a rewrite, nothing is doubtful.
    image.data(2, 5, 0, 3 * PAGE, &[7; PAGE as usize]);
    let (fs, _) = image.open();
    assert_eq!((content(&fs, "f")[0], doubt(&fs)), (7, None));
}

/// Writes and overwrites a file until every block has been collected.
fn churn(fs: &Jffs2Rw, name: &[u8]) {
    let by = &Caller::owner(Timestamp::from_seconds(1));
    let kind = eraseblock_vfs::NewKind::Regular;
    let inode = eraseblock_vfs::NewInode { kind, permissions: 0o644, uid: 0, gid: 0 };
    let ino = fs.create(1, name, &inode, by).unwrap();
    for round in 0..100_u32 {
        let mut random = SplitMix64::new(round.into());
        let noise = [0; 4096].map(|_: u8| random.next_u64() as u8);
        fs.write(ino, 0, &noise, by).unwrap();
        while fs.background_step().unwrap() == Background::More {}
    }
}

/// Garbage collection must not turn lost content into a hole, which the next mount would deliver:
/// neither if the node's data is damaged, nor if its file is unknown.
#[test]
fn what_is_lost_stays_lost_while_blocks_are_collected() {
    for at in [100, 20, 8, 0] {
        let (mut image, places) = file();
        image.bytes[places[1] + at] ^= 1;
        let chip = chip(&image);
        let fs = mount(&chip);
        churn(&fs, b"churn");
        fs.check().unwrap();
        assert_eq!(pages(&fs).0, [true, false, true]);
        fs.unmount().unwrap();
        let fs = mount(&chip);
        assert_eq!(pages(&fs).0, [true, false, true], "byte {at}");
        // New data in the range is delivered; the rest of it stays lost.
        fs.write(2, 4096, &[5; 100], &Caller::owner(Timestamp::from_seconds(2))).unwrap();
        churn(&fs, b"more");
        let mut start = [0; 100];
        assert_eq!((fs.read(2, 4096, &mut start).unwrap(), start), (100, [5; 100]));
        assert!(fs.read(2, 4196, &mut start).is_err());
        fs.write(2, 4096, &[6; 4096], &Caller::owner(Timestamp::from_seconds(3))).unwrap();
        assert_eq!(pages(&fs).0, [true; 3]);
        fs.check().unwrap();
        fs.unmount().unwrap();
        assert_eq!(pages(&mount(&chip)).0, [true; 3]);
    }
}

/// A marker is written only where content is missed, and once.
#[test]
fn a_damage_marker_stands_for_remains_that_are_erased() {
    let markers = |chip: &Arc<Chip>| {
        let (fs, _) = Jffs2::open(Source::Device(chip.clone()), &OpenOptions::default()).unwrap();
        fs.info().nodes.damage_markers
    };
    for (at, is_replaced, expected) in [(100, false, 0), (20, true, 0), (20, false, 1)] {
        let (mut image, places) = file();
        image.bytes[places[1] + at] ^= 1;
        if is_replaced {
            image.data(2, 4, PAGE, 3 * PAGE, &[4; PAGE as usize]);
        }
        let chip = chip(&image);
        for name in [b"one", b"two"] {
            let fs = mount(&chip);
            churn(&fs, name);
            fs.check().unwrap();
            fs.unmount().unwrap();
            assert_eq!(markers(&chip), expected, "byte {at}");
        }
    }
}

#[test]
fn attributes_that_are_made_up_are_a_finding() {
    let mut image = Image::new(ByteOrder::Little);
    image.name(1, 1, "dir", 5, 4);
    let place = image.inode(Inode { ino: 5, version: 1, mode: 0o040_700, ..Inode::default() }, &[]);
    image.name(5, 1, "f", 2, 8);
    image.data(2, 1, 0, 1, b"x");
    let (fs, _) = image.open();
    assert_eq!(fs.attr(5).unwrap().permissions, 0o700);
    assert!(fs.late_findings().is_empty());
    image.bytes[place + 30] ^= 1;
    let (fs, _) = image.open();
    assert_eq!((fs.attr(5).unwrap().permissions, content(&fs, "dir/f")), (0o755, b"x".to_vec()));
    assert_eq!(codes(&fs.late_findings()), ["attributes-lost"]);
}

/// Links, devices and directories are always rewritten as a whole. So the previous node is
/// complete, and a torn or decayed newer one is not lost content.
#[test]
fn broken_nodes_of_links_devices_and_directories_are_no_content() {
    let mut image = Image::new(ByteOrder::Little);
    let broken =
        [(3, 10, 0o120_777), (4, 2, 0o020_600), (5, 4, 0o040_755)].map(|(ino, file_type, mode)| {
            image.name(1, ino, &format!("n{ino}"), ino, file_type);
            let data: &[u8] = if ino == 3 { b"target" } else { &[1, 3] };
            let data = if ino == 5 { &[] } else { data };
            let (dsize, isize) = (data.len() as u32, if ino == 3 { 6 } else { 0 });
            let node = Inode { ino, mode, isize, dsize, ..Inode::default() };
            image.inode(Inode { version: 1, ..node }, data);
            // A longer one, so that it would stand out.
            let dsize = dsize + 4;
            image.inode(Inode { version: 2, dsize, ..node }, &[data, &[9; 4]].concat())
        });
    image.name(5, 9, "below", 6, 8);
    image.data(6, 1, 0, 5, b"below");
    for place in broken {
        image.bytes[place + 69] ^= 1;
    }
    let mounted = mount(&chip(&image));
    let fs = image.open().0;
    let seen = |fs: &dyn FileSystem| {
        let link = fs.read_link(fs.resolve(b"n3").unwrap()).unwrap();
        let device = fs.attr(fs.resolve(b"n4").unwrap()).unwrap();
        let mut below = [0; 5];
        fs.read(fs.resolve(b"n5/below").unwrap(), 0, &mut below).unwrap();
        (link, device.rdev, below)
    };
    assert_eq!(seen(&fs), (b"target".to_vec(), (3, 1), *b"below"));
    assert_eq!(seen(&mounted), seen(&fs));
    assert!(!codes(&fs.late_findings()).contains(&"older-content"));
    mounted.check().unwrap();
}
