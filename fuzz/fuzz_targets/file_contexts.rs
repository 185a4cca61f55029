//! File contexts: any bytes are rules or an error, and matching ends.
#![no_main]

use eraseblock_tree::selinux::FileContexts;
use eraseblock_vfs::FileKind;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(contexts) = FileContexts::parse(data) {
        for path in [&b"/"[..], b"/etc/passwd", b"/a\xff\n"] {
            let _ = contexts.context(path, FileKind::Regular);
        }
    }
});
