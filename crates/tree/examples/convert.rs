//! Reads a source (directory, tar, cpio, or `-` for an archive on standard input) and extracts it
//! into a directory.

use eraseblock_tree::dir::ReadOptions;
use eraseblock_tree::extract::{ExtractOptions, to_dir};
use eraseblock_vfs::FileSystem;
use eraseblock_vfs_testkit::MemoryFs;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

#[allow(clippy::print_stdout)] // an example talks
fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [source, dest] = &args[..] else {
        return Err("usage: convert SOURCE DEST".into());
    };
    let start = Instant::now();
    let opened = eraseblock_tree::source::open(Path::new(source), &ReadOptions::default())?;
    println!("{:?}: {} nodes in {:?}", opened.format, opened.tree.len(), start.elapsed());
    for finding in &opened.findings {
        println!("{finding}");
    }
    let fs = MemoryFs::new(opened.tree);
    let start = Instant::now();
    let options = ExtractOptions::default();
    let report = to_dir(&fs, fs.root(), Path::new(dest), &options, &|_| {})?;
    println!("{} files, {} bytes in {:?}", report.files, report.bytes, start.elapsed());
    for finding in &report.findings {
        println!("{finding}");
    }
    Ok(())
}
