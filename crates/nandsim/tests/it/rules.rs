//! The conformance list (spec: mtd-nand 16), one test per item.

use super::{P0, P1, large, mini, nor, pattern, read};
use eraseblock_mtd::{Mtd, MtdError};
use eraseblock_nandsim::{Chip, ChipConfig, Policy, Rules, parts};

#[test]
fn erased_and_never_programmed_flash_reads_ff() {
    let chip = Chip::new(large());
    assert_eq!(read(&chip, 1000, 5000).0, [0xFF; 5000]);
    chip.program(0, &pattern(4096, 1)).unwrap();
    assert_eq!(read(&chip, 0, 4096).0, pattern(4096, 1));
    assert_eq!(read(&chip, 4096, 100).0, [0xFF; 100]);
    assert_eq!(read(&chip, 100, 3900).0, pattern(4096, 1)[100..4000]);
    chip.erase(P0).unwrap();
    assert_eq!(read(&chip, 0, 4096).0, [0xFF; 4096]);
}

#[test]
fn programming_ands_data_and_oob() {
    let chip = Chip::new(mini().with_rules(Rules::OFF));
    chip.program_with_oob(0, &[0xA5; 512], &[0xF0; 16]).unwrap();
    chip.program_with_oob(0, &[0x5A; 512], &[0x3F; 16]).unwrap();
    let (mut data, mut oob) = ([1; 512], [1; 16]);
    chip.read_with_oob(0, &mut data, &mut oob).unwrap();
    assert_eq!((data, oob), ([0; 512], [0x30; 16]));
}

type Act = fn(&Chip) -> Result<(), MtdError>;

/// Every rule: its setup, the operation that breaks it, and the words of the refusal.
const RULES: [(&str, Act, Act); 7] = [
    (
        "programming bytes that are not erased",
        |c| c.program(0, &[0; 512]),
        |c| c.program(0, &[0; 512]),
    ),
    (
        "programming bytes that are not erased",
        |c| c.program_oob(0, 6, &[0x12]),
        |c| c.program_oob(0, 5, &[0xFF, 0x02]),
    ),
    (
        "more programs of a page than the part allows",
        |c| (0..4).try_for_each(|i| c.program_oob(2048, 8 + i, &[0])),
        |c| c.program_oob(2048, 20, &[0]),
    ),
    (
        "programming a page below one that is already programmed",
        |c| c.program(4096, &[0; 2048]),
        |c| c.program(2048, &[0; 2048]),
    ),
    ("programming a block that is marked bad", |c| c.mark_bad(P0), |c| c.program(0, &[0; 512])),
    ("erasing a block that is marked bad", |c| c.mark_bad(P1), |c| c.erase(P1)),
    (
        "programming a block whose erase was interrupted",
        |c| {
            c.program(0, &[0; 4096])?;
            let fail = eraseblock_nandsim::Fault::Fail;
            c.set_plan(eraseblock_nandsim::FaultPlan::new(1).with(c.next_event(), fail));
            assert!(c.erase(P0).is_err());
            Ok(())
        },
        |c| c.program(8192, &[0; 512]),
    ),
];

#[test]
fn each_rule_is_refused_reported_or_left_alone() {
    for (rule, set_up, break_it) in RULES {
        let chip = Chip::new(large());
        set_up(&chip).unwrap();
        let (before, events) = (chip.snapshot(), chip.next_event());
        let error = break_it(&chip).expect_err(rule);
        assert!(matches!(error, MtdError::Rule { .. }), "{error}");
        assert!(error.to_string().contains(rule), "{error}");
        assert!(error.to_string().starts_with("peb "), "{error} has no address");
        assert!(chip.snapshot().same_flash(&before), "a refused operation changed something");
        assert_eq!(chip.next_event(), events);

        let report = Policy::Report;
        let rules = Rules {
            overwrite: report,
            partial_programs: report,
            page_order: report,
            bad_block: report,
            interrupted_erase: report,
            interrupted_read: Policy::Off,
        };
        let chip = Chip::new(large().with_rules(rules));
        set_up(&chip).unwrap();
        break_it(&chip).unwrap();
        assert!(chip.violations().iter().any(|finding| finding.message == rule), "{rule}");

        let chip = Chip::new(large().with_rules(Rules::OFF));
        set_up(&chip).unwrap();
        break_it(&chip).unwrap();
        assert!(chip.violations().is_empty());
    }
}

#[test]
fn ranges_and_alignment_are_checked() {
    let chip = Chip::new(large());
    let size = chip.geometry().size();
    let mut byte = [0];
    assert!(chip.read(size, &mut []).is_ok());
    for error in [
        chip.read(size, &mut byte).unwrap_err(),
        chip.read(u64::MAX, &mut byte).unwrap_err(),
        chip.program(1, &[0; 512]).unwrap_err(),
        chip.program(0, &[0; 100]).unwrap_err(),
        chip.program(size, &[0; 512]).unwrap_err(),
        chip.erase(eraseblock_base::Peb::new(16)).unwrap_err(),
        chip.is_bad(eraseblock_base::Peb::new(16)).unwrap_err(),
        chip.read_oob(0, 64, &mut byte).unwrap_err(),
        chip.program_oob(0, 60, &[0; 5]).unwrap_err(),
        chip.program_with_oob(1536, &[0; 1024], &[]).unwrap_err(),
    ] {
        assert!(matches!(error, MtdError::Range { .. }), "{error}");
    }
    assert_eq!(chip.next_event(), 0);
}

#[test]
fn subpages_are_programmed_one_by_one_up_to_the_limit() {
    let chip = Chip::new(large());
    for index in 0..4 {
        chip.program(512 * index, &pattern(512, index)).unwrap();
    }
    for index in 0..4 {
        assert_eq!(read(&chip, 512 * index, 512).0, pattern(512, index));
    }
    assert!(chip.program(0, &[0; 512]).is_err());
}

#[test]
fn nor_clears_bits_as_often_as_it_likes_and_has_no_bad_blocks() {
    let chip = Chip::new(nor());
    chip.program(3, &[0xF0, 0x0F]).unwrap();
    chip.program(3, &[0x30]).unwrap();
    assert_eq!(read(&chip, 2, 4).0, [0xFF, 0x30, 0x0F, 0xFF]);
    assert!(matches!(chip.program(3, &[0x80]), Err(MtdError::Rule { .. })));
    assert!(!chip.is_bad(P0).unwrap());
    assert!(matches!(chip.mark_bad(P0), Err(MtdError::Unsupported { .. })));
    assert!(chip.read_oob(0, 0, &mut [0]).is_err());
    chip.program(250, &pattern(1000, 3)).unwrap();
    assert_eq!(read(&chip, 250, 1000).0, pattern(1000, 3));
}

#[test]
fn bad_marks_are_on_the_medium() {
    let chip = Chip::new(large());
    chip.mark_bad(P1).unwrap();
    let events = chip.next_event();
    chip.mark_bad(P1).unwrap();
    assert_eq!(chip.next_event(), events, "marking twice is no event");
    assert!(chip.is_bad(P1).unwrap() && !chip.is_bad(P0).unwrap());
    for page in 0..3 {
        let mut oob = [0; 2];
        chip.read_oob(32_768 + page * 2048, 0, &mut oob).unwrap();
        assert_eq!(oob, if page < 2 { [0, 0xFF] } else { [0xFF; 2] });
    }
    chip.program_oob(0, 0, &[0x7F]).unwrap();
    assert!(chip.is_bad(P0).unwrap(), "any value but FF is a mark");
    let mini = Chip::new(mini());
    mini.mark_bad(P0).unwrap();
    let mut oob = [0; 7];
    mini.read_oob(0, 0, &mut oob).unwrap();
    assert_eq!(oob[4..], [0xFF, 0, 0xFF]);
}

#[test]
fn virtual_time_follows_the_formulas() {
    // spec: mtd-nand 12.2, example A: tR 25 us, tPROG 220 us, tBERS 1500 us, 25 ns a byte
    let chip = Chip::new(large());
    let spent = |act: &dyn Fn()| {
        let before = chip.counters().virtual_ns;
        act();
        chip.counters().virtual_ns - before
    };
    let us = 1000;
    let program = spent(&|| chip.program(0, &[0; 2048]).unwrap());
    assert!((272 * us..275 * us).contains(&program), "{program}");
    let full = spent(&|| drop(read(&chip, 0, 2048)));
    assert!((77 * us..79 * us).contains(&full), "{full}");
    let header = spent(&|| drop(read(&chip, 0, 64)));
    assert!((31 * us..39 * us).contains(&header), "{header}");
    let erase = spent(&|| chip.erase(P0).unwrap());
    assert!((1500 * us..1501 * us).contains(&erase), "{erase}");
    let counters = chip.counters();
    assert_eq!((counters.page_reads, counters.page_programs, counters.erases), (2, 1, 1));
    assert_eq!((counters.bytes_read, counters.bytes_programmed), (2112, 2048));
}

#[test]
fn wear_is_counted_per_block() {
    let chip = Chip::new(mini());
    (0..3).for_each(|_| chip.erase(P1).unwrap());
    assert_eq!((chip.erase_count(P0), chip.erase_count(P1)), (0, 3));
    let report = chip.wear_report();
    assert_eq!((report.min_erases, report.max_erases, report.total_erases), (0, 3, 3));
}

#[test]
fn images_go_out_and_in() {
    for oob in [false, true] {
        let chip = Chip::new(mini());
        chip.program_with_oob(1024, &pattern(512, 7), &[0xFF; 16]).unwrap();
        chip.program_oob(1024, 8, &[1, 2]).unwrap();
        chip.mark_bad(P1).unwrap();
        let mut image = Vec::new();
        chip.export(&mut image, oob).unwrap();
        assert_eq!(image.len(), 64 * 32 * if oob { 528 } else { 512 });
        let copy = Chip::new(mini());
        assert_eq!(copy.import(&mut &image[..], oob).unwrap(), image.len() as u64);
        let mut again = Vec::new();
        copy.export(&mut again, oob).unwrap();
        assert_eq!(image, again);
        assert_eq!(copy.is_bad(P1).unwrap(), oob);
        assert!(copy.program(1024, &[0; 512]).is_err(), "what was imported is programmed");
        copy.program(2048, &[0; 512]).unwrap();
    }
}

/// A chip filled from a dump refused UBI's second header, because the first one made its whole page
/// count as programmed.
#[test]
fn erased_subpages_of_an_image_can_be_programmed() {
    let chip = Chip::new(large());
    let mut image = vec![0xFF; 2048];
    image[..64].fill(0x55);
    chip.import(&mut &image[..], false).unwrap();
    chip.program(512, &[0; 512]).unwrap();
    assert!(chip.program(0, &[0; 512]).is_err(), "what was imported is programmed");
}

#[test]
fn every_part_makes_a_chip() {
    for part in parts::PARTS {
        let chip = Chip::new(ChipConfig::of_part(part));
        let unit = part.page as usize;
        chip.program(0, &pattern(unit, 1)).unwrap();
        let end = chip.geometry().size() - unit as u64;
        chip.program(end, &pattern(unit, 2)).unwrap();
        assert_eq!(read(&chip, 0, unit).0, pattern(unit, 1), "{}", part.name);
        assert_eq!(read(&chip, end, unit).0, pattern(unit, 2), "{}", part.name);
    }
}
