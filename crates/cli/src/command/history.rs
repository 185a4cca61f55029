//! `eraseblock history`: commits of the past, versions of files, deleted names.

pub(super) mod contents;

use crate::args::{TargetArgs, path_bytes};
use crate::failure::Failure;
use crate::session::Session;
use crate::table::{Align, Table};
use eraseblock::documents::past::{CommitReport, DeletedReport, VersionReport};
use eraseblock::raw::history::{CommitState, Deleted, History, Seen, Version};
use eraseblock::target::past::{self, Medium, Past};
use eraseblock::text;
use serde::Serialize;
use std::ffi::OsString;

/// Arguments of `history`.
#[derive(Debug, clap::Args)]
pub(crate) struct HistoryArgs {
    #[command(flatten)]
    target: TargetArgs,
    /// All versions of what had this path at any time
    #[arg(long, value_name = "PATH", conflicts_with_all = ["ino", "deleted"])]
    path: Option<OsString>,
    /// All versions of the inode of this number
    #[arg(long, value_name = "NUMBER", conflicts_with = "deleted")]
    ino: Option<u32>,
    /// Names that were removed or changed, the latest first
    #[arg(long)]
    deleted: bool,
    /// Only names below this directory
    #[arg(long, value_name = "DIR", requires = "deleted")]
    under: Option<OsString>,
    /// Also read eraseblocks of the UBI that have lost their LEB and are not erased yet
    #[arg(long)]
    old_blocks: bool,
}

/// Prints what is known.
pub(crate) fn run(args: &HistoryArgs, session: &mut Session) -> Result<(), Failure> {
    let past = read(&args.target, args.old_blocks, session)?;
    let history = &past.history;
    if args.deleted {
        return deleted(args, history, session);
    }
    let inodes = match (&args.path, args.ino) {
        (Some(path), _) => {
            let path = path_bytes(path);
            let path = path.strip_prefix(b"/").unwrap_or(path);
            let inodes = history.inodes_of(path);
            if inodes.is_empty() {
                let shown = text::name(path);
                return Err(Failure::new(format!("{shown}: no version of it is left"))
                    .hint("`eraseblock history --deleted` lists the names that are known"));
            }
            inodes
        }
        (None, Some(ino)) if history.versions(ino).is_empty() => {
            return Err(Failure::new(format!("inode {ino}: no version of it is left")));
        }
        (None, Some(ino)) => vec![ino],
        (None, None) if matches!(past.medium, Medium::Jffs2(_)) => {
            return Err(Failure::usage("JFFS2 has no commits")
                .hint("--path, --ino and --deleted show what is left of the past"));
        }
        (None, None) => return commits(history, session),
    };
    let versions: Vec<&Version> = inodes.iter().flat_map(|ino| history.versions(*ino)).collect();
    print_versions(&versions, session)
}

fn commits(history: &History, session: &mut Session) -> Result<(), Failure> {
    if session.options.json {
        #[derive(Serialize)]
        struct Document {
            commits: Vec<CommitReport>,
        }
        return session
            .json(&Document { commits: history.commits().iter().map(CommitReport::of).collect() });
    }
    let mut table = Table::new(&[
        ("commit", Align::Right),
        ("sqnum", Align::Right),
        ("files", Align::Right),
        ("left", Align::Right),
        ("changes from", Align::Left),
        ("to", Align::Left),
    ]);
    for state in history.commits() {
        let (from, to) = match state.times {
            Some((from, to)) => (text::time(from.seconds), text::time(to.seconds)),
            None => Default::default(),
        };
        table.row(vec![
            state.commit.number.to_string(),
            text::grouped(state.commit.sqnum),
            text::grouped(state.files),
            left(state),
            from,
            to,
        ]);
    }
    let lines = table.lines(0, session.style);
    session.lines(lines)
}

/// How much of a commit is left.
fn left(state: &CommitState) -> String {
    if state.commit.root_sqnum.is_none() {
        return "nothing".to_owned();
    }
    if state.is_whole() {
        return "all".to_owned();
    }
    if state.index_gone > 0 {
        return "parts".to_owned();
    }
    let there = state.leaves - state.gone;
    // Never 100 % of what is not whole.
    let tenths = (there * 1000 / state.leaves.max(1)).min(999);
    format!("{}.{} %", tenths / 10, tenths % 10)
}

/// Where a version was seen, for people.
pub(crate) fn seen(version: &Version) -> String {
    match version.seen {
        Seen::Now { since: Some(since) } => format!("now, since commit {since}"),
        Seen::Now { since: None } => "now".to_owned(),
        Seen::Commits { first, last } if first == last => format!("commit {first}"),
        Seen::Commits { first, last } => format!("commits {first} to {last}"),
        Seen::Nodes => "no commit".to_owned(),
    }
}

fn print_versions(versions: &[&Version], session: &mut Session) -> Result<(), Failure> {
    if session.options.json {
        #[derive(Serialize)]
        struct Document {
            versions: Vec<VersionReport>,
        }
        let versions = versions.iter().map(|version| VersionReport::of(version)).collect();
        return session.json(&Document { versions });
    }
    let mut table = Table::new(&[
        ("inode", Align::Right),
        ("sqnum", Align::Right),
        ("class", Align::Left),
        ("seen in", Align::Left),
        ("size", Align::Right),
        ("modified", Align::Left),
        ("path", Align::Left),
    ]);
    for version in versions {
        let known = version.attributes;
        let missing = match version.missing {
            0 => String::new(),
            missing => format!(", {missing} of {} blocks missing", version.blocks),
        };
        let paths: Vec<String> = version.paths.iter().map(|path| text::name(path)).collect();
        table.row(vec![
            version.ino.to_string(),
            text::grouped(version.newest),
            version.class.name().to_owned() + &missing,
            seen(version),
            known.map_or_else(String::new, |known| text::grouped(known.size)),
            known.map_or_else(String::new, |known| text::time(known.mtime.seconds)),
            paths.join(", "),
        ]);
    }
    let lines = table.lines(0, session.style);
    session.lines(lines)
}

fn deleted(args: &HistoryArgs, history: &History, session: &mut Session) -> Result<(), Failure> {
    let under = args.under.as_ref().map_or(&b""[..], path_bytes);
    let under = under.strip_prefix(b"/").unwrap_or(under);
    let is_below = |it: &&Deleted| {
        let rest = it.path.strip_prefix(under);
        under.is_empty() || rest.is_some_and(|rest| rest.starts_with(b"/"))
    };
    let names = history.deleted().iter().filter(is_below);
    if session.options.json {
        #[derive(Serialize)]
        struct Document {
            deleted: Vec<DeletedReport>,
        }
        return session.json(&Document { deleted: names.map(DeletedReport::of).collect() });
    }
    let mut table = Table::new(&[
        ("inode", Align::Right),
        ("class", Align::Left),
        ("last seen in", Align::Left),
        ("removed by sqnum", Align::Right),
        ("path", Align::Left),
    ]);
    for it in names {
        let elsewhere = if it.is_elsewhere { " (has another name)" } else { "" };
        table.row(vec![
            it.ino.to_string(),
            it.class.name().to_owned(),
            it.last_commit.map_or("no commit".to_owned(), |commit| format!("commit {commit}")),
            it.removed_by.map_or_else(String::new, text::grouped),
            text::name(&it.path) + elsewhere,
        ]);
    }
    let lines = table.lines(0, session.style);
    session.lines(lines)
}

/// The past of a target, for the commands that write it.
pub(super) fn read(
    target: &TargetArgs,
    with_old: bool,
    session: &mut Session,
) -> Result<Past, Failure> {
    let wanted = target.wanted();
    let past = if with_old {
        past::read_with_old(&wanted, session)?
    } else {
        past::read(&wanted, session)?
    };
    session.report_aside(past.history.findings().clone());
    Ok(past)
}
