//! `eraseblock nand recipes`: the built-in table.

use crate::failure::Failure;
use crate::session::Session;
use crate::table::{Align, Table};
use eraseblock::raw::nand_recipe::{Evidence, table};
use serde::Serialize;

/// Arguments of `nand recipes`.
#[derive(Debug, clap::Args)]
pub(super) struct RecipesArgs {
    /// Print this recipe as a file for --recipe
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

#[derive(Serialize)]
struct Family {
    name: &'static str,
    about: &'static str,
    evidence: Evidence,
    recipes: Vec<String>,
}

#[derive(Serialize)]
struct Families {
    families: Vec<Family>,
}

#[derive(Serialize)]
struct Text {
    name: String,
    text: String,
}

/// Prints the table, or a recipe.
pub(super) fn run(args: &RecipesArgs, session: &mut Session) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        let recipe = super::recipe(name, session)?;
        let (name, text) = (recipe.name().to_owned(), recipe.to_text());
        if session.options.json {
            return session.json(&Text { name, text });
        }
        return session.lines([text.trim_end()]);
    }
    let family = |family: &'static table::Family| Family {
        name: family.name,
        about: family.about,
        evidence: family.evidence,
        recipes: family.recipes().iter().map(|recipe| recipe.name().to_owned()).collect(),
    };
    let families: Vec<Family> = table::families().map(family).collect();
    if session.options.json {
        return session.json(&Families { families });
    }
    let mut table = Table::new(&[
        ("family", Align::Left),
        ("shapes", Align::Right),
        ("known from", Align::Left),
        ("what it is", Align::Left),
    ]);
    for family in &families {
        let count = family.recipes.len().to_string();
        let evidence = family.evidence.to_string();
        table.row(vec![family.name.to_owned(), count, evidence, family.about.to_owned()]);
    }
    session.lines(table.lines(0, session.style))
}
