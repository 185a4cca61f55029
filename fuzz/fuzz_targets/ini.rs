//! ubinize configurations: any text is a list of volumes or an error with its line.
#![no_main]

use eraseblock_ubi::image::ini::{parse_sections, parse_volumes};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let _ = (parse_sections(&text), parse_volumes(&text));
});
