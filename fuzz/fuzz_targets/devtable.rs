//! Device tables: any bytes change a tree or are refused.
#![no_main]

use eraseblock_vfs::{SourceKind, SourceNode, SourceTree};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;

fuzz_target!(|data: &[u8]| {
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let _ = eraseblock_tree::devtable::apply(&mut SourceTree::new(root), data);
});
