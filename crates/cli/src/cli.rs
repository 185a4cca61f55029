//! The command line as a whole. It knows the sub-commands; none of them knows it.

use crate::command;
use crate::failure::Failure;
use crate::help;
use crate::session::{GlobalOptions, Session};
use clap::{CommandFactory, Parser, Subcommand};

/// Linux's raw-flash storage stack in user space: UBI, UBIFS and JFFS2 images without root.
#[derive(Debug, Parser)]
#[command(
    name = "eraseblock",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "TARGET is an image file, a simulated chip or a device; what it is, is detected and can be\n\
                  forced. VOLUME is a UBI volume's name or number. A file named by -o is replaced when the\n\
                  new one is complete; any other file that exists, only with --force. Exit codes: 0 done,\n\
                  1 done with findings, 2 usage, 3 could not.\n\n\
                  The classic tools are here too: `eraseblock mkfs.ubifs ...`, `ubinize`, `mkfs.jffs2`, `sumtool`, `fsck.ubifs`, `fsck.jffs2`,\n\
                  or a symbolic link of that name, and the readers `ubireader_extract_images`,\n\
                  `ubireader_extract_files` and `jefferson`. `personalities` makes the links."
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// Options that every sub-command has.
    #[command(flatten)]
    pub global: GlobalOptions,
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What is this: geometry, volumes, file systems, health, findings
    Info(command::info::InfoArgs),
    /// Volumes and files of many images, with digests: a line of JSON for each image
    Scan(command::scan::ScanArgs),
    /// List a directory
    Ls(command::ls::LsArgs),
    /// Draw a directory as a tree
    Tree(command::tree::TreeArgs),
    /// Show all attributes of a file
    Stat(command::stat::StatArgs),
    /// Write a file, or a volume's raw content, to standard output
    Cat(command::cat::CatArgs),
    /// Take files out, into a folder or a tar archive
    Extract(command::extract::ExtractArgs),
    /// Mount a file system as a directory, through FUSE
    Mount(command::mount::MountArgs),
    /// Serve a file system over NFS, for hosts without FUSE
    Serve(command::serve::ServeArgs),
    /// End a mount, and wait until everything is in the image
    Umount(command::umount::UmountArgs),
    /// Make a file-system image from a folder or an archive
    Mkfs(command::mkfs::MkfsArgs),
    /// Make a whole UBI image from a layout file
    #[command(after_help = command::mkfs::HEEDED)]
    Build(command::build::BuildArgs),
    /// Simulated flash chips, and the database of real parts
    Chip(command::chip::ChipArgs),
    /// Commits of the past of a UBIFS; versions of files, and deleted names, of a UBIFS or JFFS2
    History(command::history::HistoryArgs),
    /// Write deleted files or all versions of files into a folder, with a list of what is sure
    Recover(command::recover::RecoverArgs),
    /// All versions of all files, as forensic tools read them
    Timeline(command::timeline::TimelineArgs),
    /// Look at an image in the browser: map, structures, files, past, findings, space
    Explore(command::explore::ExploreArgs),
    /// Raw dumps of NAND: find out how pages are stored, decode, encode
    Nand(command::nand::NandArgs),
    /// Simulated SD cards, served to virtual machines
    Card(command::card::CardArgs),
    /// Change what is in an image or on a chip, without mounting it
    Edit(command::edit::EditArgs),
    /// Copy a file or a whole folder into an image
    Put(command::put::PutArgs),
    /// Copy a file or a whole folder out of an image
    Get(command::put::GetArgs),
    /// Verify every structure of a file system
    Check(command::check::CheckArgs),
    /// Plan the repair of a damaged UBI, UBIFS or JFFS2, and repair a copy or the file itself
    Repair(command::repair::RepairArgs),
    /// Take back what `repair --in-place` changed
    Undo(command::undo::UndoArgs),
    /// Show what differs between two images: files, nodes or blocks
    Diff(command::diff::DiffArgs),
    /// Ask what is where in an image and whether it is live, and change its structures
    #[command(after_help = eraseblock::raw::census::debug::HELP)]
    Debug(command::debug::DebugArgs),
    /// Write an image as text: one line for each structure
    Disasm(command::disasm::DisasmArgs),
    /// Make an image of the text that `disasm` wrote
    Asm(command::asm::AsmArgs),
    /// Campaigns on simulated chips: power cuts, judged
    Lab(command::lab::LabArgs),
    /// Format a flash for UBI, change its volumes, look at its wear
    Ubi(command::ubi::UbiArgs),
    /// Print one canonical line for each file
    #[command(hide = true)]
    Manifest(command::manifest::ManifestArgs),
    /// Make links by whose names the classic tools and the readers are reached
    Personalities(command::personalities::PersonalitiesArgs),
    /// Print a completion script for a shell
    Completions(command::completions::CompletionsArgs),
    /// Write the manual pages into a folder
    Man(command::man::ManArgs),
}

/// The command line with all that `--help` says.
pub(crate) fn command() -> clap::Command {
    help::complete(Cli::command())
}

/// Does what was asked.
pub(crate) fn run(command: &Command, session: &mut Session) -> Result<(), Failure> {
    match command {
        Command::Info(args) => command::info::run(args, session),
        Command::Scan(args) => command::scan::run(args, session),
        Command::Ls(args) => command::ls::run(args, session),
        Command::Tree(args) => command::tree::run(args, session),
        Command::Stat(args) => command::stat::run(args, session),
        Command::Cat(args) => command::cat::run(args, session),
        Command::Extract(args) => command::extract::run(args, session),
        Command::Serve(args) => command::serve::run(args, session),
        Command::Mount(args) => command::mount::run(args, session),
        Command::Umount(args) => command::umount::run(args, session),
        Command::Mkfs(args) => command::mkfs::run(args, session),
        Command::Build(args) => command::build::run(args, session),
        Command::Chip(args) => command::chip::run(args, session),
        Command::History(args) => command::history::run(args, session),
        Command::Recover(args) => command::recover::run(args, session),
        Command::Timeline(args) => command::timeline::run(args, session),
        Command::Explore(args) => command::explore::run(args, session),
        Command::Nand(args) => command::nand::run(args, session),
        Command::Card(args) => command::card::run(args, session),
        Command::Edit(args) => command::edit::run(args, session),
        Command::Put(args) => command::put::put(args, session),
        Command::Get(args) => command::put::get(args, session),
        Command::Check(args) => command::check::run(args, session),
        Command::Repair(args) => command::repair::run(args, session),
        Command::Undo(args) => command::undo::run(args, session),
        Command::Diff(args) => command::diff::run(args, session),
        Command::Debug(args) => command::debug::run(args, session),
        Command::Disasm(args) => command::disasm::run(args, session),
        Command::Asm(args) => command::asm::run(args, session),
        Command::Lab(args) => command::lab::run(args, session),
        Command::Personalities(args) => command::personalities::run(args, session),
        Command::Ubi(args) => command::ubi::run(args, session),
        Command::Manifest(args) => command::manifest::run(args, session),
        Command::Completions(args) => command::completions::run(args, Cli::command(), session),
        Command::Man(args) => command::man::run(args, self::command(), session),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
