//! Damaged card files: refused with the place, or read as what they say; never a panic.

use eraseblock_base::random::SplitMix64;
use eraseblock_card::{Card, CardError, Parameters, presets};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn small() -> Parameters {
    let parameters = presets::find("sd-2012-c10").unwrap().parameters;
    parameters.with_capacity(1 << 20).with_unit(64 << 10)
}

/// A card with open units, and its file's bytes.
fn used(path: &Path) -> Vec<u8> {
    let card = Card::create(path, &small()).unwrap();
    for unit in [1, 3, 5, 3, 7, 9, 11] {
        card.write(unit * (64 << 10) + 16384, &[0x5A; 24 * 512]).unwrap();
    }
    drop(card);
    fs::read(path).unwrap()
}

/// Uses a card in every way.
fn exercise(card: &Card) {
    let mut data = vec![0; 64 << 10];
    for unit in 0..16 {
        let _ = card.write(unit * (64 << 10) + 512, &data[1024..]);
    }
    let _ = card.read(0, &mut data);
    let _ = card.trim(0, 1 << 20);
    let _ = (card.counters().total_ns(), card.counters().erases(), card.wear());
}

fn sum(bytes: &[u8]) -> [u8; 4] {
    eraseblock_base::crc::crc32(bytes).to_le_bytes()
}

#[test]
fn any_damage_is_refused_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let good = used(&path);
    let mut chance = SplitMix64::new(1);
    let (mut refused, mut opened) = (0, 0);
    for round in 0..1200 {
        let mut bytes = good.clone();
        for _ in 0..=round % 3 {
            let place = if round % 2 == 0 { chance.index(160) } else { 4096 + chance.index(8192) };
            bytes[place] = chance.interesting_byte();
        }
        if round % 3 == 0 {
            // A header whose checksum is right.
            bytes[12..16].fill(0);
            let crc = sum(&bytes[..4096]);
            bytes[12..16].copy_from_slice(&crc);
        }
        for start in [4096, 4096 + area(&good)].into_iter().filter(|_| round % 4 == 1) {
            // States whose checksums are right.
            let length = u32::from_le_bytes(bytes[start + 8..start + 12].try_into().unwrap());
            if let Some(payload) = bytes.get(start + 16..start + 16 + length as usize) {
                let crc = sum(&[&bytes[start..start + 12], payload].concat());
                bytes[start + 12..start + 16].copy_from_slice(&crc);
            }
        }
        fs::write(&path, &bytes).unwrap();
        match Card::open(&path) {
            Ok(card) => {
                opened += 1;
                exercise(&card);
            }
            Err(error) => {
                refused += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(refused > 200 && opened > 200, "{refused} {opened}");
}

/// Bytes of one copy of the state.
fn area(file: &[u8]) -> usize {
    (file.len() - (1 << 20) - 4096) / 2
}

#[test]
fn files_of_other_sizes_and_kinds_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let good = used(&path);
    let open = || Card::open_read_only(&path).map(|_| ()).unwrap_err().to_string();
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert!(open().starts_with("byte 0: file size is"), "{}", open());
    fs::write(&path, &good[..100]).unwrap();
    assert_eq!(open(), "byte 0: file size is 0x64, expected a card file's header");
    fs::write(&path, vec![0; 8192]).unwrap();
    assert_eq!(open(), "byte 0: magic is 0x0, expected `EBCARD` CR LF");
    let mut other = good.clone();
    other[8] = 2;
    fs::write(&path, &other).unwrap();
    assert_eq!(open(), "byte 8: version is 0x2, expected 1");
    other = good;
    other[20] ^= 1;
    fs::write(&path, &other).unwrap();
    assert!(open().starts_with("byte 12: checksum is 0x"), "{}", open());
}

/// A process that is killed while it writes the state leaves the older copy.
#[test]
fn one_damaged_copy_of_the_state_is_enough_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let good = used(&path);
    for (copies, works) in [(vec![0], true), (vec![1], true), (vec![0, 1], false)] {
        fs::write(&path, &good).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        for copy in copies {
            file.write_all_at(&[0xEE; 64], 4096 + (copy * area(&good)) as u64 + 20).unwrap();
        }
        let opened = Card::open_read_only(&path);
        assert_eq!(opened.is_ok(), works, "{opened:?}");
        assert!(works || matches!(opened, Err(CardError::State)));
    }
}

#[test]
fn one_process_writes_and_readers_write_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let good = used(&path);
    let card = Card::open(&path).unwrap();
    assert!(matches!(Card::open(&path), Err(CardError::InUse { .. })));
    drop(card);
    let card = Card::open_read_only(&path).unwrap();
    card.read(0, &mut [0; 512]).unwrap();
    assert!(matches!(card.write(0, &[1; 512]), Err(CardError::ReadOnly)));
    assert!(matches!(card.trim(0, 1 << 20), Err(CardError::ReadOnly)));
    card.flush().unwrap();
    drop(card);
    assert!(fs::read(&path).unwrap() == good);
}

#[test]
fn impossible_cards_are_named() {
    let refused = |change: fn(&mut Parameters)| {
        let mut parameters = small();
        change(&mut parameters);
        Card::in_memory(parameters).unwrap_err().to_string()
    };
    assert_eq!(
        refused(|p| p.page = 3000),
        "page: 3000, expected a power of two from 512 to 1048576"
    );
    assert_eq!(refused(|p| p.unit = 0), "unit: 0, expected 1 to 65536 pages, at most 256 MiB");
    assert_eq!(refused(|p| p.open_units = 0), "open units: 0, expected 1 to 64");
    assert_eq!(refused(|p| p.capacity = 1000), "capacity: 1000, expected a multiple of 512");
    assert_eq!(
        refused(|p| p.capacity = 1 << 60),
        "capacity: 1152921504606846976, expected 1 to 1048576 units"
    );
    assert_eq!(
        refused(|p| p.write_rate = 5),
        "write rate: 5, expected 0, or 1000 to 2^40 bytes a second"
    );
    assert_eq!(
        refused(|p| p.erase_ns = u64::MAX),
        "erase time: 18446744073709551615, expected at most a minute"
    );
}

/// Changes the newest state of a card file and corrects its checksum.
fn with_state(good: &[u8], change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
    let copies = [4096, 4096 + area(good)];
    let sequence = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().unwrap());
    let at = copies.into_iter().max_by_key(|at| sequence(*at)).unwrap();
    let length = u32::from_le_bytes(good[at + 8..at + 12].try_into().unwrap()) as usize;
    let mut payload = good[at + 16..at + 16 + length].to_vec();
    change(&mut payload);
    let mut bytes = good.to_vec();
    bytes[at + 8..at + 12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let crc = sum(&[&bytes[at..at + 12], &payload].concat());
    bytes[at + 12..at + 16].copy_from_slice(&crc);
    bytes[at + 16..at + 16 + payload.len()].copy_from_slice(&payload);
    bytes
}

/// States that are impossible although their checksum is right.
#[test]
fn impossible_states_are_refused() {
    // After 20 counters: two numbers, five open units, the FAT's pages, then lists.
    const NUMBERS: usize = 160;
    const OPEN: usize = NUMBERS + 8;
    const FAT: usize = OPEN + 5 * 16;
    const CONTENT: usize = FAT + 4 + 4 * 23;
    type Change = fn(&mut Vec<u8>);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("card");
    let good = used(&path);
    let changes: [(&str, Change); 10] = [
        ("a counter that overflows", |state| state[..8].fill(0xFF)),
        ("a free unit less", |state| {
            state[NUMBERS + 4] -= 1;
            state.truncate(state.len() - 4);
        }),
        ("more open units than the card keeps", |state| state[NUMBERS] += 1),
        ("a full log", |state| state[OPEN + 4] = 4),
        ("the FAT with a log", |state| state[OPEN] = 0),
        ("a log of no unit", |state| state[OPEN] = 16),
        ("two logs of a unit", |state| state[OPEN] = state[OPEN + 16]),
        ("more pages than a unit has", |state| state[FAT] = 4),
        ("two units in one place", |state| state[CONTENT] = state[CONTENT + 4]),
        ("more than a state", |state| state.extend([0; 4])),
    ];
    fs::write(&path, with_state(&good, |_| {})).unwrap();
    exercise(&Card::open(&path).unwrap());
    for (what, change) in changes {
        fs::write(&path, with_state(&good, change)).unwrap();
        assert!(matches!(Card::open(&path), Err(CardError::State)), "{what}");
    }
}
