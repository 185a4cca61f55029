//! UBIFS and JFFS2 on one chip, and what a mount of JFFS2 reads.

use eraseblock_lab::figures::side_by_side::{Medium, Side, Summaries, cost, mount_bytes};

#[test]
fn both_file_systems_do_the_same_work_on_one_chip() {
    let costs = [Side::Ubifs, Side::Jffs2].map(|side| cost(side, Medium::Nand, 8).unwrap());
    let nodes = mount_bytes(8, Summaries::Written).unwrap().nodes;
    assert!(costs[1].memory > 16 * nodes, "each node is kept: {costs:?}");
    for cost in costs {
        println!("{cost:?}");
        assert!(cost.write > 0.0 && cost.mount > 0.0 && cost.read > 0.0 && cost.delete > 0.0);
        assert!(cost.memory > 1024 && cost.memory < 128 << 10, "{cost:?}");
        assert!(cost.mount < 0.5, "less than half a second for 8 MiB: {cost:?}");
    }
}

#[test]
fn a_mount_of_jffs2_reads_what_the_format_demands() {
    for summaries in [Summaries::Written, Summaries::LeftOut] {
        let bytes = mount_bytes(8, summaries).unwrap();
        println!("{bytes:?}");
        assert_eq!(bytes.read, bytes.demanded);
        assert_eq!(bytes.summaries > 0, summaries == Summaries::Written);
    }
}
