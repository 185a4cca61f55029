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
    /// Date in the footer of the pages; without it they have none
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = date)]
    date: Option<String>,
}

/// Parses a date as in ISO 8601.
fn date(text: &str) -> Result<String, String> {
    let is_date = text.len() == 10
        && text.bytes().enumerate().all(|(place, byte)| match place {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    if is_date { Ok(text.to_owned()) } else { Err("expected a date such as 2026-01-31".to_owned()) }
}

/// Writes the pages of the command line `command`.
pub(crate) fn run(args: &ManArgs, command: Command, session: &mut Session) -> Result<(), Failure> {
    let folder = &args.folder;
    let date = args.date.as_deref().unwrap_or_default();
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
        let page = page(command.display_name(&name), &path, ("1", date)).context(&name)?;
        let file = folder.join(format!("{name}.1"));
        fs::write(&file, page).context(file.display())?;
    }
    for command in personality::commands() {
        let name = command.get_name().to_owned();
        // The sections in which the tools of these names have theirs.
        let is_for_root =
            ["fsck.jffs2", "fsck.ubifs", "mkfs.ubifs", "ubinize"].contains(&name.as_str());
        let section = if is_for_root { "8" } else { "1" };
        let page = page(command, &name, (section, date)).context(&name)?;
        let file = folder.join(format!("{name}.{section}"));
        fs::write(&file, page).context(file.display())?;
    }
    session.remark(&format!("manual pages written to {}", folder.display()));
    Ok(())
}

/// The page of a command; `path` are its words.
fn page(command: Command, path: &str, (section, date): (&str, &str)) -> io::Result<Vec<u8>> {
    // Pages show what the short help leaves out, but would leave out its text.
    let command = command.mut_args(|arg| arg.hide_short_help(false));
    let after = command.get_after_help().map(ToString::to_string);
    let has_subcommands = command.has_subcommands();
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let man = Man::new(command);
    let mut text = Vec::new();
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
    let mut has_example = false;
    let of_all = examples::EXAMPLES.iter().take(if path.is_empty() { 8 } else { 0 });
    let of_below = examples::EXAMPLES.iter().filter(|(name, _)| {
        has_subcommands && !path.is_empty() && name.starts_with(&format!("{path} "))
    });
    let own = examples::of(path).iter();
    for (line, what) in own.chain(of_all.chain(of_below).flat_map(|(_, examples)| examples.iter()))
    {
        if has_example {
            roff.control("PP", []);
        }
        has_example = true;
        roff.text([roman(*what)]);
        roff.control("RS", ["4"]).control("nf", []).text([bold(*line)]);
        roff.control("fi", []).control("RE", []);
    }
    if name != "eraseblock" {
        roff.control("SH", ["SEE ALSO"]).text([bold("eraseblock"), roman("(1)")]);
    }
    roff.to_writer(&mut text)?;
    Ok(tidied(&title(&name, section, date), &String::from_utf8_lossy(&text)))
}

/// The first line of a page. An empty date leaves the place of the date empty.
fn title(name: &str, section: &str, date: &str) -> String {
    let name = name.to_uppercase().replace('-', "\\-");
    let version = env!("CARGO_PKG_VERSION");
    format!(".TH {name} {section} \"{date}\" \"eraseblock {version}\" \"eraseblock\"\n")
}

/// A page that starts with `title`. Each of the sections in `text` was rendered by itself, with the
/// definitions of a whole page, and with breaks and blank lines where roff wants one request.
fn tidied(title: &str, text: &str) -> Vec<u8> {
    let is_definition =
        |line: &&str| line.starts_with(".ie \\n(.g .ds") || line.starts_with(".el .ds");
    let mut page: Vec<&str> = text.lines().take_while(is_definition).collect();
    page.push(title.trim_end());
    let mut is_apart = false;
    for line in text.lines().map(str::trim_end).filter(|line| !is_definition(line)) {
        if line.is_empty() || line == ".br" {
            is_apart = true;
            continue;
        }
        // A paragraph or a section begins with a blank line of its own.
        if is_apart && ![".TP", ".SH", ".PP", ".RS"].iter().any(|own| line.starts_with(own)) {
            page.push(".sp");
        }
        is_apart = false;
        page.push(line);
    }
    page.push("");
    page.join("\n").into_bytes()
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
