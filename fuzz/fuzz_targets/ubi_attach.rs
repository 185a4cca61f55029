//! Whole images: detecting, attaching and reading every volume ends with a result, for all bytes.
#![no_main]

use eraseblock_mtd::ImageFile;
use eraseblock_ubi::{AttachOptions, Hints, Ubi, detect};
use libfuzzer_sys::fuzz_target;
use std::io::Read;
use std::sync::Arc;

fuzz_target!(|data: &[u8]| {
    let image = data.to_vec();
    let Ok(Some(found)) = detect(&image, &Hints::default()) else { return };
    let Ok(device) = ImageFile::new(image, &found.shape()) else { return };
    let options = AttachOptions { verify_static: true, ..AttachOptions::default() };
    let Ok(ubi) = Ubi::attach(Arc::new(device), &found.layout, &options) else { return };
    for info in &ubi.attachment().volumes {
        let Ok(volume) = ubi.volume(info.id) else { continue };
        let mut reader = volume.mapped_reader().take(1 << 20);
        let _ = std::io::copy(&mut reader, &mut std::io::sink());
        eraseblock_fuzz::read_ubifs(Arc::new(volume));
    }
});
