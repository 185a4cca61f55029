//! What holds for every sequence of operations.

use eraseblock_card::{Card, CardError, Counters, Parameters, PowerCut, Trim, presets};
use proptest::prelude::*;

const UNIT: u64 = 16 << 10;
const CAPACITY: u64 = 20 * UNIT - 512;

#[derive(Clone, Debug)]
enum Op {
    Write { at: u64, len: u64, byte: u8, fua: bool },
    Read { at: u64, len: u64 },
    Trim { at: u64, len: u64 },
    Flush,
}

/// A small card with everything: units of 8 pages, a FAT, a cache.
fn parameters(trim: Trim, erased_ones: bool) -> Parameters {
    let parameters = presets::find("emmc-cache").unwrap().parameters;
    Parameters {
        unit: UNIT as u32,
        page: 2048,
        unordered_pages: 5,
        open_units: 3,
        cache_pages: 4,
        trim,
        erased_ones,
        ..parameters.with_capacity(CAPACITY)
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let range = (0..CAPACITY / 512, 1..40_u64)
        .prop_map(|(sector, count)| (sector * 512, (count * 512).min(CAPACITY - sector * 512)));
    // Many writes start where others do, so that they continue and collide.
    let start = (0..6_u64, 1..10_u64).prop_map(|(unit, count)| (unit * UNIT, count * 1024));
    let place = prop_oneof![range.clone(), start];
    let write = (place, any::<u8>(), any::<bool>());
    let write = write.prop_map(|((at, len), byte, fua)| Op::Write { at, len, byte, fua });
    let op = prop_oneof![
        8 => write,
        3 => range.clone().prop_map(|(at, len)| Op::Read { at, len }),
        1 => range.prop_map(|(at, len)| Op::Trim { at, len: (len * 8).min(CAPACITY - at) }),
        1 => Just(Op::Flush),
    ];
    prop::collection::vec(op, 1..120)
}

fn trims() -> impl Strategy<Value = Trim> {
    prop_oneof![Just(Trim::Ignore), Just(Trim::DropLog), Just(Trim::Erase)]
}

/// Carries out one operation on the card and on an array.
fn apply(op: &Op, card: &Card, array: &mut [u8]) {
    match *op {
        Op::Write { at, len, byte, fua } => {
            let data = vec![byte; len as usize];
            if fua { card.write_through(at, &data) } else { card.write(at, &data) }.unwrap();
            array[at as usize..(at + len) as usize].copy_from_slice(&data);
        }
        Op::Read { at, len } => {
            let mut data = vec![0; len as usize];
            card.read(at, &mut data).unwrap();
            assert!(data == array[at as usize..(at + len) as usize]);
        }
        Op::Trim { at, len } => {
            card.trim(at, len).unwrap();
            let parameters = card.parameters();
            if parameters.trim != Trim::Ignore {
                let (first, end) = (at.next_multiple_of(UNIT), (at + len) / UNIT * UNIT);
                let erased = if parameters.erased_ones { 0xFF } else { 0 };
                if first < end {
                    array[first as usize..end as usize].fill(erased);
                }
            }
        }
        Op::Flush => card.flush().unwrap(),
    }
}

fn content(card: &Card) -> Vec<u8> {
    let mut content = vec![0; CAPACITY as usize];
    card.read(0, &mut content).unwrap();
    content
}

/// What adds up after every operation.
fn check_sums(card: &Card, host: u64, before: &Counters) {
    let (now, wear) = (card.counters(), card.wear());
    assert!(now.total_ns() >= before.total_ns());
    assert_eq!(now.host_bytes(), host);
    assert_eq!(now.erases(), wear.total_erases);
    assert!(wear.open_units <= card.parameters().open_units);
    assert_eq!(wear.units, card.parameters().physical_units());
    assert!(wear.max_erases >= wear.min_erases);
    let page = u64::from(card.parameters().page);
    assert!((now.host_bytes() + now.padding_bytes).is_multiple_of(page), "whole pages");
    assert_eq!(now.full_erases % 2, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn content_time_and_wear_add_up(ops in ops(), trim in trims(), ones in any::<bool>()) {
        let card = Card::in_memory(parameters(trim, ones)).unwrap();
        let again = Card::in_memory(parameters(trim, ones)).unwrap();
        let mut array = vec![if ones { 0xFF } else { 0 }; CAPACITY as usize];
        let mut other = array.clone();
        let mut host = 0;
        for op in &ops {
            let before = card.counters();
            apply(op, &card, &mut array);
            apply(op, &again, &mut other);
            if let Op::Write { len, .. } = op {
                host += len;
            }
            check_sums(&card, host, &before);
            prop_assert_eq!(card.counters(), again.counters());
            prop_assert_eq!(card.wear(), again.wear());
        }
        prop_assert!(content(&card) == array);
    }

    /// After a cut each page has the content of some moment since it was durable; pages before the
    /// cut of a card without a cache have the new content, the others the old.
    #[test]
    fn a_cut_leaves_old_or_new_pages(ops in ops(), after in 0..60_u64, seed in any::<u64>(), cached in any::<bool>()) {
        let mut shape = parameters(Trim::Ignore, false);
        shape.cache_pages = if cached { 4 } else { 0 };
        let page = shape.page as usize;
        let card = Card::in_memory(shape).unwrap();
        card.arm_cut(Some(PowerCut { after_pages: after, seed }));
        let mut array = vec![0; CAPACITY as usize];
        // The contents of each page since it was durable for certain.
        let mut possible: Vec<Vec<Vec<u8>>> = array.chunks(page).map(|page| vec![page.to_vec()]).collect();
        let mut cut_by = None;
        for op in &ops {
            let Op::Write { at, len, byte, fua } = *op else {
                if matches!(op, Op::Flush) {
                    apply(op, &card, &mut array);
                    for page in &mut possible {
                        page.drain(..page.len() - 1);
                    }
                }
                continue;
            };
            let data = vec![byte; len as usize];
            let outcome =
                if fua { card.write_through(at, &data) } else { card.write(at, &data) };
            let old = array.clone();
            array[at as usize..(at + len) as usize].fill(byte);
            for number in at as usize / page..=(at + len - 1) as usize / page {
                let end = array.len().min((number + 1) * page);
                let new = array[number * page..end].to_vec();
                if (!cached || fua) && outcome.is_ok() {
                    possible[number].clear();
                }
                possible[number].push(new);
            }
            if outcome.is_err() {
                prop_assert!(matches!(outcome, Err(CardError::PowerOff)));
                cut_by = Some((at, len, old));
                break;
            }
        }
        if let Some((at, len, old)) = cut_by {
            prop_assert!(matches!(card.read(0, &mut [0; 512]), Err(CardError::PowerOff)));
            prop_assert!(matches!(card.flush(), Err(CardError::PowerOff)));
            card.power_on();
            let left = content(&card);
            for (page, possible) in left.chunks(page).zip(&possible) {
                prop_assert!(possible.iter().any(|one| one == page));
            }
            if !cached {
                // A prefix of the interrupted write, in whole pages.
                let split = (at as usize..(at + len) as usize).find(|byte| left[*byte] != array[*byte]);
                let split = split.unwrap_or((at + len) as usize);
                prop_assert!(left[split..] == old[split..] && left[..split] == array[..split]);
            }
        }
    }

    /// Whole units written in order, up to as many at a time as the card keeps open, cost one erase
    /// each and copy nothing.
    #[test]
    fn sequential_units_cost_one_erase_each(width in 1..4_u64, rounds in 1..4_u64) {
        let card = Card::in_memory(parameters(Trim::Ignore, false)).unwrap();
        for round in 0..rounds {
            for page in 0..8 {
                for unit in 1 + round * width..=(round + 1) * width {
                    card.write(unit * UNIT + page * 2048, &[1; 2048]).unwrap();
                }
            }
        }
        let counters = card.counters();
        prop_assert_eq!(counters.programmed_bytes(), counters.host_bytes());
        prop_assert_eq!(counters.erases(), width * rounds);
        prop_assert_eq!(counters.switch_erases, width * rounds);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A card in a file is the card in memory, and closing it changes nothing but the power.
    #[test]
    fn a_file_keeps_the_card(ops in ops(), more in ops(), trim in trims(), ones in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("card");
        let kept = Card::in_memory(parameters(trim, ones)).unwrap();
        let mut array = vec![if ones { 0xFF } else { 0 }; CAPACITY as usize];
        let mut other = array.clone();
        let card = Card::create(&path, &parameters(trim, ones)).unwrap();
        for op in &ops {
            apply(op, &card, &mut array);
            apply(op, &kept, &mut other);
        }
        drop(card);
        kept.power_on();
        let card = Card::open(&path).unwrap();
        prop_assert_eq!(card.counters(), kept.counters());
        for op in &more {
            apply(op, &card, &mut array);
            apply(op, &kept, &mut other);
        }
        prop_assert_eq!((card.counters(), card.wear()), (kept.counters(), kept.wear()));
        prop_assert!(content(&card) == content(&kept));
    }
}

/// A cut after every page of a long write: exactly that many pages are new.
#[test]
fn a_cut_stores_exactly_the_pages_before_it() {
    for after in 0..8 {
        let card = Card::in_memory(parameters(Trim::Ignore, false)).unwrap();
        card.write_through(0, &[1; 8 * 2048]).unwrap();
        card.arm_cut(Some(PowerCut { after_pages: after, seed: 1 }));
        assert!(matches!(card.write_through(0, &[2; 8 * 2048]), Err(CardError::PowerOff)));
        card.power_on();
        let left = content(&card);
        let new = after as usize * 2048;
        assert!(left[..new].iter().all(|byte| *byte == 2));
        assert!(left[new..8 * 2048].iter().all(|byte| *byte == 1));
    }
}

#[test]
fn operations_outside_the_card_are_refused() {
    let card = Card::in_memory(parameters(Trim::Erase, false)).unwrap();
    for (at, len) in [(CAPACITY, 512), (CAPACITY - 512, 1024), (u64::MAX - 511, 512)] {
        let mut data = vec![0; len as usize];
        assert!(matches!(card.read(at, &mut data), Err(CardError::Range { .. })));
        assert!(matches!(card.write(at, &data), Err(CardError::Range { .. })));
        assert!(matches!(card.trim(at, len), Err(CardError::Range { .. })));
    }
    assert_eq!(card.counters(), Counters::default());
}
