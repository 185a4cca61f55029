//! The text form of images: any text is an image or an error; every image becomes text, and that text
//! becomes the image again.
#![no_main]

use eraseblock_base::ByteOrder;
use eraseblock_census::text::{assemble, disassemble};
use eraseblock_census::walk::Tables;
use eraseblock_census::{Format, Plan, Segment};
use eraseblock_fuzz::{LEB_SIZE, layout};
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
    let format = match choice % 4 {
        0 => Format::Ubi(layout()),
        1 => Format::Ubifs { leb_size: LEB_SIZE },
        2 => Format::Jffs2 { block_size: 8192, order: ByteOrder::Little },
        _ => Format::Jffs2 { block_size: 8192, order: ByteOrder::Big },
    };
    let image = image.to_vec();
    let known = vec![Segment { offset: 0, len: image.len() as u64, format }];
    let plan = Plan::new(&image, known).expect("memory can be read");
    let mut text = Vec::new();
    disassemble(&image, &plan, &Tables::new(), None, &mut text).expect("memory can be written");
    let mut again = Image(Vec::new());
    let len = assemble(&mut Cursor::new(text), None, &mut again).expect("it is a text of ours");
    assert!(again.0 == image && len == image.len() as u64);
});
