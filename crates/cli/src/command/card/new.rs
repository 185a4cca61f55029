//! `eraseblock card new`: an erased card in a sparse file.

use super::stats::Report;
use crate::args::{size32, size64};
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::builder::PossibleValue;
use clap::builder::PossibleValuesParser;
use eraseblock::raw::card::presets::{self, PRESETS};
use eraseblock::raw::card::{Card, Parameters};
use std::path::PathBuf;

/// Arguments of `card new`.
#[derive(Debug, clap::Args)]
pub(super) struct NewArgs {
    /// The file to make
    file: PathBuf,
    /// The card that it behaves like
    #[arg(long, value_name = "PRESET", value_parser = presets())]
    preset: String,
    /// Size of the card, instead of the preset's
    #[arg(long, value_name = "SIZE", value_parser = size64)]
    size: Option<u64>,
    /// Size of an allocation unit
    #[arg(long, value_name = "SIZE", value_parser = size32)]
    unit: Option<u32>,
    /// Allocation units that the card keeps open
    #[arg(long, value_name = "NUMBER")]
    open: Option<u32>,
    /// Units at the start of the card that are mapped by pages, for a FAT
    #[arg(long, value_name = "NUMBER")]
    fat: Option<u32>,
    /// Replace a file that exists
    #[arg(long)]
    force: bool,
}

/// Returns the parser of the names of presets.
pub(in crate::command) fn presets() -> PossibleValuesParser {
    PRESETS.iter().map(|preset| PossibleValue::new(preset.name).help(preset.about)).into()
}

/// Makes it.
pub(super) fn run(args: &NewArgs, session: &mut Session) -> Result<(), Failure> {
    let path = args.file.display();
    if args.file.exists() && !args.force {
        return Err(Failure::new(format!("{path}: exists already")).hint("--force replaces it"));
    }
    let parameters = args.parameters()?;
    parameters.check().map_err(|error| Failure::usage(error.to_string()))?;
    let card = Card::create(&args.file, &parameters).context(&path)?;
    Report::of(&args.file, &card).print_change(session)
}

impl NewArgs {
    fn parameters(&self) -> Result<Parameters, Failure> {
        let mut parameters = presets::find(&self.preset)?.parameters;
        if let Some(unit) = self.unit {
            parameters = parameters.with_unit(unit);
        }
        parameters.capacity = self.size.unwrap_or(parameters.capacity);
        parameters.open_units = self.open.unwrap_or(parameters.open_units);
        parameters.fat_units = self.fat.unwrap_or(parameters.fat_units);
        Ok(parameters)
    }
}
