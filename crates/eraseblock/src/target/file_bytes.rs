//! The bytes of image files.

use eraseblock_mtd::ReadAt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Opens a file to be read. With the feature `host` its holes are known, and searches skip them: without a
/// dependency on calls of the operating system nothing says where they are.
pub(crate) fn open(path: &Path) -> io::Result<Arc<dyn ReadAt>> {
    #[cfg(feature = "host")]
    let file = eraseblock_mtd_host::SparseFile::open(path)?;
    #[cfg(not(feature = "host"))]
    let file = std::fs::File::open(path)?;
    Ok(Arc::new(file))
}
