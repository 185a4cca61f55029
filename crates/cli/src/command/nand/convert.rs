//! `eraseblock nand decode` and `nand encode`: between a raw dump and an image.

use crate::failure::{Context, Failure};
use crate::session::Session;
use eraseblock::raw::base::Findings;
use eraseblock::raw::mtd::ReadAt;
use eraseblock::raw::nand_recipe::stream::Place;
use eraseblock::raw::nand_recipe::{
    Damaged, DecodeOptions, Decoded, Hints, Outcome, Recipe, decode_reads, encode as encode_image,
};
use eraseblock::text;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Arguments of `nand decode`.
#[derive(Debug, clap::Args)]
pub(super) struct DecodeArgs {
    /// The raw dump
    dump: PathBuf,
    /// Another dump of the same chip: where the first one cannot be corrected, a codeword is taken from
    /// another one, or each bit as most dumps say; can be given several times
    #[arg(long, value_name = "DUMP")]
    also: Vec<PathBuf>,
    /// The image to write, or `-` for standard output
    #[arg(short, long, value_name = "IMAGE")]
    output: PathBuf,
    /// A built-in recipe, or a file with one [default: detected, if that is certain]
    #[arg(long, value_name = "NAME|FILE")]
    recipe: Option<String>,
    /// Write the outcome of every codeword to FILE, as comma-separated values
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Deliver data that cannot be corrected as it was read, not as zeros
    #[arg(long)]
    keep_damaged: bool,
}

/// Arguments of `nand encode`.
#[derive(Debug, clap::Args)]
pub(super) struct EncodeArgs {
    /// The image; pages of 0xFF stay erased
    image: PathBuf,
    /// The dump to write, or `-` for standard output
    #[arg(short, long, value_name = "DUMP")]
    output: PathBuf,
    /// A built-in recipe, or a file with one
    #[arg(long, value_name = "NAME|FILE")]
    recipe: String,
}

/// What was decoded, as JSON.
#[derive(Serialize)]
struct DecodeReport<'a> {
    recipe: &'a str,
    pages: u64,
    codewords: u64,
    erased: u64,
    corrected: u64,
    corrected_bits: u64,
    corrected_most: u32,
    leaked_bits: u64,
    uncorrectable: u64,
    unverified: u64,
    dumps: usize,
    differing_bits: u64,
    bad_blocks: &'a [u64],
}

/// What was encoded, as JSON.
#[derive(Serialize)]
struct EncodeReport<'a> {
    recipe: &'a str,
    pages: u64,
    erased: u64,
}

/// Writes the image.
pub(super) fn decode(args: &DecodeArgs, session: &mut Session) -> Result<(), Failure> {
    let dumps = super::dumps(&args.dump, &args.also, session)?;
    let (dump, all): (&File, Vec<&dyn ReadAt>) =
        (&dumps[0], dumps.iter().map(|dump| dump as &dyn ReadAt).collect());
    let recipe = match &args.recipe {
        Some(name) => super::recipe(name, session)?,
        None => certain(&dumps, &args.dump)?,
    };
    let output = session.create(&args.output)?;
    let map = args.map.as_deref().map(|path| session.create_named(path)).transpose()?;
    let mut rows = map.as_ref().map(|map| BufWriter::new(&map.file));
    if let Some(rows) = &mut rows {
        writeln!(rows, "block,page,codeword,outcome,bits")?;
    }
    let damaged = if args.keep_damaged { Damaged::AsRead } else { Damaged::Zeros };
    let mut findings = Findings::new();
    let bar = session.progress(dump.metadata()?.len(), "decode");
    let mut out = BufWriter::with_capacity(1 << 20, &output.file);
    let mut each = |place: Place, outcome: Outcome| match &mut rows {
        Some(rows) => row(rows, place, outcome),
        None => Ok(()),
    };
    let decoded = decode_reads(
        &all,
        &recipe,
        DecodeOptions { damaged },
        &mut bar.wrap_write(&mut out),
        &mut findings,
        &mut each,
    )
    .context(args.dump.display())?;
    out.flush().context(args.output.display())?;
    drop(out);
    if let Some(rows) = &mut rows {
        rows.flush()?;
    }
    drop(rows);
    bar.finish_and_clear();
    map.map_or(Ok(()), crate::output::Output::commit)?;
    output.commit()?;
    session.report(findings);
    report(&recipe, &decoded, dumps.len(), session)
}

fn report(
    recipe: &Recipe,
    decoded: &Decoded,
    dumps: usize,
    session: &mut Session,
) -> Result<(), Failure> {
    if session.options.json {
        return session.json(&DecodeReport {
            recipe: recipe.name(),
            pages: decoded.pages,
            codewords: decoded.codewords,
            erased: decoded.erased,
            corrected: decoded.corrected,
            corrected_bits: decoded.corrected_bits,
            corrected_most: decoded.corrected_most,
            leaked_bits: decoded.leaked_bits,
            uncorrectable: decoded.uncorrectable,
            unverified: decoded.unverified,
            dumps,
            differing_bits: decoded.differing_bits,
            bad_blocks: &decoded.bad_blocks,
        });
    }
    let count = |number: u64, one: &str, more: &str| text::count(number, one, more);
    let mut parts = vec![
        count(decoded.pages, "page", "pages"),
        format!("{} corrected", count(decoded.corrected_bits, "bit", "bits")),
    ];
    for (number, one, more) in [
        (decoded.uncorrectable, "codeword lost", "codewords lost"),
        (decoded.unverified, "codeword without a code", "codewords without a code"),
        (decoded.bad_blocks.len() as u64, "bad block", "bad blocks"),
    ] {
        if number > 0 {
            parts.push(count(number, one, more));
        }
    }
    if dumps > 1 {
        let bits = count(decoded.differing_bits, "bit", "bits");
        parts.push(format!("{dumps} dumps differ in {bits}"));
    }
    session.remark(&format!("{}: {}", recipe.name(), parts.join(", ")));
    Ok(())
}

fn row(rows: &mut impl Write, place: Place, outcome: Outcome) -> io::Result<()> {
    let (word, bits) = match outcome {
        Outcome::Clean => ("clean", 0),
        Outcome::Corrected(bits) => ("corrected", bits),
        Outcome::Erased(bits) => ("erased", bits),
        Outcome::Uncorrectable => ("uncorrectable", 0),
        Outcome::Unverified => ("unverified", 0),
    };
    let Place { block, page, codeword } = place;
    writeln!(rows, "{block},{page},{codeword},{word},{bits}")
}

/// Detects the recipe of a dump, and refuses to guess.
fn certain(dumps: &[File], path: &Path) -> Result<Recipe, Failure> {
    let hints = Hints { magics: eraseblock::documents::dump::magics(), ..Hints::default() };
    let detection = super::detect_best(dumps, &hints).context(path.display())?;
    if let Some(best) = detection.certain() {
        return Ok(best.recipe.clone());
    }
    let shown = path.display();
    let message = match detection.best() {
        Some(best) => {
            let (name, confidence) = (best.recipe.name(), best.confidence());
            format!("{shown}: no certain recipe; the best one, {name}, is {confidence}")
        }
        None => format!("{shown}: no built-in recipe explains it"),
    };
    Err(Failure::new(message)
        .hint("`eraseblock nand detect --deep` searches for unknown codes, --recipe chooses one"))
}

/// Writes the dump.
pub(super) fn encode(args: &EncodeArgs, session: &mut Session) -> Result<(), Failure> {
    session.keep_still(&args.image)?;
    let image = File::open(&args.image).context(args.image.display())?;
    let recipe = super::recipe(&args.recipe, session)?;
    let output = session.create(&args.output)?;
    let mut out = BufWriter::with_capacity(1 << 20, &output.file);
    let encoded = encode_image(&image, &recipe, &mut out).context(args.image.display())?;
    out.flush().context(args.output.display())?;
    drop(out);
    output.commit()?;
    let (name, pages, erased) = (recipe.name(), encoded.pages, encoded.erased);
    if session.options.json {
        return session.json(&EncodeReport { recipe: name, pages, erased });
    }
    let pages = text::count(pages, "page", "pages");
    session.remark(&format!("{name}: {pages}, {erased} of them erased"));
    Ok(())
}
