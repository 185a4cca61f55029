//! `eraseblock chip parts`: the part database.

use crate::failure::Failure;
use crate::session::Session;
use crate::style::Ink;
use crate::table::{Align, Table};
use eraseblock::raw::base::MediumKind;
use eraseblock::raw::base::size::format_size;
use eraseblock::raw::nandsim::parts::{self, Part};
use serde::Serialize;

/// Arguments of `chip parts`.
#[derive(Debug, clap::Args)]
pub(super) struct PartsArgs {
    /// Only parts whose name, vendor or kind contains this
    filter: Option<String>,
}

/// Lists them.
pub(super) fn run(args: &PartsArgs, session: &mut Session) -> Result<(), Failure> {
    let filter = args.filter.as_deref().unwrap_or_default().to_ascii_lowercase();
    let parts: Vec<&Part> = parts::PARTS.iter().filter(|part| matches(part, &filter)).collect();
    if parts.is_empty() {
        return Err(Failure::new(format!("no part contains `{filter}`"))
            .hint("`eraseblock chip parts` lists all of them; --peb, --page and --subpage describe any other"));
    }
    if session.options.json {
        #[derive(Serialize)]
        struct Document<'a> {
            parts: Vec<&'a Part>,
        }
        return session.json(&Document { parts });
    }
    let table = table(&parts);
    session.lines(table.lines(0, session.style))?;
    if parts.iter().any(|part| part.approximate) {
        let note = "~ some values are typical of the class, not the part's own";
        session.lines([session.style.paint(Ink::Faint, note)])?;
    }
    Ok(())
}

fn matches(part: &Part, filter: &str) -> bool {
    let kind = kind_word(part.kind);
    [part.name, part.vendor, kind].iter().any(|text| text.to_ascii_lowercase().contains(filter))
}

pub(super) fn kind_word(kind: MediumKind) -> &'static str {
    match kind {
        MediumKind::Nand => "nand",
        MediumKind::Nor => "nor",
    }
}

fn table(parts: &[&Part]) -> Table {
    let mut table = Table::new(&[
        ("part", Align::Left),
        ("vendor", Align::Left),
        ("kind", Align::Left),
        ("size", Align::Right),
        ("block", Align::Right),
        ("blocks", Align::Right),
        ("page", Align::Right),
        ("sub", Align::Right),
        ("oob", Align::Right),
        ("ecc", Align::Right),
        ("bad", Align::Right),
    ]);
    for part in parts {
        let approximate = if part.approximate { " ~" } else { "" };
        let ecc = match (part.ecc_bits, part.on_die_ecc) {
            (0, _) => "-".to_owned(),
            (_, true) => "on-die".to_owned(),
            (bits, false) => format!("{bits}b"),
        };
        table.row(vec![
            format!("{}{approximate}", part.name),
            part.vendor.to_owned(),
            kind_word(part.kind).to_owned(),
            format_size(part.geometry().size()),
            format_size(u64::from(part.peb_size)),
            part.peb_count.to_string(),
            part.page.to_string(),
            part.subpage.to_string(),
            part.oob.to_string(),
            ecc,
            part.max_bad.to_string(),
        ]);
    }
    table
}
