//! Scanning: nodes come in order, inside the LEB and on the grid of 8 bytes, and the scan ends.
#![no_main]

use eraseblock_base::Leb;
use eraseblock_ubifs_format::{Limits, scan::Scanner};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let leb_size = data.len().min(1 << 17);
    let bytes = &data[..leb_size];
    let limits = Limits { leb_size: leb_size as u32, fanout: 8, hash_len: 0 };
    let mut scanner = Scanner::new(Leb::new(10), bytes, 0, limits);
    let mut end = 0;
    for (offset, node) in scanner.by_ref() {
        assert!(offset >= end && offset % 8 == 0);
        end = offset + node.bytes().len() as u32;
        assert!(end as usize <= leb_size);
    }
    assert!(scanner.stop().is_some());
    let _ = (scanner.strict_error(512), scanner.is_torn(2048));
});
