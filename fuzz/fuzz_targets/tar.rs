//! Archives: any bytes are a tree or an error, and memory does not follow what headers claim.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::io::Cursor;

fuzz_target!(|data: &[u8]| {
    if let Ok((tree, _)) = eraseblock_tree::tar::read_stream(Box::new(Cursor::new(data.to_vec()))) {
        eraseblock_fuzz::read_source(&tree);
    }
});
