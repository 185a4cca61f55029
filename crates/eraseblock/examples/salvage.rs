//! Copies out of a damaged image what can be read: `salvage IMAGE FOLDER`.

#![allow(clippy::print_stdout)] // it is what the example is for

use eraseblock::{ExtractOptions, Findings, open};
use std::error::Error;
use std::path::Path;

/// Copies the file system of every volume into a folder of its own, and returns what is wrong.
pub(crate) fn run(image: &Path, dest: &Path) -> Result<Findings, Box<dyn Error>> {
    let image = open(image)?;
    std::fs::create_dir_all(dest)?;
    let mut findings = image.findings().clone();
    for volume in image.volumes() {
        let Ok(fs) = volume.file_system() else { continue };
        let dest = dest.join(format!("volume-{}", volume.id()));
        let report = fs.extract_to(&dest, &ExtractOptions::default())?;
        findings.append(fs.findings().clone());
        findings.append(report.findings);
    }
    Ok(findings)
}

#[allow(dead_code)] // the tests call `run`
fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [image, dest] = arguments.as_slice() else {
        return Err("usage: salvage IMAGE FOLDER".into());
    };
    for finding in &run(Path::new(image), Path::new(dest))? {
        println!("{}: {} [{}]", finding.at, finding.message, finding.code);
    }
    Ok(())
}
