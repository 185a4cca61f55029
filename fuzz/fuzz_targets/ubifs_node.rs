//! Nodes: each way to look into a node of any type gives a value or an error.
#![no_main]

use eraseblock_base::{Leb, Location};
use eraseblock_fuzz::LEB_SIZE;
use eraseblock_ubifs_format::{Limits, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The checksum is made right, or no input would get past it.
    let mut bytes = data.to_vec();
    let stored = bytes.get(16..20).and_then(|len| <[u8; 4]>::try_from(len).ok());
    let len = stored.map_or(0, u32::from_le_bytes) as usize;
    if let Some(node) = bytes.get(8..len) {
        let crc = eraseblock_base::crc::crc32(node);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    }
    for hash_len in [0, 32] {
        let limits = Limits { leb_size: LEB_SIZE, fanout: 8, hash_len };
        let at = Location::Leb(Leb::new(10), 0);
        let _ = decode::header(&bytes, &limits, at);
        let Ok(node) = decode::node(&bytes, &limits, at) else { continue };
        let _ = (node.key(), node.inode(), node.dent(), node.data(), node.truncation());
        let _ = (node.padding(0, LEB_SIZE), node.reference(), node.commit_start(), node.orphan());
        let _ = (node.index(&limits, 10, 64), node.superblock(), node.master());
    }
});
