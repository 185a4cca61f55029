//! The census: every byte of any image belongs to exactly one record.
#![no_main]

use eraseblock_census::{Census, Plan};
use eraseblock_fuzz::segment;
use libfuzzer_sys::fuzz_target;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let Some((choice, image)) = data.split_first() else { return };
    let image = Arc::new(image.to_vec());
    let known = vec![segment(*choice, &image)];
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
