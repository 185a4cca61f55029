//! The figures are what the specification promises.

use eraseblock_lab::figures::{AttachBy, Size, attach_cost, wear, write_cost};

fn no_clock() -> f64 {
    0.0
}

#[test]
fn a_scan_reads_one_or_two_pages_a_block() {
    for (size, pages) in [(Size::large_page(128), 1), (Size::small_page(8), 2)] {
        let cost = attach_cost(size, AttachBy::Scan, &no_clock).unwrap();
        let count = u64::from(size.count);
        let reads = cost.page_reads - cost.table_reads;
        println!("{size:?}: {reads} page reads for {count} blocks");
        assert!(reads == pages * count);
        assert!(!cost.by_fastmap);
    }
}

#[test]
fn a_fastmap_bounds_the_reads() {
    for mebibytes in [32, 512, 1024] {
        let (size, pebs) = (Size::large_page(mebibytes), u64::from(mebibytes) * 8);
        let cost = attach_cost(size, AttachBy::Fastmap, &no_clock).unwrap();
        println!("{mebibytes} MiB: {cost:?}");
        assert!(cost.by_fastmap);
        let blocks = (7600 + 12 * pebs).div_ceil(129_024);
        // The first 64 blocks, the fastmap, the pools, their headers, and the volume table.
        assert!(cost.page_reads <= 64 + 64 * blocks + 2 * 384 + 64 + 200);
    }
}

#[test]
fn wear_is_level_and_the_write_path_short() {
    let wear = wear(64, 16, 600).unwrap();
    println!("{wear:?}");
    assert!(wear.spread <= 17 && wear.lifetime >= 0.95, "{wear:?}");
    for pages in [1, 8] {
        let cost = write_cost(Size::small_page(1), pages).unwrap();
        let least = u64::from(pages) + 1;
        assert_eq!(cost, (least, least), "a header and the data");
    }
}
