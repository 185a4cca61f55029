//! Prints a file of an image: `read_file IMAGE VOLUME PATH`.

use std::error::Error;
use std::io::{Write, copy};

/// Writes the file at `path` to `out`, piece by piece.
pub(crate) fn run(
    image: &str,
    volume: &str,
    path: &str,
    out: &mut dyn Write,
) -> Result<(), Box<dyn Error>> {
    let image = eraseblock::open(image)?;
    let mut file = image.volume(volume)?.file_system()?.open(path)?;
    copy(&mut file, out)?;
    Ok(())
}

#[allow(dead_code)] // the tests call `run`
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, volume, path] = arguments.as_slice() else {
        return Err("usage: read_file IMAGE VOLUME PATH".into());
    };
    run(image, volume, path, &mut std::io::stdout())
}
