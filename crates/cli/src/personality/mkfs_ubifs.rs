//! mkfs.ubifs(8): a UBIFS image from a folder.

use super::refuse_device;
use super::ubinize::number32;
use crate::args::{size32, size64};
use crate::failure::{Context, Failure};
use crate::session::Session;
use clap::Parser;
use eraseblock::builder::source_choices::SourceOptions;
use eraseblock::builder::ubifs_choices::{CompressorChoice, KeyHashChoice, UbifsOptions};
use eraseblock::builder::{self, Summary, VolumeShape};
use eraseblock::raw::ubifs::mkfs::FileSink;
use eraseblock::raw::vfs::{SourceKind, SourceNode, SourceTree};
use eraseblock::source;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Make a UBIFS file system image from a folder.
#[derive(Debug, Parser)]
#[command(name = "mkfs.ubifs", version, infer_long_args = true, args_override_self = true)]
pub(super) struct MkfsUbifsArgs {
    /// Build the file system from this folder; empty when left out
    #[arg(short = 'r', short_alias = 'd', long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Smallest unit that can be written
    #[arg(short, long, value_name = "SIZE", value_parser = size32)]
    min_io_size: Option<u32>,
    /// Size of a logical eraseblock
    #[arg(short = 'e', long, value_name = "SIZE", value_parser = size32)]
    leb_size: Option<u32>,
    /// Most logical eraseblocks the file system may grow to
    #[arg(short = 'c', long, value_name = "COUNT", value_parser = size32)]
    max_leb_cnt: Option<u32>,
    /// Output file
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Size of the journal
    #[arg(short, long, value_name = "SIZE", value_parser = size64)]
    jrn_size: Option<u64>,
    /// Space reserved for the super-user
    #[arg(short = 'R', long, value_name = "SIZE", value_parser = size64)]
    reserved: Option<u64>,
    /// lzo, favor_lzo, zlib, zstd or none
    #[arg(short = 'x', long, alias = "force-compr", value_name = "TYPE", default_value = "lzo")]
    compr: String,
    /// With favor_lzo: how many percent better zlib must be to be taken
    #[arg(short = 'X', long, value_name = "PERCENT", default_value = "20", value_parser = number32)]
    favor_percent: u32,
    /// Fanout of the index tree
    #[arg(short, long, value_name = "NUM", default_value = "8", value_parser = number32)]
    fanout: u32,
    /// Have the free space fixed up on the first mount
    #[arg(short = 'F', long)]
    space_fixup: bool,
    /// Key hash: r5 or test
    #[arg(short, long, value_name = "TYPE", default_value = "r5")]
    keyhash: String,
    /// Eraseblocks for orphans
    #[arg(short = 'p', long, value_name = "COUNT", default_value = "1", value_parser = number32)]
    orph_lebs: u32,
    /// Device table
    #[arg(short = 'D', long, value_name = "FILE")]
    devtable: Option<PathBuf>,
    /// Make all files owned by root
    #[arg(short = 'U', long)]
    squash_uids: bool,
    /// Eraseblocks for the log
    #[arg(short, long, value_name = "COUNT", value_parser = number32)]
    log_lebs: Option<u32>,
    /// Answer "yes" to all questions (there are none)
    #[arg(short, long)]
    yes: bool,
    /// Say what is done
    #[arg(short, long)]
    verbose: bool,
    /// Amount of debug information (there is none)
    #[arg(short = 'g', long, value_name = "LEVEL", value_parser = debug_level)]
    debug: Option<u32>,
    /// Note the inode number of each file in its user.image-inode-number attribute, in the folder
    #[arg(short = 'a', long)]
    set_inum_attr: bool,
    /// SELinux context file: the security.selinux attribute of every file
    #[arg(short = 's', long, value_name = "FILE")]
    selinux: Option<PathBuf>,
    /// Encryption key (not supported)
    #[arg(short = 'K', long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Encryption key descriptor (not supported)
    #[arg(short = 'b', long, value_name = "HEX")]
    key_descriptor: Option<String>,
    /// Padding of encrypted names; nothing is encrypted without a key
    #[arg(short = 'P', long, value_name = "NUM")]
    padding: Option<u32>,
    /// Cipher; nothing is encrypted without a key
    #[arg(short = 'C', long, value_name = "NAME")]
    cipher: Option<String>,
    /// Hash of signed images (not supported)
    #[arg(long, value_name = "NAME")]
    hash_algo: Option<String>,
    /// Key for signing (not supported)
    #[arg(long, value_name = "FILE")]
    auth_key: Option<String>,
    /// Certificate for signing (not supported)
    #[arg(long, value_name = "FILE")]
    auth_cert: Option<PathBuf>,
    /// Output file, when --output is not given
    target: Option<PathBuf>,
    /// Ignored, as the classic tool does
    #[arg(hide = true)]
    others: Vec<OsString>,
}

fn debug_level(text: &str) -> Result<u32, String> {
    number32(text).ok().filter(|level| *level <= 3).ok_or_else(|| "expected 0 to 3".to_owned())
}

/// Makes the image.
pub(super) fn run(args: &MkfsUbifsArgs, session: &mut Session) -> Result<(), Failure> {
    args.refuse_unsupported()?;
    let output = args.output.as_ref().or(args.target.as_ref());
    let output = output.ok_or_else(|| Failure::new("no output file specified"))?;
    refuse_device(output)?;
    let missing = |what: &str| Failure::new(format!("{what} was not specified"));
    let shape = VolumeShape {
        min_io: args.min_io_size.ok_or_else(|| missing("min. I/O unit size"))?,
        leb_size: args.leb_size.ok_or_else(|| missing("LEB size"))?,
        max_lebs: args.max_leb_cnt.ok_or_else(|| missing("maximum count of LEBs"))?,
    };
    let choices = args.choices()?;
    let tree = match &args.root {
        Some(root) if !root.is_dir() => {
            return Err(Failure::new(format!("bad root directory `{}`", root.display())));
        }
        Some(root) if is_below(output, root) => {
            let (output, root) = (output.display(), root.display());
            return Err(Failure::new(format!(
                "the output file `{output}` is in the root directory `{root}`: the next image \
                 would contain this one"
            ))
            .hint("write the image to a folder outside the root directory"));
        }
        Some(root) => source::load(root, &choices.adjustments(), output, session)?,
        None => empty_tree(&choices, session)?,
    };
    let options = builder::options(shape, &choices);
    let bounds = builder::preflight(&tree, &options)?;
    if args.verbose {
        session.remark(&builder::preflight_line(&bounds));
    }
    let file = session.create_named(output)?;
    let mut sink = FileSink::new(&file.file, shape.leb_size);
    let (report, numbers) = builder::build_numbered(&tree, &options, &mut sink, session)?;
    file.commit()?;
    if let Some(root) = &args.root
        && args.set_inum_attr
    {
        note_numbers(root, &numbers)?;
    }
    if args.verbose {
        let summary = Summary::of(&report);
        session.remark(&format!("{}: {}", output.display(), summary.line()));
    }
    Ok(())
}

/// Returns whether a file is, or would be made, in a folder or below it.
fn is_below(file: &Path, folder: &Path) -> bool {
    let above = file.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new(".")).canonicalize();
    above.is_ok_and(|above| folder.canonicalize().is_ok_and(|folder| above.starts_with(folder)))
}

/// Writes the inode numbers into the folder the image was made of. Only files and directories can
/// have such an attribute; what the device table added is not there.
fn note_numbers(root: &Path, numbers: &builder::InodeNumbers) -> Result<(), Failure> {
    for (path, ino) in numbers {
        let path = root.join(OsStr::from_bytes(path));
        match path.symlink_metadata() {
            Ok(found) if found.is_file() || found.is_dir() => {}
            _ => continue,
        }
        let value = ino.to_string();
        let set = rustix::fs::lsetxattr(
            &path,
            "user.image-inode-number",
            value.as_bytes(),
            rustix::fs::XattrFlags::empty(),
        );
        set.map_err(io::Error::from).context(path.display())?;
    }
    Ok(())
}

/// A file system with nothing but its root, and what the device table adds.
fn empty_tree(choices: &UbifsOptions, session: &mut Session) -> Result<SourceTree, Failure> {
    let root = SourceNode::new(SourceKind::Directory(BTreeMap::new()), 0o755);
    let mut tree = SourceTree::new(root);
    source::adjust(&mut tree, &choices.adjustments(), session)?;
    Ok(tree)
}

impl MkfsUbifsArgs {
    /// What the classic tool can and we cannot.
    fn refuse_unsupported(&self) -> Result<(), Failure> {
        let refuse = |what: &str| Err(Failure::new(format!("{what} is not supported")));
        if self.key.is_some() || self.key_descriptor.is_some() {
            return refuse("encryption (--key, --key-descriptor)");
        }
        if self.hash_algo.is_some() || self.auth_key.is_some() || self.auth_cert.is_some() {
            return refuse("signing (--hash-algo, --auth-key, --auth-cert)");
        }
        Ok(())
    }

    /// The options under our names.
    fn choices(&self) -> Result<UbifsOptions, Failure> {
        let compressor = match self.compr.as_str() {
            "favor_lzo" => CompressorChoice::FavorLzo(self.favor_percent),
            name => name.parse().map_err(|_| Failure::new("bad compressor name"))?,
        };
        let key_hash = match self.keyhash.as_str() {
            "r5" => KeyHashChoice::R5,
            "test" => KeyHashChoice::Test,
            _ => return Err(Failure::new("bad key hash")),
        };
        Ok(UbifsOptions {
            compressor: Some(compressor),
            fanout: Some(self.fanout),
            journal: self.jrn_size,
            reserved: self.reserved,
            log_lebs: self.log_lebs,
            orphan_lebs: Some(self.orph_lebs),
            key_hash: Some(key_hash),
            space_fixup: self.space_fixup,
            source: SourceOptions {
                devtable: self.devtable.clone(),
                selinux: self.selinux.clone(),
                squash_owner: self.squash_uids,
                ..SourceOptions::default()
            },
            ..UbifsOptions::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &[&str]) -> MkfsUbifsArgs {
        MkfsUbifsArgs::try_parse_from([&["mkfs.ubifs"], list].concat()).unwrap()
    }

    #[test]
    fn options_mean_what_they_meant() {
        let args = parse(&["-d", "dir", "-m2KiB", "-e", "124KiB", "-c", "100", "-F", "-U", "out"]);
        assert_eq!(args.root, Some("dir".into()));
        assert_eq!((args.min_io_size, args.leb_size), (Some(2048), Some(126_976)));
        assert!(args.space_fixup && args.squash_uids);
        assert_eq!(args.target, Some("out".into()));
        let args = parse(&["--min-io=512", "-x", "favor_lzo", "-X", "5", "-x", "favor_lzo"]);
        assert_eq!(args.min_io_size, Some(512));
        assert_eq!(args.choices().unwrap().compressor, Some(CompressorChoice::FavorLzo(5)));
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for option in ["-K", "-b", "--hash-algo", "--auth-key", "--auth-cert"] {
            let error = parse(&[option, "x"]).refuse_unsupported().unwrap_err();
            assert!(error.message().contains("not supported"), "{option}");
        }
        // Without a key they change nothing.
        parse(&["-C", "x", "-P", "4"]).refuse_unsupported().unwrap();
        let args = parse(&["-c", "0xc8", "-p", "010", "-g", "0x1", "--force-compr=zlib"]);
        assert_eq!((args.max_leb_cnt, args.orph_lebs), (Some(200), 8));
        assert_eq!(args.compr, "zlib");
        assert!(parse(&["-x", "gzip"]).choices().is_err());
        assert!(parse(&["-k", "md5"]).choices().is_err());
    }
}
