//! The census: every byte of any image belongs to exactly one record.
#![no_main]

use eraseblock_base::ByteOrder;
use eraseblock_census::{Census, Format, Plan, Segment};
use eraseblock_fuzz::{LEB_SIZE, layout};
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let Some((choice, image)) = data.split_first() else { return };
    let format = match choice % 4 {
        0 => Format::Ubi(layout()),
        1 => Format::Ubifs { leb_size: LEB_SIZE },
        2 => Format::Jffs2 { block_size: 8192, order: ByteOrder::Little },
        _ => Format::Jffs2 { block_size: 8192, order: ByteOrder::Big },
    };
    let image = Arc::new(image.to_vec());
    let known = vec![Segment { offset: 0, len: image.len() as u64, format }];
    let plan = Plan::new(image.as_ref(), known).expect("memory can be read");
    let census = Census::new(Arc::clone(&image) as _, plan).expect("memory can be read");
    let mut end = 0;
    census
        .walk(&mut |entry| {
            assert_eq!(entry.record.offset, end);
            end += entry.record.len;
            Ok(())
        })
        .expect("memory can be read");
    assert_eq!(end, image.len() as u64);
});
