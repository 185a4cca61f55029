//! What `--help` and the manual pages say beyond the options: groups of commands, examples, exit
//! status and environment.

pub(crate) mod examples;

use crate::personality::name::Personality;
use clap::{Arg, Command};
use std::fmt::Write;

/// The sub-commands in the groups in which `--help` lists them.
pub(crate) const GROUPS: [(&str, &[&str]); 7] = [
    ("Look into images", &["info", "ls", "tree", "stat", "cat", "extract", "get", "check", "scan"]),
    ("Look at structures, byte for byte", &["diff", "debug", "disasm", "asm"]),
    (
        "Look into the past and into raw dumps",
        &["explore", "history", "recover", "timeline", "nand"],
    ),
    ("Make images", &["build", "mkfs"]),
    ("Change images", &["put", "edit", "ubi", "repair", "undo"]),
    ("Use them as on a board", &["mount", "umount", "serve", "chip", "card", "lab"]),
    ("The command itself", &["personalities", "completions", "man"]),
];

const ROOT_TEMPLATE: &str =
    "{about}\n\n{usage-heading} {usage}\n\n{before-help}{options}{after-help}";

/// Options that only `--help` shows, so that `-h` fits a screen; those that override detection, too.
const RARE: [&str; 12] = [
    "fanout",
    "format_version",
    "journal",
    "key_hash",
    "log_lebs",
    "node_data",
    "orphan_lebs",
    "reserved",
    "uuid",
    "xattrs",
    "zlib_level",
    "force_rw",
];

/// How the command ends.
const EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Done."),
    ("1", "Done, with warnings or errors among the findings."),
    ("2", "The command line makes no sense."),
    ("3", "It could not be done. With --strict also: Linux would refuse the image."),
];

/// How mkfs.jffs2 and sumtool end.
const JFFS2_EXIT_STATUS: &[(&str, &str)] =
    &[("0", "Done."), ("1", "The command line makes no sense."), ("255", "It could not be done.")];

/// How mkfs.ubifs and ubinize end.
const UBI_EXIT_STATUS: &[(&str, &str)] =
    &[("0", "Done."), ("255", "It could not be done, or the command line makes no sense.")];

/// How fsck.ubifs and fsck.jffs2 end: a sum.
const FSCK_EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Nothing is wrong."),
    ("1", "Problems were corrected."),
    ("4", "Problems are left."),
    ("8", "It could not be done."),
    ("16", "The command line makes no sense."),
];

/// How the readers end.
const READER_EXIT_STATUS: &[(&str, &str)] = &[
    ("0", "Something was written."),
    ("1", "Nothing could be written."),
    ("2", "The command line makes no sense."),
];

/// Environment variables of commands that make images.
const SOURCE_DATE_EPOCH: (&str, &str) = (
    "SOURCE_DATE_EPOCH",
    "Seconds since 1970. No time in the image is later: the same source gives the same image.",
);
const TMPDIR: (&str, &str) =
    ("TMPDIR", "Where contents from pipes and compressed archives are kept meanwhile.");
const NO_COLOR: (&str, &str) =
    ("NO_COLOR", "If not empty: no colours, unless --color asks for them.");

/// The environment variables that matter to a command.
pub(crate) fn environment(command: &str) -> Vec<(&'static str, &'static str)> {
    let makes_images = command.starts_with("mkfs") || command == "build";
    let is_classic = is_classic(command);
    let all = [(SOURCE_DATE_EPOCH, makes_images), (TMPDIR, makes_images), (NO_COLOR, !is_classic)];
    all.into_iter().filter(|(_, matters)| *matters).map(|(variable, _)| variable).collect()
}

/// Returns whether this is the name of a classic tool or of a reader.
pub(crate) fn is_classic(command: &str) -> bool {
    let mut all = Personality::CLASSIC.iter().chain(&Personality::READERS);
    all.any(|one| one.name() == command)
}

/// How a command ends.
pub(crate) fn exit_status(command: &str) -> &'static [(&'static str, &'static str)] {
    let mut all = Personality::CLASSIC.iter().chain(&Personality::READERS);
    match all.find(|one| one.name() == command) {
        None => EXIT_STATUS,
        Some(Personality::FsckJffs2 | Personality::FsckUbifs) => FSCK_EXIT_STATUS,
        Some(Personality::MkfsJffs2 | Personality::Sumtool) => JFFS2_EXIT_STATUS,
        Some(Personality::MkfsUbifs | Personality::Ubinize) => UBI_EXIT_STATUS,
        Some(_) => READER_EXIT_STATUS,
    }
}

/// The whole command line `root` with everything `--help` says.
pub(crate) fn complete(mut root: Command) -> Command {
    for name in subcommands(&root) {
        root = root.mut_subcommand(&name, |command| decorated(command, &name));
    }
    let groups = groups(&root);
    root.help_template(ROOT_TEMPLATE).before_help(groups).mut_args(numbers_may_be_negative)
}

/// A classic tool's command line with everything `--help` says.
pub(crate) fn classic(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.after_long_help(sections(&name, None))
}

fn subcommands(command: &Command) -> Vec<String> {
    command.get_subcommands().map(|command| command.get_name().to_owned()).collect()
}

/// A command and those below it; `path` are its words.
fn decorated(command: Command, path: &str) -> Command {
    let names = subcommands(&command);
    if !names.is_empty() {
        return names.iter().fold(command, |command, name| {
            let path = format!("{path} {name}");
            command.mut_subcommand(name, |command| decorated(command, &path))
        });
    }
    let rare = |arg: Arg| {
        let overrides = arg.get_help_heading() == Some("Instead of detection");
        if overrides || RARE.contains(&arg.get_id().as_str()) {
            arg.hide_short_help(true)
        } else {
            arg
        }
    };
    let already = command.get_after_help().map(ToString::to_string);
    let sections = sections(path, already.as_deref());
    command.mut_args(rare).mut_args(numbers_may_be_negative).after_long_help(sections)
}

/// A negative number is the value of its option, to be refused as such, and not an option.
fn numbers_may_be_negative(arg: Arg) -> Arg {
    let takes_value = arg.get_action().takes_values() && !arg.is_positional();
    if takes_value { arg.allow_negative_numbers(true) } else { arg }
}

/// The commands of each group with what they do.
fn groups(root: &Command) -> String {
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "{heading}:");
        for name in names {
            let about = root.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<12} {about}");
        }
        text.push('\n');
    }
    text
}

/// What follows the options in `--help`.
fn sections(command: &str, already: Option<&str>) -> String {
    let mut text = already.map(|text| format!("{text}\n\n")).unwrap_or_default();
    let environment = environment(command);
    if environment.len() > 1 {
        text.push_str("Environment:\n");
        for (name, meaning) in environment {
            let _ = writeln!(text, "  {name}  {meaning}");
        }
        text.push('\n');
    }
    text.push_str("Examples:\n");
    for (line, what) in examples::of(command) {
        let _ = writeln!(text, "  # {what}\n  {line}");
    }
    text.truncate(text.trim_end().len());
    text
}

#[cfg(test)]
mod tests {
    use super::examples::EXAMPLES;
    use super::*;
    use crate::cli::command;
    use crate::personality;
    use std::collections::BTreeSet;

    /// Every command without sub-commands, by its words.
    fn leaves(command: &Command, path: &str, found: &mut BTreeSet<String>) {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            let path = format!("{path} {}", below.get_name()).trim().to_owned();
            if below.has_subcommands() {
                leaves(below, &path, found);
            } else {
                found.insert(path);
            }
        }
    }

    /// The words of a shell command line up to a pipe, a redirection or the next command.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut quoted) = (Vec::new(), false);
        let mut word = String::new();
        for c in line.chars().chain([' ']) {
            match c {
                '\'' => quoted = !quoted,
                ' ' if !quoted && !word.is_empty() => words.push(std::mem::take(&mut word)),
                ' ' if !quoted => {}
                c => word.push(c),
            }
        }
        let end = words.iter().position(|word| ["|", ">", "<", "&&"].contains(&word.as_str()));
        words.truncate(end.unwrap_or(words.len()));
        words
    }

    #[test]
    fn every_command_has_examples_and_each_of_them_parses() {
        let root = command();
        let mut wanted = BTreeSet::new();
        leaves(&root, "", &mut wanted);
        wanted.extend(personality::commands().iter().map(|command| command.get_name().to_owned()));
        let named: BTreeSet<String> = EXAMPLES.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(named, wanted);
        assert_eq!(EXAMPLES.len(), named.len());
        for (name, examples) in EXAMPLES {
            assert!(!examples.is_empty(), "{name}");
            for (line, _) in *examples {
                let words = words(line);
                let parsed = if is_classic(name) {
                    assert_eq!(words[0], *name);
                    let mut commands = personality::commands().into_iter();
                    let command = commands.find(|command| command.get_name() == *name).unwrap();
                    command.try_get_matches_from(words)
                } else {
                    assert!(
                        format!("{line} ").starts_with(&format!("eraseblock {name} ")),
                        "{line}"
                    );
                    root.clone().try_get_matches_from(words)
                };
                assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let root = command();
        let visible = root.get_subcommands().filter(|command| !command.is_hide_set());
        let visible: BTreeSet<&str> = visible.map(Command::get_name).collect();
        let grouped: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        assert_eq!(grouped.len(), visible.len());
        assert_eq!(grouped.into_iter().collect::<BTreeSet<_>>(), visible);
    }

    #[test]
    fn help_shows_groups_options_and_examples() {
        let mut root = command();
        let text = root.clone().render_help().to_string();
        for part in ["Look into images:\n  info", "--json", "Exit codes"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let mut wanted = BTreeSet::new();
        leaves(&root, "", &mut wanted);
        root = root.disable_help_subcommand(true);
        root.build();
        for path in wanted {
            let mut command = &mut root;
            for name in path.split(' ') {
                command = command.find_subcommand_mut(name).unwrap();
            }
            let (short, long) = (command.render_help(), command.render_long_help());
            let lines = short.to_string().lines().count();
            assert!(!short.to_string().contains("Examples:"), "{path}");
            assert!(long.to_string().contains("\nExamples:\n  # "), "{path}");
            assert!(lines <= 60, "{path}: {lines} lines");
            let makes_images = path.starts_with("mkfs") || path == "build";
            assert_eq!(long.to_string().contains("SOURCE_DATE_EPOCH"), makes_images, "{path}");
        }
    }
}
