//! One volume for each rule: what is damaged, the level that it takes, the row of the specification
//! that the plan names, and what is lost.

use crate::volume::*;
use eraseblock_mtd::LebDevice;
use eraseblock_repair::{Level, Part};
use eraseblock_vfs::{FileSystem, SetAttr, WritableFileSystem, XattrMode};
use std::sync::Arc;

/// Damages a sample, repairs it, and returns the volume, the losses as sentences, and the lines of the
/// plan.
fn case(
    damage: impl FnOnce(&Memory),
    needed: Level,
    row: &str,
) -> (Arc<Memory>, Vec<String>, Vec<String>) {
    let volume = sample();
    damage(&volume);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(needed), "{lines:#?}");
    let named = repair
        .plan()
        .actions()
        .iter()
        .any(|action| action.rule.split(", ").any(|one| one == row) || action.code == row);
    assert!(named, "{row}: {lines:#?}");
    let losses = repair.plan().losses().map(eraseblock_repair::Loss::describe).collect();
    (volume, losses, lines)
}

/// A case that loses nothing: the tree is what it was.
fn safe(damage: impl FnOnce(&Memory), row: &str) {
    let before = tree_of(&sample());
    let (volume, losses, lines) = case(damage, Level::Safe, row);
    assert!(losses.is_empty(), "{losses:?}");
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
}

fn without(tree: &Tree, paths: &[&str]) -> Tree {
    let mut rest = tree.clone();
    for path in paths {
        rest.remove(path.as_bytes()).unwrap_or_else(|| panic!("{path}"));
    }
    rest
}

#[test]
fn one_master_copy() {
    safe(|volume| volume.tear(volume.masters()[0], 100), "master-disagreement");
}

#[test]
fn totals_of_the_master() {
    safe(
        |volume| {
            let free = volume.in_master(80) - 512;
            for master in volume.masters() {
                volume.set(master, 80, &free.to_le_bytes());
            }
        },
        "E1",
    );
}

#[test]
fn the_highest_inode_number() {
    safe(
        |volume| {
            for master in volume.masters() {
                volume.set(master, 24, &65_u64.to_le_bytes());
            }
        },
        "M8",
    );
}

#[test]
fn the_lpt() {
    safe(
        |volume| {
            let (leb, at) = (volume.in_master(120) as usize, volume.in_master(124) as usize);
            let byte = volume.bytes(leb)[at + 4] ^ 1;
            volume.put(leb, at + 4, &[byte]);
        },
        "not-mountable",
    );
}

#[test]
fn the_log() {
    safe(
        |volume| {
            let leb = volume.in_master(44) as usize;
            volume.put(leb, 8, &[0; 8]);
        },
        "log-lost",
    );
}

/// A sample that was used, and not unmounted.
fn in_use(volume: &Arc<Memory>) {
    let fs = mount(volume);
    fs.set_xattr(fs.root(), b"user.note", b"1", XattrMode::Either, NOW).unwrap();
    fs.sync().unwrap();
}

/// The next mount removes what an interrupted commit left at the head of the LPT, and nothing else after it:
/// in real Linux the self-check of the commit refused a byte there.
#[test]
fn the_lpt_after_its_head() {
    let volume = sample();
    in_use(&volume);
    let before = tree_of(&volume);
    let (leb, head) = (volume.in_master(128) as usize, volume.in_master(132) as usize);
    volume.put(leb, head, &[0x55]);
    assert!(examined(&volume).unwrap().plan().is_empty(), "a cut leaves that");
    volume.put(leb, head, &[0xFF]);
    volume.put(leb, head + 2048, &[0x55]);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Safe), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("P3")), "{lines:#?}");
    assert_eq!(tree_of(&volume), before);
}

/// A mount drops a torn end of the log, but real Linux calls it a bad node first.
#[test]
fn a_torn_end_of_the_log() {
    let volume = sample();
    in_use(&volume);
    let before = tree_of(&volume);
    let last = volume.find(8, |_| true);
    volume.tear(last, 60);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Safe), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("log-recovered")), "{lines:#?}");
    assert_eq!(tree_of(&volume), before);
}

/// A reference that is damaged after the journal in its LEB was written: a scan finds nodes that no mount
/// sees.
#[test]
fn a_reference_to_content_of_the_journal() {
    let volume = sample();
    let fs = mount(&volume);
    let ino = fs.create(1, b"late", &file(), NOW).unwrap();
    fs.write(ino, 0, &content(8, 4096), NOW).unwrap();
    fs.sync_file(ino).unwrap();
    drop(fs);
    let start = volume.find(10, |_| true);
    let is_first = |node: &Found| (node.leb, node.at) == (start.leb, 32) && node.kind == 8;
    volume.tear(volume.nodes().into_iter().find(is_first).unwrap(), 60);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Drop), "{lines:#?}");
    assert!(repair.plan().losses().any(|loss| loss.part == Part::Journal), "{lines:#?}");
}

#[test]
fn link_counts() {
    safe(|volume| volume.set(volume.inode(volume.ino(b"file")), 92, &7_u32.to_le_bytes()), "X7");
    safe(|volume| volume.set(volume.inode(volume.ino(b"dir")), 92, &9_u32.to_le_bytes()), "X7");
}

#[test]
fn sizes_of_directories_and_links() {
    safe(|volume| volume.set(volume.inode(volume.ino(b"dir")), 48, &1_u64.to_le_bytes()), "X9");
    safe(|volume| volume.set(volume.inode(volume.ino(b"link")), 48, &1_u64.to_le_bytes()), "X9");
}

#[test]
fn sums_about_xattrs() {
    for (field, to) in [(116, 9_u32), (120, 1), (128, 3)] {
        safe(
            |volume| volume.set(volume.inode(volume.ino(b"file")), field, &to.to_le_bytes()),
            "X10",
        );
    }
}

#[test]
fn content_beyond_the_size() {
    let (volume, losses, _) = case(
        |volume| volume.set(volume.inode(volume.ino(b"file")), 48, &4096_u64.to_le_bytes()),
        Level::Safe,
        "X11",
    );
    assert!(losses.is_empty());
    assert_eq!(tree_of(&volume), tree_of(&sample()));
}

#[test]
fn the_type_in_an_entry() {
    safe(|volume| volume.set(volume.entry(b"file"), 49, &[1]), "X4");
    safe(|volume| volume.set(volume.entry(b"sub"), 49, &[0]), "X4");
}

#[test]
fn the_key_of_an_entry() {
    // The index has the same wrong key, or no mount would find the entry damaged.
    let volume = sample();
    let entry = volume.entry(b"dev");
    let old = volume.bytes(entry.leb)[entry.at + 24..entry.at + 32].to_vec();
    let mut key = old.clone();
    key[0..4].copy_from_slice(&1_u32.to_le_bytes());
    key[4] ^= 1;
    let before = tree_of(&volume);
    volume.set(entry, 24, &key);
    for node in volume.nodes().into_iter().filter(|node| node.kind == 9) {
        let bytes = volume.bytes(node.leb)[node.at..node.at + node.len].to_vec();
        for branch in (28..node.len).step_by(20) {
            if bytes[branch + 12..branch + 20] == old {
                volume.set(node, branch + 12, &key);
            }
        }
    }
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Safe), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("N7")), "{lines:#?}");
    assert_eq!(tree_of(&volume), before);
}

#[test]
fn the_length_of_a_name() {
    safe(|volume| volume.set(volume.entry(b"dev"), 50, &2_u16.to_le_bytes()), "N6");
}

#[test]
fn fields_of_inodes() {
    safe(|volume| volume.set(volume.inode(volume.ino(b"file")), 132, &9_u16.to_le_bytes()), "N3");
    safe(|volume| volume.set(volume.inode(volume.ino(b"link")), 112, &9_u32.to_le_bytes()), "N3");
    // The permissions stay, the type is that of names and content.
    for name in [&b"file"[..], b"dir", b"link", b"dev"] {
        safe(
            |volume| {
                let node = volume.inode(volume.ino(name));
                let mode = volume.bytes(node.leb)[node.at + 105] & 0x0F;
                volume.set(node, 105, &[mode | 0x50]);
            },
            "N3",
        );
    }
    safe(|volume| volume.set(volume.inode(volume.ino(b"file")), 48, &[0xFF; 8]), "N3");
}

#[test]
fn the_flag_of_an_xattr() {
    safe(
        |volume| {
            let value = volume.find(0, |node| node[160..] == *b"value");
            volume.set(value, 108, &0_u32.to_le_bytes());
        },
        "X5",
    );
}

#[test]
fn sequence_numbers() {
    // Content that is older than its inode.
    safe(
        |volume| {
            let ino = volume.ino(b"file");
            let creat = volume.inode(ino);
            let block = volume.block(ino, 0);
            let sqnum = volume.bytes(creat.leb)[creat.at + 40..creat.at + 48].to_vec();
            volume.set(block, 8, &sqnum);
        },
        "N2",
    );
}

#[test]
fn a_lost_block_becomes_a_hole() {
    let volume = sample();
    let ino = volume.ino(b"file");
    volume.tear(volume.block(ino, 2), 100);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Drop), "{lines:#?}");
    let losses: Vec<_> = repair.plan().losses().collect();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert_eq!(losses[0].part, Part::Content { from: 8192, to: 12_288 });
    assert_eq!(losses[0].ino, ino as u32);
    assert_eq!(repair.quarantine().len(), 1);
    let mut expected = content(2, 20_000);
    expected[8192..12_288].fill(0);
    let fs = opened(&volume);
    let mut bytes = vec![1; 20_000];
    eraseblock_vfs::FileSystem::read(&fs, ino, 0, &mut bytes).unwrap();
    assert!(bytes == expected);
}

#[test]
fn a_lost_entry_leaves_its_inode_in_lost_found() {
    let before = tree_of(&sample());
    let (volume, losses, _) =
        case(|volume| volume.tear(volume.entry(b"dev"), 56), Level::Drop, "N1");
    assert_eq!(losses.len(), 1, "{losses:?}");
    let after = tree_of(&volume);
    let moved = format!("/lost+found/INO_{}_0", sample().ino(b"dev"));
    assert_eq!(after.get(moved.as_bytes()), before.get(&b"/dev"[..]), "{after:?}");
    assert_eq!(without(&before, &["/dev"]), without(&after, &["/lost+found", &moved]));
}

#[test]
fn a_lost_directory_entry_moves_all_of_the_directory() {
    let before = tree_of(&sample());
    let (volume, _, lines) =
        case(|volume| volume.tear(volume.entry(b"dir"), 56), Level::Drop, "X6");
    let after = tree_of(&volume);
    let dir = format!("/lost+found/INO_{}_0", sample().ino(b"dir"));
    for below in ["", "/sub", "/sub/deep"] {
        let (old, new) = (format!("/dir{below}"), format!("{dir}{below}"));
        assert_eq!(after.get(new.as_bytes()), before.get(old.as_bytes()), "{new}: {lines:#?}");
    }
}

#[test]
fn a_lost_inode_of_a_file_is_made_again() {
    let (volume, losses, _) =
        case(|volume| volume.tear(volume.inode(volume.ino(b"deep")), 60), Level::Drop, "X3");
    assert!(losses.iter().any(|loss| loss.contains("deep: owner")), "{losses:?}");
    let fs = opened(&volume);
    let ino = eraseblock_vfs::FileSystem::resolve(&fs, b"dir/sub/deep").unwrap();
    let attr = eraseblock_vfs::FileSystem::attr(&fs, ino).unwrap();
    // The owner of the directory alone may read it.
    assert_eq!((attr.permissions, attr.uid, attr.gid, attr.size), (0o600, 3, 4, 3000));
}

#[test]
fn a_lost_inode_of_a_link_takes_the_name_away() {
    let before = tree_of(&sample());
    let (volume, losses, _) =
        case(|volume| volume.tear(volume.inode(volume.ino(b"link")), 60), Level::Drop, "X3");
    assert!(losses.iter().any(|loss| loss == "link: the name"), "{losses:?}");
    assert_eq!(tree_of(&volume), without(&before, &["/link"]));
}

#[test]
fn a_lost_inode_of_a_directory_keeps_its_entries() {
    let before = tree_of(&sample());
    for name in [&b"dir"[..], b"sub"] {
        let (volume, losses, _) =
            case(|volume| volume.tear(volume.inode(volume.ino(name)), 60), Level::Drop, "X2");
        assert_eq!(losses.len(), 2, "{losses:?}");
        let paths = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
        assert_eq!(paths(&tree_of(&volume)), paths(&before));
    }
}

#[test]
fn a_lost_root_keeps_its_entries() {
    let before = tree_of(&sample());
    let (volume, _, lines) =
        case(|volume| volume.tear(volume.inode(1), 60), Level::Drop, "root-lost");
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
}

/// The reader delivers the tree under a root that it makes up. The owner and the times of that one were
/// missed after the repair, which keeps those of the real inode, so it was refused.
#[test]
fn a_root_that_says_it_is_a_file_is_a_directory_again() {
    let before = tree_of(&sample());
    let file = 0o100_755_u32.to_le_bytes();
    let (volume, losses, lines) =
        case(|volume| volume.set(volume.inode(1), 104, &file), Level::Safe, "N4");
    assert_eq!(tree_of(&volume), before, "{lines:#?}");
    assert!(losses.is_empty(), "{losses:?}");
}

#[test]
fn a_dangling_name_goes() {
    let before = tree_of(&sample());
    let (volume, losses, _) = case(
        |volume| volume.set(volume.entry(b"dev"), 40, &900_000_u64.to_le_bytes()),
        Level::Drop,
        "X3",
    );
    assert_eq!(losses, ["dev: the name"]);
    let lost = format!("/lost+found/INO_{}_0", sample().ino(b"dev"));
    assert_eq!(without(&tree_of(&volume), &["/lost+found", &lost]), without(&before, &["/dev"]));
}

#[test]
fn an_xattr_without_its_value() {
    let (volume, losses, _) = case(
        |volume| {
            let value = volume.find(0, |node| node[160..] == *b"value");
            volume.tear(value, 161);
        },
        Level::Drop,
        "X3",
    );
    assert!(losses.iter().any(|loss| loss.contains("the xattr user.name")), "{losses:?}");
    assert!(tree_of(&volume)[&b"/file"[..]].ends_with("[]"));
}

#[test]
fn an_xattr_entry_that_is_lost() {
    let (volume, losses, _) = case(
        |volume| {
            let entry = volume.find(3, |node| node[56..].starts_with(b"user.name"));
            volume.tear(entry, 57);
        },
        Level::Drop,
        "X6",
    );
    assert!(!losses.is_empty());
    assert!(tree_of(&volume)[&b"/file"[..]].ends_with("[]"));
}

#[test]
fn directories_in_a_circle() {
    // `sub` is where `dir` should be: each contains the other.
    let (volume, losses, lines) = case(
        |volume| {
            let (dir, sub) = (volume.ino(b"dir"), volume.ino(b"sub"));
            let entry = volume.entry(b"deep");
            volume.set(entry, 40, &dir.to_le_bytes());
            volume.set(entry, 49, &[1]);
            let root = volume.entry(b"dir");
            volume.set(root, 40, &sub.to_le_bytes());
        },
        Level::Drop,
        "X7",
    );
    assert!(!losses.is_empty(), "{lines:#?}");
    assert!(tree_of(&volume).contains_key(&b"/file"[..]));
}

#[test]
fn a_name_of_the_root() {
    let (volume, losses, _) = case(
        |volume| {
            let entry = volume.entry(b"dev");
            volume.set(entry, 40, &1_u64.to_le_bytes());
        },
        Level::Drop,
        "X1",
    );
    assert_eq!(losses, ["dev: the name"]);
    assert!(!tree_of(&volume).contains_key(&b"/dev"[..]));
}

#[test]
fn garbage_behind_leaves() {
    // The LEB is moved, because Linux does not collect one with garbage in it.
    let before = tree_of(&sample());
    let volume = sample();
    let ino = volume.ino(b"file");
    let block = volume.block(ino, 0);
    let used = volume.bytes(block.leb).iter().rposition(|byte| *byte != 0xFF).unwrap() + 1;
    volume.put(block.leb, used.next_multiple_of(512), &[0x55; 64]);
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Safe), "{lines:#?}");
    assert_eq!(tree_of(&volume), before);
}

#[test]
fn lost_found_that_is_a_file() {
    let volume = sample();
    let fs = mount(&volume);
    fs_create_file(&fs, b"lost+found");
    let dev = volume.entry(b"dev");
    volume.tear(dev, 56);
    let (_, lines) = repaired(&volume);
    let after = tree_of(&volume);
    assert!(after.contains_key(&b"/lost+found~1"[..]), "{after:?} {lines:#?}");
}

fn fs_create_file(fs: &eraseblock_ubifs::UbifsMount, name: &[u8]) {
    fs.create(1, name, &file(), NOW).unwrap();
    fs.sync().unwrap();
    fs.unmount().unwrap();
}

#[test]
fn an_authenticated_volume_is_refused() {
    let volume = sample();
    let superblock = volume.find(6, |_| true);
    let flags = volume.bytes(0)[superblock.at + 28] | 0x20;
    volume.set(superblock, 28, &[flags]);
    volume.set(superblock, 256, &4_u16.to_le_bytes());
    let before = volume.snapshot();
    assert!(examined(&volume).unwrap_err().to_string().contains("authenticated"));
    assert_eq!(volume.snapshot(), before);
}

/// Another eraseblock was written over a bud: its nodes are whole, but of the past. A file is not what
/// it was then.
#[test]
fn nodes_of_the_past_in_a_damaged_journal() {
    let volume = empty(60);
    let fs = mount(&volume);
    let ino = fs.create(1, b"file", &file(), NOW).unwrap();
    fs.write(ino, 0, &content(1, 3000), NOW).unwrap();
    fs.sync().unwrap();
    fs.unmount().unwrap();
    let old = volume.inode(ino);
    let old = volume.bytes(old.leb)[old.at..old.at + old.len].to_vec();
    let fs = mount(&volume);
    fs.write(ino, 0, &content(2, 9000), NOW).unwrap();
    fs.sync().unwrap();
    fs.unmount().unwrap();
    // Mounting commits.
    mount(&volume).unmount().unwrap();
    let fs = mount(&volume);
    let other = fs.create(1, b"other", &file(), NOW).unwrap();
    fs.unmount().unwrap();
    let bud = volume.inode(other).leb;
    let last = volume.nodes().into_iter().filter(|node| node.leb == bud).max_by_key(|node| node.at);
    let end = last.map(|node| (node.at + node.len).next_multiple_of(512)).unwrap();
    volume.put(bud, end, &[0x55; 64]);
    volume.put(bud, end + 64, &old);
    let (_, lines) = repaired(&volume);
    assert!(lines[0].contains(&format!("leb {bud}:{end}")), "{lines:#?}");
    let fs = opened(&volume);
    let mut found = vec![0; 9000];
    assert_eq!(fs.attr(ino).unwrap().size, 9000, "{lines:#?}");
    fs.read(ino, 0, &mut found).unwrap();
    assert!(found == content(2, 9000) && fs.attr(other).is_ok(), "{lines:#?}");
}

/// Garbage collection had copied a node, and the original is damaged.
#[test]
fn a_copy_of_a_damaged_node() {
    safe(
        |volume| {
            let block = volume.block(volume.ino(b"file"), 2);
            let bytes = volume.bytes(block.leb)[block.at..block.at + block.len].to_vec();
            let last = volume.leb_count() as usize - 1;
            assert!(volume.bytes(last).iter().all(|byte| *byte == 0xFF));
            volume.put(last, 0, &bytes);
            volume.tear(block, 100);
        },
        "N1",
    );
}

#[test]
fn a_creation_that_cannot_be() {
    safe(
        |volume| {
            let inode = volume.inode(volume.ino(b"file"));
            volume.set(inode, 40, &0xFFFF_FFFF_FFFF_FF00_u64.to_le_bytes());
        },
        "N2",
    );
}

/// The entry of `dir` says `dev`: of two entries with a name, the newer one stays.
#[test]
fn one_name_twice() {
    let before = tree_of(&sample());
    let (volume, losses, lines) =
        case(|volume| volume.set(volume.entry(b"dir"), 56, b"dev"), Level::Drop, "X12");
    assert!(!losses.is_empty(), "{lines:#?}");
    let after = tree_of(&volume);
    assert_eq!(after.get(&b"/dev"[..]), before.get(&b"/dev"[..]), "{lines:#?}");
    let moved = format!("/lost+found/INO_{}_0/sub/deep", sample().ino(b"dir"));
    assert!(after.contains_key(moved.as_bytes()), "{after:?}");
}

/// A reader shows it in other characters, and so does the plan, or it would miss the loss of a name.
#[test]
fn a_name_that_is_none() {
    let before = tree_of(&sample());
    let (volume, losses, lines) =
        case(|volume| volume.set(volume.entry(b"dev"), 56, b"d/v"), Level::Drop, "N6");
    assert_eq!(losses, ["_nokey_ZC92: the name"], "{lines:#?}");
    let moved = format!("/lost+found/INO_{}_0", sample().ino(b"dev"));
    let after = tree_of(&volume);
    assert_eq!(without(&after, &["/lost+found", &moved]), without(&before, &["/dev"]));
}

/// Inode and name say that it is a directory.
/// The entries, or the content, and all names agree on another type: the inode was not repaired, or not
/// at the level of what a reader showed of it.
#[test]
fn a_type_that_names_and_what_it_holds_contradict() {
    let before = tree_of(&sample());
    for (name, mode) in [(&b"dir"[..], 0o100_750_u32), (b"file", 0o040_644)] {
        let (volume, losses, lines) = case(
            |volume| volume.set(volume.inode(volume.ino(name)), 104, &mode.to_le_bytes()),
            Level::Drop,
            "X2",
        );
        let path = String::from_utf8_lossy(name);
        assert!(
            losses.contains(&format!("{path}: owner, permissions and times")),
            "{losses:?}: {lines:#?}"
        );
        let paths = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
        let after = tree_of(&volume);
        assert_eq!(paths(&after), paths(&before), "{lines:#?}");
        let key = format!("/{path}").into_bytes();
        let kind = |tree: &Tree| tree[&key].split(' ').next().unwrap()[..2].to_owned();
        assert_eq!(kind(&after), kind(&before), "{lines:#?}");
    }
}

#[test]
fn the_flag_of_an_encrypted_file() {
    safe(
        |volume| volume.set(volume.inode(volume.ino(b"file")), 108, &0x41_u32.to_le_bytes()),
        "N5",
    );
}

#[test]
fn content_of_a_directory() {
    let (volume, losses, lines) = case(
        |volume| {
            let inode = volume.inode(volume.ino(b"deep"));
            volume.set(inode, 104, &0o040_755_u32.to_le_bytes());
            volume.set(volume.entry(b"deep"), 49, &[1]);
        },
        Level::Drop,
        "X2",
    );
    assert!(losses.iter().any(|loss| loss.contains("bytes 0 to 2999")), "{losses:?}");
    let deep = &tree_of(&volume)[&b"/dir/sub/deep"[..]];
    assert!(deep.starts_with("40755 "), "{deep}: {lines:#?}");
}

/// `link` names the directory `dir`, too, and its entry is newer.
#[test]
fn two_names_of_a_directory() {
    let before = tree_of(&sample());
    let (volume, losses, lines) = case(
        |volume| {
            let entry = volume.entry(b"link");
            volume.set(entry, 40, &volume.ino(b"dir").to_le_bytes());
            volume.set(entry, 49, &[1]);
        },
        Level::Drop,
        "X7",
    );
    assert!(losses.contains(&"dir: the name".to_owned()), "{losses:?}");
    let after = tree_of(&volume);
    assert_eq!(after.get(&b"/link/sub/deep"[..]), before.get(&b"/dir/sub/deep"[..]), "{lines:#?}");
    assert!(!after.contains_key(&b"/dir"[..]), "{after:?}");
}

/// An inode without links was deleted: it does not come back only because its name is damaged.
#[test]
fn an_inode_without_links() {
    let before = tree_of(&sample());
    let (volume, _, lines) = case(
        |volume| {
            volume.set(volume.inode(volume.ino(b"dev")), 92, &0_u32.to_le_bytes());
            volume.tear(volume.entry(b"dev"), 56);
        },
        Level::Drop,
        "M10",
    );
    assert_eq!(tree_of(&volume), without(&before, &["/dev"]), "{lines:#?}");
}

/// An index node of the past leads to a block that was cut off since.
#[test]
fn content_that_a_truncation_cut_off() {
    let volume = sample();
    let ino = volume.ino(b"file");
    let fs = mount(&volume);
    let shorter = SetAttr { size: Some(8192), ..SetAttr::default() };
    fs.set_attr(ino, &shorter, NOW).unwrap();
    fs.unmount().unwrap();
    mount(&volume).unmount().unwrap();
    let before = tree_of(&volume);
    // Block 1 becomes block 3, in the index, too: block 1 is a hole in what is read afterwards.
    let block = volume.block(ino, 1);
    let key = volume.bytes(block.leb)[block.at + 24..block.at + 32].to_vec();
    let mut cut = key.clone();
    cut[4] = 3;
    volume.set(block, 24, &cut);
    for node in volume.nodes().into_iter().filter(|node| node.kind == 9) {
        let bytes = volume.bytes(node.leb)[node.at..node.at + node.len].to_vec();
        for branch in (28..node.len).step_by(20) {
            if bytes[branch + 12..branch + 20] == key {
                volume.set(node, branch + 12, &cut);
            }
        }
    }
    let (repair, lines) = repaired(&volume);
    assert_eq!(level(&repair), Some(Level::Safe), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("truncation")), "{lines:#?}");
    assert_eq!(opened(&volume).attr(ino).unwrap().size, 8192, "{lines:#?}");
    assert_eq!(without(&tree_of(&volume), &["/file", "/also-file"]).len() + 2, before.len());
}
