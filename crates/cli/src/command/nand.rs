//! `eraseblock nand`: how the pages of a raw dump are stored.

mod convert;
mod detect;
mod recipes;

use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::Subcommand;
use eraseblock::raw::nand_recipe::{Recipe, table};
use std::fs;
use std::path::Path;

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
