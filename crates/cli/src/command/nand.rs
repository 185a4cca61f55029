//! `eraseblock nand`: how the pages of a raw dump are stored.

mod convert;
mod detect;
mod recipes;

use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::Subcommand;
use eraseblock::raw::nand_recipe::detect::detect;
use eraseblock::raw::nand_recipe::{Detection, Hints, Recipe, RecipeError, table};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The longest file of a recipe that is read.
const RECIPE_MAX: u64 = 1 << 20;

/// Arguments of `nand`.
#[derive(Debug, clap::Args)]
pub(crate) struct NandArgs {
    #[command(subcommand)]
    command: NandCommand,
}

/// What can be done with raw dumps.
#[derive(Debug, Subcommand)]
enum NandCommand {
    /// Find the page size, the code and the places of its parity in a dump
    Detect(detect::DetectArgs),
    /// Make an image of a dump: correct its bits and leave the spare bytes out
    Decode(convert::DecodeArgs),
    /// Make a dump of an image, as a controller would store it
    Encode(convert::EncodeArgs),
    /// List the built-in recipes, or print one of them
    Recipes(recipes::RecipesArgs),
}

/// Does what was asked.
pub(crate) fn run(args: &NandArgs, session: &mut Session) -> Result<(), Failure> {
    match &args.command {
        NandCommand::Detect(args) => detect::run(args, session),
        NandCommand::Decode(args) => convert::decode(args, session),
        NandCommand::Encode(args) => convert::encode(args, session),
        NandCommand::Recipes(args) => recipes::run(args, session),
    }
}

/// Opens dumps of one chip.
pub(super) fn dumps(
    first: &Path,
    others: &[PathBuf],
    session: &mut Session,
) -> Result<Vec<File>, Failure> {
    let mut files: Vec<File> = Vec::new();
    for path in std::iter::once(first).chain(others.iter().map(PathBuf::as_path)) {
        session.keep_still(path)?;
        let file = File::open(path).context(path.display())?;
        if let Some(known) = files.first() {
            let (size, expected) = (file.metadata()?.len(), known.metadata()?.len());
            if size != expected {
                let (shown, first) = (path.display(), first.display());
                let message = format!("{shown}: {size} bytes, expected {expected} as in {first}");
                return Err(Failure::new(message));
            }
        }
        files.push(file);
    }
    Ok(files)
}

/// Returns the surest of the detections in these dumps, the first of those that are as sure.
pub(super) fn detect_best(dumps: &[File], hints: &Hints) -> Result<Detection, RecipeError> {
    let mut found: Option<Detection> = None;
    for dump in dumps {
        let next = detect(dump, hints)?;
        let is_surer = found.as_ref().is_none_or(|known| next.confidence() > known.confidence());
        if is_surer {
            found = Some(next);
        }
    }
    Ok(found.unwrap_or_default())
}

/// Returns the built-in recipe of a name, or the one in a file.
pub(super) fn recipe(name: &str, session: &mut Session) -> Result<Recipe, Failure> {
    if let Some(recipe) = table::find(name) {
        return Ok(recipe);
    }
    let path = Path::new(name);
    let size = match path.metadata() {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message = format!("{name}: neither a built-in recipe nor a file");
            return Err(Failure::usage(message).hint("`eraseblock nand recipes` lists them"));
        }
        Err(error) => return Err(error).context(name),
    };
    if size > RECIPE_MAX {
        return Err(Failure::new(format!("{name}: {size} bytes, expected a recipe")));
    }
    session.reads(path);
    let text = fs::read_to_string(path).context(name)?;
    Recipe::parse(&text).context(name)
}
