//! `eraseblock man`: the manual pages, one for the command, one for each sub-command, and those of
//! the classic tools.

use crate::failure::{Context, Failure};
use crate::help::{self, examples};
use crate::personality;
use crate::session::Session;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use std::fs;
use std::io;
use std::path::PathBuf;

/// Arguments of `man`.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// The folder; made if it does not exist
    folder: PathBuf,
}

/// Writes the pages of the command line `command`.
pub(crate) fn run(args: &ManArgs, command: Command, session: &mut Session) -> Result<(), Failure> {
    let folder = &args.folder;
    fs::create_dir_all(folder).context(folder.display())?;
    let mut root = command.disable_help_subcommand(true);
    root.build();
    let mut waiting = vec![(root, String::new())];
    while let Some((command, path)) = waiting.pop() {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            waiting.push((below.clone(), path));
        }
        let name = command.get_display_name().unwrap_or("eraseblock").to_owned();
        let page = page(command.display_name(&name), &path, "1").context(&name)?;
        let file = folder.join(format!("{name}.1"));
        fs::write(&file, page).context(file.display())?;
    }
    for command in personality::commands() {
        let name = command.get_name().to_owned();
        // The sections in which the tools of these names have theirs.
        let is_for_root =
            ["fsck.jffs2", "fsck.ubifs", "mkfs.ubifs", "ubinize"].contains(&name.as_str());
        let section = if is_for_root { "8" } else { "1" };
        let page = page(command, &name, section).context(&name)?;
        let file = folder.join(format!("{name}.{section}"));
        fs::write(&file, page).context(file.display())?;
    }
    session.remark(&format!("manual pages written to {}", folder.display()));
    Ok(())
}

/// The page of a command; `path` are its words.
fn page(command: Command, path: &str, section: &str) -> io::Result<Vec<u8>> {
    let after = command.get_after_help().map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let man = Man::new(command).section(section);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if has_subcommands {
        man.render_subcommands_section(&mut text)?;
    }
    let mut roff = Roff::new();
    if let Some(after) = after {
        roff.control("SH", ["NOTES"]).control("nf", []);
        for line in after.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    terms(&mut roff, "ENVIRONMENT", &help::environment(path));
    terms(&mut roff, "EXIT STATUS", help::exit_status(path));
    roff.control("SH", ["EXAMPLES"]);
    let of_all = examples::EXAMPLES.iter().take(if path.is_empty() { 8 } else { 0 });
    let of_below = examples::EXAMPLES.iter().filter(|(name, _)| {
        has_subcommands && !path.is_empty() && name.starts_with(&format!("{path} "))
    });
    let own = examples::of(path).iter();
    for (line, what) in own.chain(of_all.chain(of_below).flat_map(|(_, examples)| examples.iter()))
    {
        roff.control("PP", []).text([roman(*what)]);
        roff.control("RS", ["4"]).control("nf", []).text([bold(*line)]);
        roff.control("fi", []).control("RE", []);
    }
    roff.to_writer(&mut text)?;
    Ok(text)
}

/// A section of terms with their meanings.
fn terms(roff: &mut Roff, heading: &str, terms: &[(&str, &str)]) {
    if terms.is_empty() {
        return;
    }
    roff.control("SH", [heading]);
    for (term, meaning) in terms {
        roff.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
    }
}
