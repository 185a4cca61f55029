//! Alternate writes to several units: the behaviour by which cards are recognised.

use eraseblock_card::presets::{self, PRESETS};
use eraseblock_card::probe::{self, Pattern};
use eraseblock_card::{Card, Parameters};

fn preset(name: &str) -> Parameters {
    presets::find(name).unwrap().parameters
}

/// The tables that the equations give for this card, computed without this crate.
#[test]
fn a_card_collapses_when_one_unit_more_is_written_than_it_keeps_open() {
    let card = preset("sd-2012-c10");
    let tables: [(u32, bool, [f64; 10]); 4] = [
        (5, false, [10.3, 10.3, 10.3, 10.2, 10.1, 9.8, 9.31, 8.47, 7.17, 5.49]),
        (6, false, [10.3, 5.97, 2.02, 1.07, 0.557, 0.285, 0.145, 0.073, 0.037, 0.018]),
        (5, true, [10.3, 4.93, 4.93, 4.90, 4.87, 4.81, 4.69, 4.47, 4.08, 3.47]),
        (6, true, [10.3, 4.72, 2.40, 1.13, 0.574, 0.290, 0.146, 0.073, 0.037, 0.018]),
    ];
    for (count, random, table) in tables {
        let pattern = Pattern { count, area: 8 << 20, random, smallest: 16 << 10 };
        let rates = probe::open_units(&card, &pattern).unwrap();
        assert_eq!(rates.len(), table.len());
        for (rate, expected) in rates.iter().zip(table) {
            // Beyond the limit the first large blocks depend on the order of the random ones.
            let allowed = if random && count == 6 { 0.13 } else { 0.03 };
            let off = (rate.megabytes / expected - 1.0).abs();
            assert!(off < allowed, "{count} {random}: {rate:?}, expected {expected}");
        }
    }
}

#[test]
fn every_preset_collapses_at_its_own_number_of_open_units() {
    for preset in PRESETS.iter().filter(|preset| preset.name != "ideal") {
        let card = &preset.parameters;
        let pattern =
            |count| Pattern { count, area: card.unit, random: false, smallest: 512 << 10 };
        let rate = |count| probe::open_units(card, &pattern(count)).unwrap();
        let (within, beyond) = (rate(card.open_units), rate(card.open_units + 1));
        let last = within.len() - 1;
        assert!(within[last].megabytes > 3.0 * beyond[last].megabytes, "{}", preset.name);
        assert!((within[0].megabytes / beyond[0].megabytes - 1.0).abs() < 0.05);
    }
}

#[test]
fn reads_show_the_boundaries_of_pages_and_units() {
    let card = preset("sd-2012-c10");
    let step = |alignment| probe::boundary_ns(&card, alignment, 1024).unwrap();
    assert_eq!([2 << 10, 4 << 10, 8 << 10].map(step), [0; 3]);
    assert_eq!([16 << 10, 1 << 20, 4 << 20].map(step), [260_000; 3]);
    assert_eq!([8 << 20, 16 << 20, 64 << 20].map(step), [430_000; 3]);
}

/// 128 KiB is what Linux reads ahead: the bus is the limit then.
#[test]
fn sequential_reads_reach_the_rate_of_the_bus() {
    let card = Card::in_memory(preset("sd-2012-c10").with_capacity(64 << 20)).unwrap();
    let mut data = vec![0; 128 << 10];
    for at in 0..512 {
        card.read(at * (128 << 10), &mut data).unwrap();
    }
    let rate = f64::from(64 << 20) * 1e3 / card.counters().total_ns() as f64;
    assert!((10.6..10.8).contains(&rate), "{rate}");
}

#[test]
fn a_fat_in_the_first_unit_closes_no_other() {
    let card = Card::in_memory(preset("sd-2012-c10").with_capacity(128 << 20)).unwrap();
    let block = vec![0; 64 << 10];
    for turn in 0..128 {
        for unit in 0..6 {
            card.write(unit * (8 << 20) + turn * (64 << 10), &block).unwrap();
        }
    }
    let counters = card.counters();
    assert_eq!((counters.copied_bytes, counters.fat_bytes), (0, 8 << 20));
    assert_eq!((counters.switch_erases, counters.fat_erases), (5, 1));
}

#[test]
fn small_writes_that_continue_share_the_page_buffer() {
    let write = |places: &[u64]| {
        let card = Card::in_memory(preset("sd-2012-c10").with_capacity(128 << 20)).unwrap();
        for turn in 0..256 {
            for place in places {
                card.write(place + turn * 4096, &[0; 4096]).unwrap();
            }
        }
        (card.counters(), card.counters().total_ns() / places.len() as u64)
    };
    let (linear, one) = write(&[8 << 20]);
    let (_, two) = write(&[8 << 20, 16 << 20]);
    assert_eq!((linear.padding_bytes, linear.partial_page_ns), (0, 3_000_000));
    assert!(two > 3 * one, "{one} {two}");
}
