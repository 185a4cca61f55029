//! Images as text and back.

use crate::sample::{Sample, noise};
use eraseblock::observe::Notes;
use eraseblock::raw::census::walk::{Tables, walk};
use eraseblock::raw::census::{Plan, text};
use eraseblock::raw::mtd::ReadAt;
use eraseblock::target::{Place, Shape, structures};
use std::fs;

/// An image of each format, and one of none.
pub(crate) fn images(sample: &Sample) -> Vec<&'static str> {
    let jffs2 = |name: &'static str, more: &[&str]| {
        let made = ["mkfs", "jffs2", "src", "-q", "-o", name];
        sample.ok(&[&made[..], more].concat());
        name
    };
    fs::write(sample.path("none"), []).unwrap();
    let mixed = [&noise(777)[..], &[0; 5000], &vec![0xFF; 70_000], b"hsqs", &noise(1)].concat();
    fs::write(sample.path("unknown"), mixed).unwrap();
    sample.ok(&["mkfs", "yaffs2", "src", "-q", "-o", "yaffs", "--page", "2048", "--peb", "128KiB"]);
    fs::write(sample.path("src/big"), noise(30_000)).unwrap();
    vec![
        sample.ubifs(),
        sample.ubi(),
        jffs2("nor", &["--peb", "64KiB"]),
        jffs2("nand", &["--peb", "16KiB", "--summary", "--pad"]),
        jffs2("big", &["--peb", "16KiB", "--summary", "--byte-order", "big"]),
        "yaffs",
        "unknown",
        "none",
    ]
}

fn cut(sample: &Sample, image: &str) -> Plan {
    let place = Place::parse(sample.path(image).as_os_str()).unwrap();
    structures::cut(&place, &Shape::default(), &mut Notes::new(false)).unwrap().plan
}

fn disassembled(image: &[u8], plan: &Plan) -> Vec<u8> {
    let mut text = Vec::new();
    text::disassemble(&image.to_vec(), plan, &Tables::new(), None, &mut text).unwrap();
    text
}

fn assembled(text: &[u8]) -> Result<Vec<u8>, text::TextError> {
    let mut image = Vec::new();
    text::assemble(&mut &text[..], None, &mut image)?;
    Ok(image)
}

/// The next of a row of numbers without order.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn below(state: &mut u64, most: usize) -> usize {
    usize::try_from(next(state)).unwrap() % most
}

/// Damages a few places: single bits, bytes, stretches of erased flash, copies of other places.
fn damage(image: &mut [u8], state: &mut u64) {
    let len = image.len();
    for _ in 0..=next(state) % 8 {
        let at = below(state, len);
        let span = (1 + below(state, 5000)).min(image.len() - at);
        match next(state) % 5 {
            0 => image[at] ^= 1 << (next(state) % 8),
            1 => image[at] = next(state).to_le_bytes()[0],
            2 => image[at..at + span].fill(0xFF),
            3 => image[at..at + span].fill(0),
            _ => {
                let from = below(state, len - span + 1);
                image.copy_within(from..from + span, at);
            }
        }
    }
}

#[test]
fn the_text_of_every_image_is_assembled_to_the_same_image() {
    let sample = Sample::new();
    for image in images(&sample) {
        let bytes = fs::read(sample.path(image)).unwrap();
        sample.ok(&["disasm", image, "-o", "a.ebt"]);
        sample.ok(&["asm", "a.ebt", "-o", "again"]);
        assert!(fs::read(sample.path("again")).unwrap() == bytes, "{image}");
        let inline = sample.ok(&["disasm", image]).out;
        assert!(inline.starts_with("eraseblock-text 1 size=") && inline.ends_with("\nend\n"));
        sample.ok(&["disasm", image, "--inline", "-o", "b.ebt"]);
        assert_eq!(fs::read_to_string(sample.path("b.ebt")).unwrap(), inline);
        assert!(!sample.path("b.ebt.d").exists());
        assert!(assembled(inline.as_bytes()).unwrap() == bytes, "{image}");
    }
}

/// Nearly everything in an undamaged image has a structure.
#[test]
fn structures_are_recognised() {
    let sample = Sample::new();
    for (image, kinds) in [
        (
            sample.ubifs(),
            &["ubifs.sb", "ubifs.mst", "ubifs.cs", "ubifs.idx", "lpt.pnode", "lpt.ltab"][..],
        ),
        (
            sample.ubi(),
            &["ubi.ec", "ubi.vid", "ubi.volume", "ubifs.dent", "ubifs.data", "lpt.nnode"],
        ),
    ] {
        let text = sample.ok(&["disasm", image]).out;
        for kind in kinds {
            assert!(text.contains(&format!(" {kind}")), "{image}: {kind}");
        }
        assert!(!text.contains('!') && !text.contains(" rest="), "{image}");
    }
    fs::write(sample.path("src/big"), noise(30_000)).unwrap();
    for order in ["little", "big"] {
        let made = ["mkfs", "jffs2", "src", "-q", "-o", "j", "--peb", "16KiB", "--summary"];
        sample.ok(&[&made[..], &["--byte-order", order]].concat());
        let text = sample.ok(&["disasm", "j"]).out;
        for kind in ["jffs2.inode", "jffs2.dirent", "jffs2.summary", "jffs2.cleanmarker"] {
            assert!(text.contains(&format!(" {kind}")), "{order}: {kind}");
        }
        assert!(!text.contains('!') && !text.contains(" hex "), "{order}");
    }
}

/// With ERASEBLOCK_ASM=FROM..TO, so many damages of each image instead of twelve.
#[test]
fn damaged_images_are_assembled_to_the_same_damage() {
    let asked = std::env::var("ERASEBLOCK_ASM").ok();
    let (from, to) = asked.as_deref().map_or((0, 12), |text| {
        let (from, to) = text.split_once("..").expect("FROM..TO");
        (from.parse().expect("a number"), to.parse().expect("a number"))
    });
    let sample = Sample::new();
    let mut count = 0_u64;
    for image in images(&sample) {
        let (plan, sound) = (cut(&sample, image), fs::read(sample.path(image)).unwrap());
        for round in if sound.is_empty() { 0..0 } else { from..to } {
            let mut state: u64 = 20 + 1_000_003 * round;
            let mut bytes = sound.clone();
            damage(&mut bytes, &mut state);
            let text = disassembled(&bytes, &plan);
            assert!(assembled(&text).unwrap() == bytes, "{image}: {round}");
            count += 1;
        }
    }
    println!("{count} damaged images, each the same after disasm and asm");
}

#[test]
fn records_tile_every_image() {
    let sample = Sample::new();
    let mut state = 21;
    for image in images(&sample) {
        let (plan, mut bytes) = (cut(&sample, image), fs::read(sample.path(image)).unwrap());
        for _ in 0..3 {
            let mut end = 0;
            walk(&bytes, &plan, &Tables::new(), &mut |record| {
                assert_eq!(record.offset, end, "{image}");
                assert!(record.len > 0);
                end += record.len;
                Ok(())
            })
            .unwrap();
            assert_eq!(end, bytes.size().unwrap(), "{image}");
            if !bytes.is_empty() {
                damage(&mut bytes, &mut state);
            }
        }
    }
}

/// A changed field changes its bytes and the checksum over it, and the file system agrees.
#[test]
fn a_field_is_changed_in_the_text() {
    let sample = Sample::new();
    for (image, kind, from, to) in [
        (sample.ubi(), "ubifs.ino", " mode=0o100755", " mode=0o100700"),
        (sample.ubifs(), "ubifs.ino", " mode=0o100755", " mode=0o100700"),
        {
            sample.ok(&["mkfs", "jffs2", "src", "-q", "-o", "j", "--peb", "64KiB"]);
            ("j", "jffs2.inode", " mode=0o100755", " mode=0o100700")
        },
    ] {
        let before = fs::read(sample.path(image)).unwrap();
        let text = sample.ok(&["disasm", image, "--inline"]).out;
        let changed: Vec<String> = text
            .lines()
            .map(|line| if line.contains(kind) { line.replace(from, to) } else { line.to_owned() })
            .collect();
        let count = text.lines().zip(&changed).filter(|(one, other)| one != other).count();
        assert!(count > 0);
        fs::write(sample.path("t"), changed.join("\n") + "\n").unwrap();
        sample.ok(&["asm", "t", "-o", "after"]);
        let after = fs::read(sample.path("after")).unwrap();
        let differ = before.iter().zip(&after).filter(|(one, other)| one != other).count();
        assert!(
            differ >= 2 * count && differ <= 5 * count,
            "{image}: {differ} bytes, {count} nodes"
        );
        let volume = if image == "all.ubi" { "after:rootfs" } else { "after" };
        assert!(
            sample.ok(&["stat", volume, "bin/tool", "--json"]).out.contains("\"0700\""),
            "{image}"
        );
        sample.ok(&["check", volume]);
    }
}

#[test]
fn a_wrong_checksum_stays_wrong() {
    let sample = Sample::new();
    let image = sample.ubi();
    let mut bytes = fs::read(sample.path(image)).unwrap();
    bytes[62] ^= 1;
    fs::write(sample.path("bad"), &bytes).unwrap();
    let text = sample.ok(&["disasm", "bad"]).out;
    let line = text.lines().find(|line| line.contains("ubi.ec")).unwrap();
    assert!(line.contains(" hdr_crc=!0x"), "{line}");
    assert!(assembled(text.as_bytes()).unwrap() == bytes);
    let word = line.split(' ').find(|word| word.starts_with("hdr_crc")).unwrap();
    let right = assembled(text.replace(&format!(" {word}"), "").as_bytes()).unwrap();
    assert!(right == fs::read(sample.path(image)).unwrap());
}

#[test]
fn a_text_that_is_none_is_refused_with_its_line() {
    let sample = Sample::new();
    let start = "eraseblock-text 1 size=64\nsegment bytes @0 len=64\n";
    for (text, message) in [
        ("hello\n", "line 1: this is no text of an image"),
        ("eraseblock-text 2 size=1\n", "line 1: version 2: expected 1"),
        ("eraseblock-text 1\n", "`size` with a number is missing"),
        (start, "the text ends without `end`"),
        (&format!("{start}@0 ff*64\n@64 ff*1\nend\n"), "line 4: 1 bytes do not fit"),
        (&format!("{start}@0 ff*63\nend\n"), "line 4: 63 bytes were described, expected 64"),
        (&format!("{start}@1 ff*63\n"), "line 3: @1: the record before it ends at @0"),
        (&format!("{start}@0 hex 0g\n"), "expected pairs of hexadecimal digits"),
        (&format!("{start}@0 hex ff 00\n"), "`00` is no field of this"),
        (&format!("{start}@0 ubi.ec ec=1\n"), "the field `vid_hdr_offset` is missing"),
        (&format!("{start}@0 ubi.nothing ec=1\n"), "`ubi.nothing` is no kind of structure"),
        (&format!("{start}@0 lpt.pnode:3 number=1\n"), "no line `lpt` says how to read it"),
        (
            &format!(
                "{start}@0 ubi.ec ec=99999999999999999999 vid_hdr_offset=1 data_offset=1 image_seq=1\n"
            ),
            "expected a number",
        ),
        (
            &format!(
                "{start}@0 ubi.ec ec=1 vid_hdr_offset=0x100000000 data_offset=1 image_seq=1\n"
            ),
            "expected a number of 32 bits",
        ),
        (
            &format!(
                "{start}@0 ubi.ec ec=1 vid_hdr_offset=1 data_offset=1 image_seq=1 hdr_crc=0x1\n"
            ),
            "`hdr_crc` follows the fields",
        ),
        (&format!("{start}@0 hex file:missing\n"), "missing: "),
        (&format!("{start}@0 hex file:../t\n"), "`../t` is no file name"),
    ] {
        fs::write(sample.path("t"), text).unwrap();
        let run = sample.run(&["asm", "t", "-o", "x"]);
        assert_eq!(run.code, 3, "{text}");
        assert!(
            run.err.contains("error: t: line") && run.err.contains(message),
            "{text}: {}",
            run.err
        );
        assert!(!sample.path("x").exists());
    }
}

#[test]
fn contents_beside_the_text_are_checked() {
    let sample = Sample::new();
    fs::write(sample.path("a"), noise(1000)).unwrap();
    sample.ok(&["disasm", "a", "-o", "t", "--json"]);
    let name = fs::read_dir(sample.path("t.d")).unwrap().next().unwrap().unwrap().file_name();
    let name = name.into_string().unwrap();
    let kept = sample.path("t.d").join(&name);
    fs::write(&kept, noise(999)).unwrap();
    assert!(sample.run(&["asm", "t", "-o", "b"]).err.contains("its content was changed"));
    fs::rename(&kept, sample.path("t.d/mine")).unwrap();
    let text = fs::read_to_string(sample.path("t")).unwrap();
    let text = text.replace(&name, "mine").replace("=1000", "=999");
    fs::write(sample.path("t"), text).unwrap();
    sample.ok(&["asm", "t", "-o", "b"]);
    assert_eq!(fs::read(sample.path("b")).unwrap(), noise(999));
}

#[test]
fn a_part_of_a_file_is_written_as_text() {
    let sample = Sample::new();
    let image = fs::read(sample.path(sample.ubifs())).unwrap();
    fs::write(sample.path("more"), [&noise(4096)[..], &image].concat()).unwrap();
    let whole = sample.ok(&["disasm", "root.ubifs"]).out;
    assert_eq!(sample.ok(&["disasm", "more@4096"]).out, whole);
    assert!(sample.ok(&["disasm", "more"]).out.contains("\nsegment ubifs @4096 "));
    let run = sample.run(&["disasm", "root.ubifs:rootfs"]);
    assert!(run.code == 3 && run.err.contains("no volumes"), "{}", run.err);
    assert!(sample.run(&["disasm", "src"]).err.contains("is a folder"));
}

/// The census of an image: state, kind and length of each record, and the words of its line.
fn census(sample: &Sample, image: &str) -> Vec<(String, String, u64, String)> {
    let text = sample.ok(&["debug", image, "-c", "census all"]).out;
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (words[3].to_owned(), words[2].to_owned(), words[1].parse().unwrap(), line.to_owned())
    };
    text.lines().map(entry).collect()
}

#[test]
fn the_census_counts_every_byte() {
    let sample = Sample::new();
    for image in images(&sample) {
        let size = fs::metadata(sample.path(image)).unwrap().len();
        let all = census(&sample, image);
        assert_eq!(all.iter().map(|entry| entry.2).sum::<u64>(), size, "{image}");
        let json = sample.ok(&["debug", image, "-c", "census", "--json"]).out;
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let sums = json["census"].as_object().unwrap().values();
        let bytes: u64 = sums.map(|sum| sum["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, size, "{image}");
        if ["yaffs", "unknown", "none"].contains(&image) {
            assert!(all.iter().all(|entry| entry.0 == "unknown"), "{image}");
            continue;
        }
        // Nothing was ever deleted or replaced in an image that was just made.
        for state in ["deleted", "doubtful", "torn", "garbage", "old-block", "foreign", "unknown"] {
            let found = all.iter().find(|entry| entry.0 == state);
            assert!(found.is_none(), "{image}: {found:?}");
        }
    }
}

/// Live bytes of each LEB, as the census says, are those that the LPT counts; a file that is deleted
/// or replaced leaves nodes that are not live; the reader sees as many inodes and names.
#[test]
fn states_of_ubifs_agree_with_the_file_system() {
    let sample = Sample::new();
    sample.ubi();
    fs::write(sample.path("more"), noise(50_000)).unwrap();
    for commands in [
        &["put more one", "put more two", "sync"][..],
        &["rm one", "mv two three", "chmod 600 etc/hosts"],
        &["truncate 9000 three", "rm -r bin", "sync"],
    ] {
        let list: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        sample.ok(&[&["edit", "all.ubi:rootfs", "--size", "16MiB"][..], &list].concat());
        sample.ok(&["check", "all.ubi"]);
        let all = census(&sample, "all.ubi");
        let live =
            |kind: &str| all.iter().filter(|entry| entry.0 == "live" && entry.1 == kind).count();
        let tree = sample.ok(&["manifest", "all.ubi:rootfs"]).out;
        let names = tree.lines().count();
        assert_eq!(live("ubifs.dent"), names - 1, "{commands:?}");
        let links = tree.lines().filter(|line| !line.contains(" group=-")).count();
        assert_eq!(live("ubifs.ino"), names - links / 2, "{commands:?}");
        let blocks: u64 = tree
            .lines()
            .filter(|line| line.split(' ').nth(1) == Some("-") && !line.starts_with("bin/alias "))
            .map(|line| line.split("size=").nth(1).unwrap().split(' ').next().unwrap())
            .map(|size| size.parse::<u64>().unwrap().div_ceil(4096))
            .sum();
        assert_eq!(live("ubifs.data") as u64, blocks, "{commands:?}");
        assert_eq!(live("ubifs.mst"), 2, "{commands:?}");
        for state in ["torn", "garbage", "doubtful", "foreign"] {
            let found = all.iter().find(|entry| entry.0 == state);
            assert!(found.is_none(), "{commands:?}: {found:?}");
        }
    }
    let all = census(&sample, "all.ubi");
    for state in ["deleted", "superseded"] {
        assert!(all.iter().any(|entry| entry.0 == state), "{state}");
    }
    assert!(all.iter().any(|entry| entry.1 == "ubifs.ino" && entry.3.contains(" by=@")));
}

#[test]
fn states_of_jffs2_agree_with_the_file_system() {
    let sample = Sample::new();
    fs::write(sample.path("src/big"), noise(30_000)).unwrap();
    sample.ok(&["mkfs", "jffs2", "src", "-q", "-o", "j", "--peb", "64KiB", "--pad-to", "1MiB"]);
    fs::write(sample.path("more"), noise(9000)).unwrap();
    for commands in [&["put more one"][..], &["rm one", "truncate 5000 big", "mv bin/tool bin/t"]] {
        let list: Vec<&str> = commands.iter().flat_map(|command| ["-c", command]).collect();
        let run = sample.run(&[&["edit", "j"][..], &list].concat());
        assert!(run.code <= 1, "{}", run.err);
        let all = census(&sample, "j");
        let live =
            |kind: &str| all.iter().filter(|entry| entry.0 == "live" && entry.1 == kind).count();
        let names = sample.ok(&["manifest", "j"]).out.lines().count();
        assert_eq!(live("jffs2.dirent"), names - 1, "{commands:?}");
        for state in ["torn", "garbage", "doubtful"] {
            let found = all.iter().find(|entry| entry.0 == state);
            assert!(found.is_none(), "{commands:?}: {found:?}");
        }
    }
    let all = census(&sample, "j");
    assert!(all.iter().any(|entry| entry.0 == "deleted" && entry.1 == "jffs2.inode"));
    assert!(all.iter().any(|entry| entry.0 == "superseded" && entry.1 == "jffs2.inode"));
}

#[test]
fn a_place_is_shown_in_all_coordinates() {
    let sample = Sample::new();
    sample.ubi();
    let all = census(&sample, "all.ubi");
    let root =
        all.iter().find(|entry| entry.1 == "ubifs.ino" && entry.3.contains("key=1/ino ")).unwrap();
    let place = root.3.split(' ').next().unwrap();
    let ask = |command: &str| sample.ok(&["debug", "all.ubi", "-c", command]).out;
    let places = ask(&format!("where {place}"));
    let lines: Vec<&str> = places.lines().collect();
    assert_eq!(lines[1], place);
    for same in [lines[0], lines[2], lines[3]] {
        assert_eq!(ask(&format!("where {same}")), places, "{same}");
        assert!(ask(&format!("p {same}")).contains("  mode = 0o40755\n"));
    }
    assert!(ask(&format!("refs {place}")).starts_with("from @"));
    assert!(ask("find key 1/ino").contains(place));
    assert!(ask("find ino 1").contains(" ubifs.dent live key=1/dent/"));
    assert_eq!(ask("find crc-bad"), "");
    assert!(ask("x byte 0 16").starts_with("00000000  55 42 49 23 01"));
    for (command, message) in [
        ("nonsense", "is no command"),
        ("p @999999.0", "expected an address"),
        ("p byte 99999999999", "the image has"),
        ("x byte 0 99999999", "expected a length"),
        ("find that", "expected: find"),
    ] {
        let run = sample.run(&["debug", "all.ubi", "-c", command]);
        assert!(run.code == 2 && run.err.contains(message), "{command}: {}", run.err);
    }
}

#[test]
fn differences_are_named_by_tree_nodes_and_blocks() {
    let sample = Sample::new();
    let image = sample.ubi();
    fs::copy(sample.path(image), sample.path("b")).unwrap();
    for by in ["tree", "nodes", "blocks"] {
        let (one, other) = if by == "tree" { ("all.ubi:rootfs", "b:rootfs") } else { (image, "b") };
        let run = sample.ok(&["diff", one, other, "--by", by]);
        assert_eq!(run.out, "", "{by}");
    }
    fs::write(sample.path("new"), "new\n").unwrap();
    let commands = ["-c", "put new etc/new", "-c", "rm etc/.hidden", "-c", "chmod 600 etc/hosts"];
    sample.ok(&[&["edit", "b:rootfs", "--size", "16MiB"][..], &commands].concat());
    let run = sample.run(&["diff", "all.ubi:rootfs", "b:rootfs"]);
    assert_eq!(run.code, 1, "{}", run.err);
    for line in ["+ /etc/new\n", "- /etc/.hidden\n", "~ /etc/hosts: permissions 0644 -> 0600"] {
        assert!(run.out.contains(line), "{line}: {}", run.out);
    }
    assert!(!run.out.contains("bin"), "{}", run.out);
    let run = sample.run(&["diff", image, "b", "--by", "nodes", "--json"]);
    assert_eq!(run.code, 1);
    let json: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(json["same"], false);
    let added = |change: &&serde_json::Value| {
        change["change"] == "added" && change["text"].as_str().unwrap().contains("name=\"new\"")
    };
    assert_eq!(json["changes"].as_array().unwrap().iter().filter(added).count(), 1, "{}", run.out);
    let run = sample.run(&["diff", image, "b", "--by", "blocks"]);
    assert!(run.code == 1 && run.out.contains("volume 1 leb 1 "), "{}", run.out);
}

/// One field of one node is changed in the text: `diff` names exactly that.
#[test]
fn a_changed_field_is_the_only_difference() {
    let sample = Sample::new();
    let image = sample.ubifs();
    let text = sample.ok(&["disasm", image]).out;
    let line = text.lines().find(|line| line.contains("key=1/ino ")).unwrap();
    let changed = line.replace(" mode=0o40755", " mode=0o40700");
    fs::write(sample.path("t"), text.replace(line, &changed)).unwrap();
    sample.ok(&["asm", "t", "-o", "b"]);
    let run = sample.run(&["diff", image, "b", "--by", "nodes"]);
    let place = line.split(' ').next().unwrap();
    assert_eq!(run.out, format!("~ {place} ubifs.ino: mode 0o40755 -> 0o40700\n"));
    let run = sample.run(&["diff", image, "b"]);
    assert_eq!(run.out, "~ /: permissions 0755 -> 0700\n");
    let run = sample.run(&["diff", image, "b", "--by", "blocks"]);
    assert_eq!(run.out.lines().count(), 1);
    assert_eq!(sample.run(&["diff", image, "missing"]).code, 3);
}
