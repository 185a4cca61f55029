//! Builds a UBI image with one UBIFS volume from a folder: `build_image FOLDER IMAGE`.

#![allow(clippy::print_stdout)] // it is what the example is for

use eraseblock::{Build, BuildReport};
use std::error::Error;
use std::path::Path;

/// Builds the image of `folder` for a NAND of 128 MiB.
pub(crate) fn run(folder: &Path, image: &Path) -> Result<BuildReport, Box<dyn Error>> {
    let layout = format!(
        "flash.part = 'W25N01GV'\n\
         [[volume]]\n\
         name = 'rootfs'\n\
         flags = ['autoresize']\n\
         content = {{ ubifs = '{}', compressor = 'zstd' }}\n",
        folder.canonicalize()?.display(),
    );
    Ok(Build::from_text(&layout, ".")?.write_to(image)?)
}

#[allow(dead_code)] // the tests call `run`
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, image] = arguments.as_slice() else {
        return Err("usage: build_image FOLDER IMAGE".into());
    };
    let report = run(Path::new(folder), Path::new(image))?;
    println!("{image}: {} bytes in {} eraseblocks", report.image_size, report.blocks);
    Ok(())
}
