//! Full volumes: filled in every way, emptied, filled again, without losing space.

use crate::rw::{checked, empty, file, mount};
use crate::strict_leb::StrictLeb;
use eraseblock_ubifs::UbifsMount;
use eraseblock_vfs::{
    Background, Caller, FileSystem, FsErrorKind, RenameMode, SetAttr, Timestamp, WritableFileSystem,
};
use eraseblock_vfs_testkit::fill::{Fill, OWNER, WAYS, clear, fill, fill_at_once};
use eraseblock_vfs_testkit::ops::{Texture, data_of};
use std::sync::Arc;

const NOW: &Caller = &Caller::owner(Timestamp::from_seconds(1_000_000));
const CYCLES: usize = 200;
const FULL_SEEDS: u64 = 40;

/// Ways that not every file system supports.
const OWN: [(&str, Fill); 2] = [
    ("whiteouts", |fs, number, by| {
        let from = format!("{number:06}{}", "w".repeat(200));
        fs.create(1, from.as_bytes(), &file(), by)?;
        let to = format!("{number:06}");
        fs.rename((1, from.as_bytes()), (1, to.as_bytes()), RenameMode::Whiteout, by)
    }),
    ("nameless, then named", |fs, number, by| {
        let ino = fs.create_unnamed(1, &file(), by)?;
        let filled = fs
            .write(ino, 0, &data_of(number, 0, 6000, Texture::Random), by)
            .and_then(|()| fs.link(ino, 1, format!("{number:06}").as_bytes(), by));
        fs.release(ino)?;
        filled
    }),
];

#[test]
fn two_hundred_times_full_and_empty() {
    let volume = empty(48);
    let mut fs = mount(&volume).unwrap();
    fs.sync().unwrap();
    let free = fs.stat_fs().unwrap().blocks_free;
    let ways = [&WAYS[..], &OWN].concat();
    let mut first = vec![0; ways.len()];
    for cycle in 0..CYCLES {
        let (what, step) = ways[cycle % ways.len()];
        let failed =
            |error: &dyn std::fmt::Display| -> ! { panic!("cycle {cycle}, {what}: {error}") };
        let steps = fill(&fs, OWNER, step).unwrap_or_else(|error| failed(&error));
        if cycle % 7 == 3 {
            checked(&fs).unwrap_or_else(|error| failed(&error));
            // Deleting must also be possible after a new mount of the full volume.
            fs.unmount().unwrap_or_else(|error| failed(&error));
            fs = mount(&volume).unwrap_or_else(|error| failed(&error));
        }
        clear(&fs, OWNER).unwrap_or_else(|error| failed(&error));
        fs.sync().unwrap_or_else(|error| failed(&error));
        if cycle % 10 == 0 {
            checked(&fs).unwrap_or_else(|error| failed(&error));
        }
        let now = fs.stat_fs().unwrap().blocks_free;
        // The positions of the journal heads account for a block or two.
        assert!(
            now + 3 >= free,
            "cycle {cycle}, {what}: {now} blocks free, {free} in the beginning"
        );
        let first = &mut first[cycle % ways.len()];
        if *first == 0 {
            *first = steps;
        }
        assert!(steps * 10 >= *first * 9, "cycle {cycle}, {what}: {steps} steps, {first} at first");
    }
}

/// On a volume that had been filled with compressible data and emptied, half of the space stayed in
/// use until the next mount.
#[test]
fn an_idle_moment_gives_back_what_was_deleted() {
    let fs = mount(&empty(400)).unwrap();
    fs.sync().unwrap();
    let idle = || {
        while fs.background_step().unwrap() == Background::More {}
        fs.free_waiting_space().unwrap();
    };
    let free = || fs.stat_fs().unwrap().blocks_free;
    let (at_first, commits) = (free(), fs.activity().commits);
    let f = fs.create(1, b"f", &file(), NOW).unwrap();
    fs.write(f, 0, b"a few bytes", NOW).unwrap();
    idle();
    assert_eq!(fs.activity().commits, commits, "there was nothing to gain");
    for block in 0..6000 {
        fs.write(f, block * 4096, &[7; 4096], NOW).unwrap();
    }
    while fs.background_step().unwrap() == Background::More {}
    fs.unlink(1, b"f", NOW).unwrap();
    assert!(free() < at_first - at_first / 10, "{} of {at_first}", free());
    idle();
    assert!(free() > at_first - at_first / 50, "{} of {at_first}", free());
    let commits = fs.activity().commits;
    idle();
    assert_eq!(fs.activity().commits, commits);
    checked(&fs).unwrap();
}

/// Returns an empty volume on a chip of 32 MiB: 2,048 blocks of 16 KiB, pages of 512 bytes.
fn chip_of_32_mib() -> UbifsMount {
    let volume = Arc::new(StrictLeb::new(15_872, 512, 512, 2024));
    mount(&volume).unwrap()
}

/// Returns the total content in files of this length when the volume is full.
fn capacity(len: u32) -> u64 {
    let fs = chip_of_32_mib();
    let mut total = 0;
    for number in 0.. {
        let Ok(ino) = fs.create(1, format!("{number:06}").as_bytes(), &file(), NOW) else { break };
        let mut left = len;
        while left > 0 {
            let now = left.min(4096);
            let content = data_of(number, 0, now, Texture::Random);
            if fs.write(ino, (len - left).into(), &content, NOW).is_err() {
                return total;
            }
            total += u64::from(now);
            left -= now;
        }
    }
    total
}

/// The figures that Linux 6.1 shows for such a volume, and that fitted in an evaluation of 2009.
#[test]
fn a_small_chip_holds_what_linux_holds() {
    let stat = chip_of_32_mib().stat_fs().unwrap();
    let kib = |blocks: u64| blocks * 4;
    let used = stat.blocks - stat.blocks_free;
    let shown = (kib(stat.blocks), kib(used), kib(stat.blocks_available));
    assert_eq!(shown, (22_936, 24, 21_444), "{stat:?}");
    for (len, least) in
        [(1 << 20, 23_500_000), (4096, 22_100_000), (512, 13_600_000), (256, 8_600_000)]
    {
        let found = capacity(len);
        assert!(found >= least, "files of {len} bytes: {found} bytes, expected {least}");
    }
}

#[test]
fn a_write_does_what_there_is_space_for() {
    let volume = empty(40);
    let fs = mount(&volume).unwrap();
    let done = fill_at_once(&fs, 1 << 20).unwrap();
    // The file system has pages of 4096 bytes, and 40 LEBs of 15,872.
    assert!(done > 150_000 && done.is_multiple_of(4096), "{done} bytes");
    checked(&fs).unwrap();
    fs.unmount().unwrap();
    let fs = mount(&volume).unwrap();
    assert_eq!(fs.attr(fs.lookup(1, b"shared").unwrap()).unwrap().size, done as u64);
}

/// Numbers that follow from a seed (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Few files that grow until nothing fits and are cut off again: the index is one LEB, most of it no
/// longer in use. The journal used to take each LEB that garbage collection freed, also the one that the
/// index needed at the next commit, which then turned the file system read-only.
#[test]
fn a_small_index_finds_room_on_a_full_volume() {
    for seed in 0..FULL_SEEDS {
        let volume = empty(35);
        let fs = mount(&volume).unwrap();
        let mut state = seed;
        for turn in 0..400 {
            let name = format!("file-{}", next(&mut state) % 12).into_bytes();
            let done = match (fs.lookup(1, &name), next(&mut state) % 8) {
                (Err(_), _) => fs.create(1, &name, &file(), NOW).map(drop),
                (Ok(_), 0) => fs.unlink(1, &name, NOW),
                (Ok(ino), 1) => {
                    let size = next(&mut state) % (fs.attr(ino).unwrap().size + 1);
                    fs.set_attr(ino, &SetAttr { size: Some(size), ..SetAttr::default() }, NOW)
                }
                (Ok(ino), _) => {
                    let size = fs.attr(ino).unwrap().size.min(40_000);
                    let offset = next(&mut state) % (size + 3000);
                    let len = (next(&mut state) % 9000) as u32;
                    let content = data_of(seed ^ turn, offset, len, Texture::Random);
                    fs.write(ino, offset, &content, NOW)
                }
            };
            match done {
                Ok(()) => {}
                Err(error) if error.kind() == FsErrorKind::NoSpace => {}
                Err(error) => panic!("seed {seed}, turn {turn}: {error}"),
            }
            if next(&mut state).is_multiple_of(9) {
                fs.sync().unwrap_or_else(|error| panic!("seed {seed}, turn {turn}: {error}"));
            }
        }
    }
}
