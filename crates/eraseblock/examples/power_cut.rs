//! Cuts the power of a simulated chip during a write, at every flash operation in turn, and shows that
//! the file system always comes up: `power_cut IMAGE FOLDER`.

#![allow(clippy::print_stdout)] // it is what the example is for

use eraseblock::raw::nandsim::{ArmedCut, Chip, ChipConfig, Variant, parts};
use std::error::Error;
use std::fs::File;
use std::path::Path;

/// The file that is written when the power goes off.
const PATH: &str = "/etc/motd";

/// How the file looked after the cuts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// Cuts that left the old content.
    pub(crate) old: u64,
    /// Cuts that left an empty or a partial file.
    pub(crate) between: u64,
    /// Cuts that left the new content.
    pub(crate) new: u64,
}

/// Writes to the file until no cut comes any more; `every` is the distance of the cuts.
pub(crate) fn run(image: &Path, folder: &Path, every: usize) -> Result<Outcome, Box<dyn Error>> {
    let old = eraseblock::open(image)?.file_system()?.read(PATH)?;
    let new = b"written while the power went off\n";
    let mut outcome = Outcome::default();
    for after in (0..).step_by(every) {
        let path = folder.join("chip");
        let chip = Chip::create(&path, ChipConfig::of_part(parts::find("W25N01GV")?))?;
        chip.import(&mut File::open(image)?, false)?;
        // What the cut leaves of a page that is programmed, and of a block that is erased.
        let (program, erase): (Variant, Variant) = ("P1".parse()?, "E2".parse()?);
        let event = chip.next_event() + after;
        chip.arm_cut(Some(ArmedCut { event, program, erase, seed: after }))?;
        drop(chip);
        let written =
            eraseblock::edit(&path)?.file_system().and_then(|fs| fs.write(PATH, new)).is_ok();
        let content = eraseblock::open(&path)?.file_system()?.read(PATH)?;
        match content {
            content if content == new => outcome.new += 1,
            content if content == old => outcome.old += 1,
            _ => outcome.between += 1,
        }
        if written {
            // The work was done before the cut: no later one can disturb it.
            return Ok(outcome);
        }
    }
    Ok(outcome)
}

#[allow(dead_code)] // the tests call `run`
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, folder] = arguments.as_slice() else {
        return Err("usage: power_cut IMAGE FOLDER".into());
    };
    println!("{:?}", run(Path::new(image), Path::new(folder), 1)?);
    Ok(())
}
