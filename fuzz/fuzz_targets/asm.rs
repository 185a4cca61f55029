//! The text form of images: any text is an image or an error; every image becomes text, and that text
//! becomes the image again.
#![no_main]

use eraseblock_census::Plan;
use eraseblock_census::text::{assemble, disassemble};
use eraseblock_census::walk::Tables;
use eraseblock_fuzz::segment;
use libfuzzer_sys::fuzz_target;
use std::io::{self, Cursor, Write};

/// The most bytes of an image; a text may claim any number.
const MOST: usize = 4 << 20;

struct Image(Vec<u8>);

impl Write for Image {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST {
            return Err(io::Error::other("enough"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fuzz_target!(|data: &[u8]| {
    let _ = assemble(&mut Cursor::new(data), None, &mut Image(Vec::new()));
    let Some((choice, image)) = data.split_first() else { return };
    let image = image.to_vec();
    let known = vec![segment(*choice, &image)];
    let plan = Plan::new(&image, known).expect("memory can be read");
    let mut text = Vec::new();
    disassemble(&image, &plan, &Tables::new(), None, &mut text).expect("memory can be written");
    let mut again = Image(Vec::new());
    let len = assemble(&mut Cursor::new(text), None, &mut again).expect("it is a text of ours");
    assert!(again.0 == image && len == image.len() as u64);
});
