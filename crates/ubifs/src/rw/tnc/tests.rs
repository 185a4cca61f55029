//! Which index nodes stay in memory.

use crate::rw::MountOptions;
use crate::rw::tests::{blank, create, mount};
use eraseblock_vfs::{FileSystem, WritableFileSystem};

/// After memory was swept, index nodes are kept again until the limit is reached, not read again from
/// flash with each operation.
#[test]
fn index_nodes_stay_in_memory_as_long_as_there_is_room() {
    const MOST: usize = 64;
    let device = blank(80);
    let fs = mount(&device, MountOptions::default());
    create(&fs, 0..600);
    fs.unmount().unwrap();
    let fs = mount(&device, MountOptions { index_bytes: 0, ..MountOptions::default() });
    let mut counts = Vec::new();
    for number in 0..600_u32 {
        fs.lookup(1, format!("{number:04}").as_bytes()).unwrap();
        let core = fs.lock_shared();
        let tnc = &core.store.nodes.tnc;
        counts.push((tnc.nodes.len() - tnc.free.len(), tnc.free.len()));
    }
    let swept = counts.iter().position(|(_, free)| *free > 0).expect("the limit was reached");
    let most = counts[swept..].iter().map(|(kept, _)| *kept).max();
    assert!(most.is_some_and(|most| (MOST - 3..=MOST).contains(&most)), "{most:?}");
}
