//! `eraseblock nand detect`: the recipe of a dump, with the evidence for it.

use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::documents::dump::{Report, magics};
use eraseblock::raw::nand_recipe::detect::{Candidate, Detection};
use eraseblock::raw::nand_recipe::{Confidence, Hints};
use eraseblock::raw::nandsim::parts;
use eraseblock::text;
use std::io::Write;
use std::path::PathBuf;

/// Arguments of `nand detect`.
#[derive(Debug, clap::Args)]
pub(super) struct DetectArgs {
    /// The raw dump
    dump: PathBuf,
    /// Another dump of the same chip: what is surest of one of them is reported; can be given several times
    #[arg(long, value_name = "DUMP")]
    also: Vec<PathBuf>,
    /// The identifier that the chip answers, in hexadecimal digits: its page and spare bytes are
    /// those of the part database
    #[arg(long, value_name = "HEX")]
    id: Option<String>,
    /// Bytes of data in a page, if they are known
    #[arg(long, value_name = "BYTES", requires = "oob")]
    page: Option<u32>,
    /// Spare bytes of a page, if they are known
    #[arg(long, value_name = "BYTES", requires = "page")]
    oob: Option<u32>,
    /// Search for unknown codes and scramblers if no built-in recipe explains the dump
    #[arg(long)]
    deep: bool,
    /// Write the best recipe to FILE, for --recipe
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Detects the recipe.
pub(super) fn run(args: &DetectArgs, session: &mut Session) -> Result<(), Failure> {
    let dumps = super::dumps(&args.dump, &args.also, session)?;
    let mut hints = Hints { magics: magics(), deep: args.deep, ..Hints::default() };
    hints.shape = args.page.zip(args.oob);
    if let Some(id) = &args.id {
        by_id(id, &mut hints)?;
    }
    let detection = super::detect_best(&dumps, &hints).context(args.dump.display())?;
    if let Some(path) = &args.output {
        let Some(best) = detection.best() else {
            let message = format!("{}: no recipe was found", args.dump.display());
            return Err(Failure::new(message));
        };
        let mut output = session.create(path)?;
        output.file.write_all(best.recipe.to_text().as_bytes()).context(path.display())?;
        output.commit()?;
    }
    if session.options.json {
        return session.json(&Report::of(&detection));
    }
    let lines = lines(&detection);
    session.lines(lines)
}

/// Takes page, spare bytes and block from the part database.
fn by_id(id: &str, hints: &mut Hints) -> Result<(), Failure> {
    let digits = id.to_ascii_lowercase();
    let part = parts::PARTS.iter().find(|part| {
        let known = text::hex(part.id);
        !known.is_empty()
            && (digits.starts_with(&known) || known.starts_with(&digits) && digits.len() >= 8)
    });
    let Some(part) = part else {
        let message = format!("--id {id}: no part of the database has this identifier");
        return Err(Failure::usage(message).hint("--page and --oob describe any other"));
    };
    hints.shape = Some((part.page, part.oob));
    hints.pages_per_block = Some(part.peb_size / part.page.max(1));
    Ok(())
}

/// Returns the report for people.
fn lines(detection: &Detection) -> Vec<String> {
    let mut lines: Vec<String> = detection.clues.clone();
    lines.push(text::count(detection.written, "written page", "written pages"));
    // Pages of half the size explain a part of what a certain recipe explains.
    let is_certain = detection.confidence() == Confidence::Certain;
    let is_shown = |it: &&Candidate| !is_certain || it.confidence() == Confidence::Certain;
    for candidate in detection.candidates.iter().filter(is_shown) {
        let (chip, tally) = (&candidate.recipe.chip, &candidate.tally);
        lines.push(String::new());
        lines.push(format!("{}: {}", candidate.recipe.name(), candidate.confidence()));
        lines.push(format!(
            "  pages of {} and {} bytes, {} in a block",
            chip.page, chip.oob, chip.pages_per_block
        ));
        lines.push(format!(
            "  {} of {} are valid as read, distinct and not uniform; chance below 2^{:.0}",
            text::grouped(tally.zero),
            text::count(tally.tried, "codeword", "codewords"),
            tally.chance().ceil()
        ));
        lines.push(format!(
            "  {:.1} % of {} decode, {} corrected",
            tally.share() * 100.0,
            text::grouped(tally.attempted),
            text::count(tally.corrected_bits, "bit", "bits")
        ));
    }
    if detection.candidates.is_empty() {
        lines.push("no recipe with a code explains it".to_owned());
        for shape in detection.shapes.iter().take(3) {
            lines.push(format!(
                "  pages of {} and {} bytes are possible: {} begin with a known magic, {:.0} % of the spare bytes are constant",
                shape.page,
                shape.oob,
                shape.magics,
                shape.constant * 100.0
            ));
        }
    }
    if detection.equals().next().is_some() {
        lines.push(String::new());
        lines.push("several recipes explain it equally well".to_owned());
    }
    lines
}
