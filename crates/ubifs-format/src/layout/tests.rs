//! The formulas of the areas: worked examples and superblocks of the reference tool.

use super::*;
use proptest::prelude::*;

fn image(leb_size: u32, min_io: u32, max_leb_cnt: u32) -> Layout {
    Layout::for_image(&LayoutOptions::new(leb_size, min_io, max_leb_cnt)).unwrap()
}

#[test]
fn the_worked_examples_come_out() {
    let a = image(15360, 512, 30);
    assert_eq!((a.max_bud_bytes, a.log_lebs, a.lpt_lebs, a.big_lpt), (61440, 4, 2, false));
    let lpt = a.lpt(a.max_main_lebs);
    assert_eq!((lpt.pnode_cnt, lpt.nnode_cnt), (5, 3));
    assert_eq!((lpt.pnode_size, lpt.nnode_size), (14, 11));
    assert_eq!((lpt.ltab_size, lpt.lsave_size, lpt.total_size(Lsave::Always)), (10, 163, 512));
    assert_eq!((lpt.height, lpt.pcnt_bits, lpt.lnum_bits), (2, 3, 5));
    assert_eq!(a.main_first(), Leb::new(10));

    let b = image(126_976, 2048, 2047);
    assert_eq!((b.max_bud_bytes, b.log_lebs, b.lpt_lebs, b.big_lpt), (8_388_608, 5, 2, false));
    let lpt = b.lpt(b.max_main_lebs);
    assert_eq!((lpt.pnode_cnt, lpt.nnode_cnt), (509, 171));
    assert_eq!((lpt.pnode_size, lpt.nnode_size), (17, 12));
    assert_eq!((lpt.ltab_size, lpt.lsave_size, lpt.total_size(Lsave::Always)), (11, 355, 12288));
    assert_eq!((lpt.height, lpt.pcnt_bits, lpt.lnum_bits), (5, 9, 11));
    assert_eq!(b.main_first(), Leb::new(11));

    let c = image(15872, 512, 6000);
    assert_eq!((c.max_bud_bytes, c.log_lebs, c.lpt_lebs, c.big_lpt), (8_388_608, 21, 8, true));
    let lpt = c.lpt(c.max_main_lebs);
    assert_eq!((lpt.pnode_size, lpt.nnode_size, lpt.ltab_size), (16, 13, 31));
    assert_eq!((lpt.total_size(Lsave::Always), lpt.lsave_size), (31232, 419));
    assert_eq!((lpt.height, lpt.pcnt_bits, lpt.lnum_bits), (6, 11, 13));
    assert_eq!(c.main_first(), Leb::new(33));
}

#[test]
fn an_empty_volume_is_laid_out_as_linux_does() {
    let layout = Layout::for_empty_volume(15360, 512, 40).unwrap();
    assert_eq!((layout.log_lebs, layout.max_bud_bytes, layout.orph_lebs), (3, 46080, 2));
    assert_eq!((layout.lpt_lebs, layout.max_main_lebs, layout.rp_size), (2, 30, 23040));
    assert_eq!(layout.main_first(), Leb::new(10));
}

type Case = (fn(&mut LayoutOptions), &'static str);

#[test]
fn what_cannot_be_is_refused() {
    let refused = |change: fn(&mut LayoutOptions)| {
        let mut options = LayoutOptions::new(15360, 512, 60);
        change(&mut options);
        Layout::for_image(&options).unwrap_err().to_string()
    };
    let cases: [Case; 14] = [
        (|o| o.min_io = 24, "minimum I/O unit is 24, expected a power of two"),
        (|o| o.min_io = 0, "minimum I/O unit is 0"),
        (|o| o.leb_size = 14848, "LEB size is 14848, expected a multiple of 512 from 15360"),
        (|o| o.leb_size = 15361, "LEB size is 15361"),
        (|o| o.max_leb_cnt = 16, "maximum LEB count is 16, expected 17"),
        (|o| o.max_leb_cnt = 20, "20 LEBs are too few: the log area leaves no space"),
        (|o| o.fanout = 2, "fanout is 2, expected 3 to 547"),
        (|o| o.fanout = 548, "fanout is 548"),
        (|o| o.orph_lebs = 0, "orphan area is 0"),
        (|o| o.orph_lebs = 43, "60 LEBs are too few: the orphan area leaves no space"),
        (|o| o.log_lebs = Some(1), "log area is 1, expected at least 2 LEBs"),
        (|o| o.journal_bytes = Some(100), "journal size is 100, expected 46080 to"),
        (|o| o.reserved = 60 * 15360, "reserved pool is 921600, expected under half"),
        (|o| o.reserved = u64::MAX, "reserved pool is"),
    ];
    for (change, message) in cases {
        let found = refused(change);
        assert!(found.starts_with(message), "{found}");
    }
}

#[test]
fn dead_and_dark_space_follow_the_watermarks() {
    let layout = image(15360, 512, 30);
    let of = |free, dirty| layout.dead_and_dark(&LebProps { free, dirty, index: false });
    assert_eq!(of(0, 504), (504, 0));
    assert_eq!(of(512, 0), (0, 512));
    assert_eq!(of(4608, 48), (0, 4600));
    assert_eq!(of(11776, 488), (0, 4608));
    let index = LebProps { free: 512, dirty: 8, index: true };
    assert_eq!(layout.dead_and_dark(&index), (0, 0));
}

/// Choices of mkfs.ubifs 2.1.5: (min_io, LEB size, LEBs, fanout, orphan LEBs, reserved), requested
/// log LEBs, (max_bud_bytes, log LEBs, LPT LEBs, rp_size, big model).
type Chosen = ([u32; 6], Option<u32>, [u64; 5]);

const CHOSEN: [Chosen; 12] = [
    ([64, 32640, 123, 16, 1, 0], Some(4), [456_960, 4, 2, 0, 0]),
    ([8, 16256, 44, 8, 1, 100_000], None, [65024, 4, 2, 105_761, 0]),
    ([2048, 28672, 5363, 8, 2, 100_000], None, [8_388_608, 24, 4, 105_761, 0]),
    ([2048, 258_048, 185, 16, 1, 100_000], Some(4), [5_419_008, 4, 2, 104_809, 0]),
    ([8, 130_944, 2377, 3, 3, 0], None, [8_388_608, 4, 2, 0, 0]),
    ([8, 524_160, 535, 16, 3, 0], None, [8_388_608, 4, 2, 0, 0]),
    ([2048, 520_192, 1365, 4, 1, 0], None, [8_388_608, 4, 2, 0, 0]),
    ([1, 32640, 1845, 8, 3, 100_000], Some(11), [7_441_920, 11, 2, 105_761, 0]),
    ([512, 64512, 196, 8, 1, 0], Some(10), [1_419_264, 10, 2, 0, 0]),
    ([8, 16256, 2613, 4, 1, 0], Some(16), [5_250_688, 16, 3, 0, 0]),
    ([64, 262_016, 5056, 16, 1, 0], None, [8_388_608, 4, 2, 0, 0]),
    ([512, 130_048, 10889, 3, 1, 0], None, [8_388_608, 4, 2, 0, 0]),
];

#[test]
fn the_classic_tool_chooses_the_same() {
    for ([min_io, leb_size, max_leb_cnt, fanout, orph_lebs, reserved], log_lebs, chosen) in CHOSEN {
        let options = LayoutOptions {
            log_lebs,
            orph_lebs,
            fanout,
            reserved: reserved.into(),
            ..LayoutOptions::new(leb_size, min_io, max_leb_cnt)
        };
        let layout = Layout::for_image(&options).unwrap();
        let found = [
            layout.max_bud_bytes,
            layout.log_lebs.into(),
            layout.lpt_lebs.into(),
            layout.rp_size,
            layout.big_lpt.into(),
        ];
        assert_eq!(found, chosen, "{options:?}");
    }
}

proptest! {
    #[test]
    fn no_parameters_panic_and_every_layout_is_sound(
        (leb_size, min_io, max_leb_cnt) in prop_oneof![
            (any::<u32>(), any::<u32>(), any::<u32>()),
            (1_u32..64, 0_u32..13, 0_u32..40_000).prop_map(|(leb, io, cnt)| (leb * 8192, 1 << io, cnt)),
        ],
        log_lebs in proptest::option::of(0_u32..100),
        orph_lebs in 0_u32..5,
        reserved in any::<u64>().prop_map(|bytes| bytes >> (bytes % 64)),
        fanout in 0_u32..64,
    ) {
        let options = LayoutOptions {
            log_lebs, orph_lebs, fanout, reserved, ..LayoutOptions::new(leb_size, min_io, max_leb_cnt)
        };
        if let Ok(layout) = Layout::for_image(&options) {
            let lpt = layout.lpt(layout.max_main_lebs);
            prop_assert!(lpt.fits());
            prop_assert!(lpt.total_size(Lsave::Always) * 2 <= u64::from(layout.lpt_lebs) * u64::from(leb_size));
            prop_assert_eq!(layout.main_first().get() + layout.max_main_lebs, max_leb_cnt);
        }
        let _ = Layout::for_empty_volume(leb_size, min_io, max_leb_cnt);
    }
}
