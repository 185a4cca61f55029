//! Reads everything that an image holds. For images that may be damaged: reads may fail, but must end.

use eraseblock_vfs::FileSystem;
use eraseblock_vfs::walk::{Descend, Visit, walk};

/// Names after which it ends.
const MOST: u32 = 10_000;

/// Reads names, attributes, and the first and the last bytes of everything: sizes may be any.
pub fn read_everything(fs: &dyn FileSystem) {
    let (mut buffer, mut visits) = ([0; 5000], 0);
    let _ = walk::<()>(fs, fs.root(), &mut |visit| {
        visits += 1;
        if let Visit::Entry { entry, .. } = visit {
            let size = fs.attr(entry.ino).map_or(0, |attr| attr.size);
            for name in fs.list_xattrs(entry.ino).unwrap_or_default() {
                let _ = fs.xattr(entry.ino, &name);
            }
            let _ = fs.read(entry.ino, 0, &mut buffer);
            let _ = fs.read(entry.ino, size.saturating_sub(1000), &mut buffer);
            let _ = (fs.seek_data(entry.ino, 0), fs.seek_hole(entry.ino, size / 2));
            let _ = (fs.read_link(entry.ino), fs.lookup(fs.root(), &entry.name));
        }
        if visits > MOST { Err(()) } else { Ok(Descend::Yes) }
    });
}
