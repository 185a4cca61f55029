//! The command line as a whole, and the argument groups that several sub-commands share.

pub(crate) mod flash;
pub(crate) mod jffs2;
pub(crate) mod source;
pub(crate) mod ubifs;

use crate::command;
use crate::session::GlobalOptions;
use clap::{Args, Parser, Subcommand, ValueEnum};
use eraseblock_base::size::parse_size;
use std::ffi::OsString;

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
                  The classic tools are here too: `eraseblock mkfs.ubifs ...`, `ubinize`, `mkfs.jffs2`, `sumtool`,\n\
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
    /// Change what is in an image or on a chip, without mounting it
    Edit(command::edit::EditArgs),
    /// Copy a file or a whole folder into an image
    Put(command::put::PutArgs),
    /// Copy a file or a whole folder out of an image
    Get(command::put::GetArgs),
    /// Verify every structure of a file system
    Check(command::check::CheckArgs),
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

/// A target and, perhaps, what it is to be taken for.
#[derive(Clone, Debug, Args)]
pub(crate) struct TargetArgs {
    /// Image file, chip file or device; after an `@`, where in a file the image begins; after a
    /// colon, the UBI volume by name or number
    #[arg(value_name = "TARGET[@OFFSET][:VOLUME]")]
    pub target: OsString,
    /// How to look at it.
    #[command(flatten)]
    pub shape: ShapeArgs,
}

/// A flash that is written to.
#[derive(Clone, Debug, Args)]
pub(crate) struct FlashTargetArgs {
    /// Chip file, image file, /dev/mtdX or block device, and the UBI volume on it where one is meant
    #[arg(value_name = "TARGET")]
    pub target: OsString,
    /// Eraseblocks of the flash that an image file is made for: the file grows to that
    #[arg(long, value_name = "NUMBER")]
    pub blocks: Option<u32>,
    /// The same in bytes.
    #[arg(skip)]
    pub flash_size: Option<u64>,
    /// Size of the flash is said by `--size`, not by `--blocks`.
    #[arg(skip)]
    pub size_in_bytes: bool,
    /// An image file is taken as it is: nothing in it says how large its flash is.
    #[arg(skip)]
    pub as_it_is: bool,
    /// Leave a fastmap on the flash, so that the next attach need not scan it; without this, one
    /// that is found is removed
    #[arg(long)]
    pub fastmap: bool,
    /// Go on where Linux would refuse the device
    #[arg(long)]
    pub force: bool,
    /// Write although an internal volume that nobody here knows wants the device to be only read,
    /// if everything on flash is as it should be
    #[arg(long)]
    pub force_rw: bool,
    /// Its sizes.
    #[command(flatten)]
    pub sizes: SizeArgs,
}

/// What a target is taken for instead of what is detected.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct ShapeArgs {
    /// What the target is
    #[arg(long, help_heading = "Instead of detection", value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Size of a logical eraseblock, for a bare UBIFS image
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub leb: Option<u32>,
    /// Where the first eraseblock of a JFFS2 begins in the file
    #[arg(long, help_heading = "Instead of detection", value_name = "OFFSET", value_parser = size64)]
    pub start: Option<u64>,
    /// Byte order of a JFFS2
    #[arg(long, help_heading = "Instead of detection", value_name = "ORDER")]
    pub byte_order: Option<Endian>,
    /// The sizes of the flash.
    #[command(flatten)]
    pub sizes: SizeArgs,
}

/// A byte order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Endian {
    /// Lowest byte first.
    Little,
    /// Highest byte first.
    Big,
}

/// Sizes of a flash that are not to be detected.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SizeArgs {
    /// Size of a physical eraseblock
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub peb: Option<u32>,
    /// Size of a page: the smallest unit that can be programmed
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub page: Option<u32>,
    /// Size of a sub-page: the unit of UBI headers
    #[arg(long, help_heading = "Instead of detection", value_name = "SIZE", value_parser = size32)]
    pub subpage: Option<u32>,
    /// Offset of the volume identifier header in an eraseblock
    #[arg(long, help_heading = "Instead of detection", value_name = "OFFSET", value_parser = size32)]
    pub vid_offset: Option<u32>,
    /// `--strict` of the whole command: end marks do not count, as for Linux.
    #[arg(skip)]
    pub ignore_end_marks: bool,
}

/// What a target can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Format {
    /// A UBI image.
    Ubi,
    /// A bare UBIFS image.
    Ubifs,
    /// A JFFS2 image.
    Jffs2,
}

/// Parses a size below 4 GiB.
pub(crate) fn size32(text: &str) -> Result<u32, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    u32::try_from(bytes).map_err(|_| format!("{bytes} bytes is too large: expected below 4 GiB"))
}

/// Parses a size of any magnitude.
pub(crate) fn size64(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// A path inside an image, as the bytes the user typed.
pub(crate) fn path_bytes(path: &OsString) -> &[u8] {
    use std::os::unix::ffi::OsStrExt;
    path.as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_have_limits() {
        assert_eq!(size32("128KiB"), Ok(131_072));
        assert!(size32("4GiB").unwrap_err().contains("too large"));
        assert!(size32("x").is_err());
    }
}
