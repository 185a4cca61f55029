//! `eraseblock diff`: what differs between two images.

use crate::args::ShapeArgs;
use crate::failure::Failure;
use crate::session::Session;
use eraseblock::raw::census::diff::tree::{TreeChange, by_tree};
use eraseblock::raw::census::diff::{BlockChange, NodeChange, Side, by_blocks, by_nodes};
use eraseblock::raw::census::text::shortened;
use eraseblock::target::structures::{self, Cut};
use eraseblock::target::{self, Place, Wanted};
use eraseblock::text;
use serde::Serialize;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};

/// Arguments of `diff`.
#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The first image
    #[arg(value_name = "A[@OFFSET][:VOLUME]")]
    first: OsString,
    /// The second image
    #[arg(value_name = "B[@OFFSET][:VOLUME]")]
    second: OsString,
    /// What is compared
    #[arg(long, value_name = "WHAT", default_value = "tree")]
    by: By,
    /// How to look at both.
    #[command(flatten)]
    shape: ShapeArgs,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum By {
    /// Files: names, attributes, times, xattrs, holes, content
    Tree,
    /// Structures, wherever they are
    Nodes,
    /// LEBs and erase counters, or the blocks of what is no UBI
    Blocks,
}

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Compared {
    same: bool,
    changes: Vec<Value>,
}

/// Compares.
pub(crate) fn run(args: &DiffArgs, session: &mut Session) -> Result<(), Failure> {
    let (mut changes, mut lines) = (Vec::new(), Vec::new());
    let is_json = session.options.json;
    let mut take =
        |line: String, value: Value| if is_json { changes.push(value) } else { lines.push(line) };
    match args.by {
        By::Tree => {
            let mut open = |target: &OsStr| {
                let wanted = Wanted { target: target.to_owned(), shape: args.shape.shape() };
                target::open_file_system(&wanted, session)
            };
            let (first, second) = (open(&args.first)?, open(&args.second)?);
            by_tree(first.fs(), second.fs(), &mut |change| {
                let (line, value) = of_tree(&change);
                take(line, value);
                Ok(())
            })?;
            first.finish(session);
            second.finish(session);
        }
        By::Nodes => {
            let (first, second) =
                (cut(&args.first, args, session)?, cut(&args.second, args, session)?);
            by_nodes(side(&first), side(&second), &mut |change| {
                let (line, value) = of_node(&change);
                take(line, value);
                Ok(())
            })?;
        }
        By::Blocks => {
            let (first, second) =
                (cut(&args.first, args, session)?, cut(&args.second, args, session)?);
            for change in by_blocks(side(&first), side(&second))? {
                let (line, value) = of_block(&change);
                take(line, value);
            }
        }
    }
    let same = changes.is_empty() && lines.is_empty();
    if !same {
        session.differs();
    }
    if is_json { session.json(&Compared { same, changes }) } else { session.lines(lines) }
}

fn cut(target: &OsStr, args: &DiffArgs, session: &mut Session) -> Result<Cut, Failure> {
    Ok(structures::cut(&Place::parse(target)?, &args.shape.shape(), session)?)
}

fn side(cut: &Cut) -> Side<'_> {
    Side { image: cut.image.as_ref(), plan: &cut.plan }
}

fn of_tree(change: &TreeChange) -> (String, Value) {
    match change {
        TreeChange::Added(path) => {
            let path = text::name(path);
            (format!("+ {path}"), json!({ "change": "added", "path": path }))
        }
        TreeChange::Gone(path) => {
            let path = text::name(path);
            (format!("- {path}"), json!({ "change": "gone", "path": path }))
        }
        TreeChange::Changed(path, differences) => {
            let path = text::name(path);
            let words = differences.iter().map(|(what, from, to)| format!("{what} {from} -> {to}"));
            let words: Vec<String> = words.collect();
            let fields = fields(differences.iter().map(|(what, from, to)| (*what, from, to)));
            let value = json!({ "change": "changed", "path": path, "fields": fields });
            (format!("~ {path}: {}", words.join(", ")), value)
        }
    }
}

fn fields<'a>(all: impl Iterator<Item = (&'a str, &'a String, &'a String)>) -> Vec<Value> {
    all.map(|(field, from, to)| json!({ "field": field, "from": from, "to": to })).collect()
}

fn of_node(change: &NodeChange) -> (String, Value) {
    match change {
        NodeChange::Added { to, text } => {
            (format!("+ {to} {text}"), json!({ "change": "added", "to": to, "text": text }))
        }
        NodeChange::Gone { at, text } => {
            (format!("- {at} {text}"), json!({ "change": "gone", "at": at, "text": text }))
        }
        NodeChange::Moved { at, to, kind } => (
            format!("> {at} {kind} moved to {to}"),
            json!({ "change": "moved", "at": at, "to": to, "kind": kind }),
        ),
        NodeChange::Changed { at, to, kind, fields: all } => {
            let one = |(field, from, to): &(String, String, String)| {
                format!("{field} {} -> {}", shortened(from), shortened(to))
            };
            let words: Vec<String> = all.iter().map(one).collect();
            let all = fields(all.iter().map(|(field, from, to)| (field.as_str(), from, to)));
            let place = if at == to { at.clone() } else { format!("{at} {to}") };
            let value =
                json!({ "change": "changed", "at": at, "to": to, "kind": kind, "fields": all });
            (format!("~ {place} {kind}: {}", words.join(", ")), value)
        }
    }
}

fn of_block(change: &BlockChange) -> (String, Value) {
    match change {
        BlockChange::Added { block, to } => {
            (format!("+ {block} in {to}"), json!({ "change": "added", "block": block, "to": to }))
        }
        BlockChange::Gone { block, at } => {
            (format!("- {block} in {at}"), json!({ "change": "gone", "block": block, "at": at }))
        }
        BlockChange::Moved { block, at, to } => (
            format!("> {block} moved from {at} to {to}"),
            json!({ "change": "moved", "block": block, "at": at, "to": to }),
        ),
        BlockChange::Rewritten { block, at, to } => (
            format!("~ {block} rewritten, in {at}, then in {to}"),
            json!({ "change": "rewritten", "block": block, "at": at, "to": to }),
        ),
        BlockChange::Erased { block, from, to } => {
            let count =
                |counter: &Option<u64>| counter.map_or("?".to_owned(), |count| count.to_string());
            let line = format!("e {block} erase counter {} -> {}", count(from), count(to));
            (line, json!({ "change": "erase-counter", "block": block, "from": from, "to": to }))
        }
    }
}
