//! Writes a file of an image: `write_file IMAGE VOLUME PATH TEXT`.

use std::error::Error;

/// Writes `text` to the file at `path`, and makes the directories above it.
pub(crate) fn run(image: &str, volume: &str, path: &str, text: &str) -> Result<(), Box<dyn Error>> {
    let volume = eraseblock::edit(image)?.volume(volume)?;
    if let Some((dir, _)) = path.rsplit_once('/') {
        volume.create_dir_all(dir)?;
    }
    volume.write(path, text)?;
    // Unmounts: Linux has no journal to replay.
    volume.close()?;
    Ok(())
}

#[allow(dead_code)] // the tests call `run`
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, volume, path, text] = arguments.as_slice() else {
        return Err("usage: write_file IMAGE VOLUME PATH TEXT".into());
    };
    run(image, volume, path, text)
}
