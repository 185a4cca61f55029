//! mkfs.jffs2(1): a JFFS2 image from a folder (spec: jffs2 21.1).

use super::refuse_device;
use crate::failure::{Context, Failure};
use crate::session::{Session, say};
use clap::Parser;
use eraseblock::builder::jffs2::{self, Summary};
use eraseblock::raw::jffs2::mkfs::{CompressionMode, Compressor, MkfsOptions, Padding};
use eraseblock::raw::jffs2_format::ByteOrder;
use eraseblock::source::{self, Adjustments, Xattrs};
use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// The smallest erase block of the classic tools.
const MIN_BLOCK: u32 = 8 << 10;
/// Plain numbers below this are KiB where an erase block size is expected.
const KIB_BELOW: u32 = 0x1000;

/// Make a JFFS2 file system image from a folder.
#[derive(Debug, Parser)]
#[command(name = "mkfs.jffs2", version, infer_long_args = true, args_override_self = true)]
pub(super) struct MkfsJffs2Args {
    /// Pad the output to SIZE bytes, or to the end of the last eraseblock; also -p, -pSIZE
    #[arg(long, value_name = "SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = pad_size)]
    pad: Option<Pad>,
    /// Build the file system from this folder, the current one when left out; also -d
    #[arg(short = 'r', short_alias = 'd', long, value_name = "DIR", default_value = ".")]
    root: PathBuf,
    /// Page size: most bytes of a file in one node
    #[arg(short = 's', long, value_name = "SIZE", value_parser = number, default_value = "4096")]
    pagesize: u32,
    /// Erase block size
    #[arg(short, long, value_name = "SIZE", value_parser = erase_size, default_value = "64KiB")]
    eraseblock: u32,
    /// Size of the cleanmarkers
    #[arg(short, long, value_name = "SIZE", value_parser = number, default_value = "12")]
    cleanmarker: u32,
    /// none, priority, size or favourlzo
    #[arg(short = 'm', long, value_name = "MODE", default_value = "priority")]
    compression_mode: String,
    /// Switch a compressor off
    #[arg(short = 'x', long, value_name = "NAME", action = clap::ArgAction::Append)]
    disable_compressor: Vec<String>,
    /// Switch a compressor on
    #[arg(short = 'X', long, value_name = "NAME", action = clap::ArgAction::Append)]
    enable_compressor: Vec<String>,
    /// Set the priority of a compressor
    #[arg(short = 'y', long, value_name = "PRIORITY:NAME", action = clap::ArgAction::Append)]
    compressor_priority: Vec<String>,
    /// List the compressors
    #[arg(short = 'L', long)]
    list_compressors: bool,
    /// Decompress everything again and compare
    #[arg(short = 't', long)]
    test_compression: bool,
    /// No cleanmarkers
    #[arg(short, long)]
    no_cleanmarkers: bool,
    /// Output file; standard output when left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Make a little-endian file system
    #[arg(short, long, overrides_with = "big_endian")]
    little_endian: bool,
    /// Make a big-endian file system
    #[arg(short, long, overrides_with = "little_endian")]
    big_endian: bool,
    /// Device table
    #[arg(short = 'D', long, value_name = "FILE")]
    devtable: Option<PathBuf>,
    /// Set all times to 0
    #[arg(short, long)]
    faketime: bool,
    /// Squash permissions and make all files owned by root
    #[arg(short = 'q', long)]
    squash: bool,
    /// Make all files owned by root
    #[arg(short = 'U', long)]
    squash_uids: bool,
    /// Squash permissions of all files
    #[arg(short = 'P', long)]
    squash_perms: bool,
    /// Store all extended attributes
    #[arg(long)]
    with_xattr: bool,
    /// Store SELinux labels only
    #[arg(long)]
    with_selinux: bool,
    /// Store access control lists only
    #[arg(long)]
    with_posix_acl: bool,
    /// Say what was done
    #[arg(short, long)]
    verbose: bool,
    /// Make an appendage to this image
    #[arg(short, long, value_name = "FILE")]
    incremental: Option<PathBuf>,
    /// Ignored, as the classic tool does
    #[arg(hide = true)]
    others: Vec<OsString>,
}

/// What `--pad` asks for: a size, or the end of the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Pad(Option<u32>);

fn pad_size(text: &str) -> Result<Pad, String> {
    if text.is_empty() { Ok(Pad(None)) } else { number(text).map(|size| Pad(Some(size))) }
}

/// A number as C writes it: decimal, hexadecimal with 0x, octal with 0.
pub(super) fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None if text.len() > 1 && text.starts_with('0') => u32::from_str_radix(&text[1..], 8),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("`{text}` is not a number"))
}

/// The size of an erase block: small plain numbers are KiB.
pub(super) fn erase_size(text: &str) -> Result<u32, String> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit() && !matches!(c, 'x' | 'X'));
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let size = number(digits)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" if size < KIB_BELOW => 1 << 10,
        "" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        _ => return Err("unknown units in the erase block size".to_owned()),
    };
    size.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// An erase block size is raised to the smallest one there is, as the classic tools do.
pub(super) fn at_least_minimum(size: u32) -> u32 {
    if size < MIN_BLOCK {
        say(&format!("Erase size {size:#x} too small. Increasing to 8KiB minimum"));
    }
    size.max(MIN_BLOCK)
}

/// The compressor that OpenWrt adds. It is always off here.
const LZMA: &str = "lzma";

/// Options with a value, as letters.
const WITH_VALUE: &[u8] = b"rdsecmxXyoDi";

/// Writes `-pSIZE`, whose value may be missing and is never a word of its own, as `--pad=SIZE`.
pub(super) fn spell_out_pad(arguments: &[OsString]) -> Vec<OsString> {
    let mut out = Vec::with_capacity(arguments.len() + 1);
    let mut words = arguments.iter();
    out.extend(words.next().cloned());
    while let Some(word) = words.next() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            out.push(word.clone());
            out.extend(words.by_ref().cloned());
            break;
        }
        if bytes.len() < 2 || bytes[0] != b'-' || bytes[1] == b'-' {
            out.push(word.clone());
            continue;
        }
        let stop =
            bytes[1..].iter().position(|letter| *letter == b'p' || WITH_VALUE.contains(letter));
        match stop.map(|index| index + 1) {
            Some(at) if bytes[at] == b'p' => {
                if at > 1 {
                    out.push(OsString::from_vec(bytes[..at].to_vec()));
                }
                let value = &bytes[at + 1..];
                let long: &[u8] = if value.is_empty() { b"--pad" } else { b"--pad=" };
                out.push(OsString::from_vec([long, value].concat()));
            }
            Some(at) if at + 1 == bytes.len() => {
                out.push(word.clone());
                out.extend(words.next().cloned());
            }
            _ => out.push(word.clone()),
        }
    }
    out
}

/// Makes the image.
pub(super) fn run(args: &MkfsJffs2Args, session: &mut Session) -> Result<(), Failure> {
    let rows = args.compressors()?;
    if args.list_compressors {
        return Err(Failure::new(list(&rows)));
    }
    let mut options = MkfsOptions::new(at_least_minimum(args.eraseblock));
    args.check_cleanmarker(options.block_size)?;
    options.cleanmarker = if args.no_cleanmarkers { 0 } else { args.cleanmarker };
    options.page_size = args.pagesize;
    options.order = args.order();
    options.padding = match args.pad {
        None => Padding::None,
        Some(Pad(None)) => Padding::Block,
        Some(Pad(Some(size))) => Padding::Size(size.into()),
    };
    options.compression.mode = args.mode()?;
    options.compression.compressors =
        rows.iter().filter(|row| row.is_on).map(|row| (row.one, row.priority)).collect();
    options.verify = args.test_compression;
    options.base = args.incremental.as_deref().map(jffs2::highest).transpose()?;
    if !args.root.is_dir() {
        return Err(Failure::new(format!("{}: not a directory", args.root.display())));
    }
    let output = args.output.clone().unwrap_or_else(|| "/dev/stdout".into());
    refuse_device(&output)?;
    args.incremental.iter().for_each(|path| session.reads(path));
    let tree = source::load(&args.root, &args.adjustments(), &output, session)?;
    let report = match &args.output {
        None => jffs2::build(&tree, &options, &mut std::io::stdout(), session)?,
        Some(path) => {
            let file = session.create_named(path)?;
            let mut out = BufWriter::with_capacity(1 << 20, &file.file);
            let report = jffs2::build(&tree, &options, &mut out, session)?;
            out.flush().context(path.display())?;
            drop(out);
            file.commit()?;
            report
        }
    };
    if args.verbose {
        session.remark(&format!("{}: {}", output.display(), Summary::of(&report).line()));
    }
    Ok(())
}

/// A compressor as the options leave it.
#[derive(Clone, Copy, Debug)]
struct Row {
    one: Compressor,
    priority: i32,
    is_on: bool,
}

/// The list that `-L` prints.
fn list(rows: &[Row]) -> String {
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| std::cmp::Reverse(row.priority));
    let line = |row: &Row| {
        let word = if row.is_on { "enabled" } else { "disabled" };
        format!("\n{:>10} priority:{} {word}", row.one.name(), row.priority)
    };
    rows.iter().map(line).collect()
}

impl MkfsJffs2Args {
    fn order(&self) -> ByteOrder {
        match (self.little_endian, self.big_endian) {
            (true, _) => ByteOrder::Little,
            (_, true) => ByteOrder::Big,
            _ if cfg!(target_endian = "big") => ByteOrder::Big,
            _ => ByteOrder::Little,
        }
    }

    fn check_cleanmarker(&self, block_size: u32) -> Result<(), Failure> {
        if self.cleanmarker < 12 {
            return Err(Failure::new("cleanmarker size must be >= 12"));
        }
        if self.cleanmarker >= block_size {
            return Err(Failure::new("cleanmarker size must be < eraseblock size"));
        }
        Ok(())
    }

    fn mode(&self) -> Result<CompressionMode, Failure> {
        match self.compression_mode.as_str() {
            "none" => Ok(CompressionMode::None),
            "priority" => Ok(CompressionMode::Priority),
            "size" => Ok(CompressionMode::Size),
            "favourlzo" => Ok(CompressionMode::FavourLzo),
            other => Err(Failure::new(format!("Unknown compression mode {other}"))),
        }
    }

    /// All compressors as `-x`, `-X` and `-y` leave them; LZO is off unless asked for.
    fn compressors(&self) -> Result<Vec<Row>, Failure> {
        let row = |one: Compressor| Row {
            one,
            priority: one.usual_priority(),
            is_on: one != Compressor::Lzo,
        };
        let mut rows: Vec<Row> = Compressor::ALL.into_iter().map(row).collect();
        let find = |rows: &[Row], name: &str| {
            let found = rows.iter().position(|row| row.one.name() == name);
            found.ok_or_else(|| Failure::new(format!("Unknown compressor name {name}")))
        };
        if self.enable_compressor.iter().any(|name| name == LZMA) {
            return Err(Failure::new("LZMA nodes can be read, not written")
                .hint("leave `-X lzma` out: zlib or lzo are read by every Linux with JFFS2"));
        }
        for (names, is_on) in [(&self.disable_compressor, false), (&self.enable_compressor, true)] {
            for name in names.iter().filter(|name| *name != LZMA) {
                let index = find(&rows, name)?;
                rows[index].is_on = is_on;
            }
        }
        for text in &self.compressor_priority {
            let wrong = || Failure::new(format!("`{text}` is not PRIORITY:NAME"));
            let (priority, name) = text.split_once(':').ok_or_else(wrong)?;
            let priority = priority.parse().map_err(|_| wrong())?;
            if name != LZMA {
                let index = find(&rows, name)?;
                rows[index].priority = priority;
            }
        }
        Ok(rows)
    }

    fn adjustments(&self) -> Adjustments {
        let xattrs = match (self.with_xattr, self.with_selinux, self.with_posix_acl) {
            (true, _, _) => Xattrs::All,
            (_, true, true) => Xattrs::Only(&[b"security.selinux", b"system.posix_acl_"]),
            (_, true, false) => Xattrs::Only(&[b"security.selinux"]),
            (_, false, true) => Xattrs::Only(&[b"system.posix_acl_"]),
            (false, false, false) => Xattrs::None,
        };
        Adjustments {
            devtable: self.devtable.clone(),
            squash_owner: self.squash || self.squash_uids,
            squash_modes: self.squash || self.squash_perms,
            table_wins: true,
            zero_times: self.faketime,
            xattrs,
            ..Adjustments::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &[&str]) -> MkfsJffs2Args {
        let words: Vec<OsString> = ["mkfs.jffs2"].iter().chain(list).map(OsString::from).collect();
        MkfsJffs2Args::try_parse_from(spell_out_pad(&words)).unwrap()
    }

    #[test]
    fn the_value_of_pad_is_attached_or_missing() {
        assert_eq!(parse(&[]).pad, None);
        assert_eq!(parse(&["-p"]).pad, Some(Pad(None)));
        assert_eq!(parse(&["-lnp0x100", "-o", "p"]).pad, Some(Pad(Some(256))));
        assert_eq!(parse(&["-p", "-r", "x"]).root, PathBuf::from("x"));
        assert_eq!(parse(&["--pad=4096"]).pad, Some(Pad(Some(4096))));
        assert_eq!(parse(&["--pad", "-n"]).pad, Some(Pad(None)));
        assert_eq!(parse(&["-rp"]).root, PathBuf::from("p"));
    }

    #[test]
    fn sizes_are_in_kib_when_they_are_small() {
        for (text, size) in [
            ("64", 65_536),
            ("0x10000", 65_536),
            ("128KiB", 131_072),
            ("1MiB", 1 << 20),
            ("64K", 65_536),
            ("4096", 4096),
        ] {
            assert_eq!(erase_size(text), Ok(size), "{text}");
        }
        assert!(erase_size("64q").is_err());
        assert_eq!(number("010"), Ok(8));
    }

    #[test]
    fn the_last_byte_order_counts_and_compressors_are_switched() {
        assert_eq!(parse(&["-l", "-b"]).order(), ByteOrder::Big);
        assert_eq!(parse(&["-b", "-l"]).order(), ByteOrder::Little);
        let rows = parse(&["-X", "lzo", "-x", "zlib", "-y", "90:rtime"]).compressors().unwrap();
        let on: Vec<_> = rows.iter().filter(|row| row.is_on).map(|row| row.one.name()).collect();
        assert_eq!(on, ["lzo", "rtime"]);
        assert!(list(&rows).starts_with("\n     rtime priority:90 enabled\n       lzo"));
        assert!(parse(&["-x", "zip"]).compressors().is_err());
        let rows = parse(&["-x", "lzma", "-y", "10:lzma"]).compressors().unwrap();
        assert_eq!(rows.len(), Compressor::ALL.len());
        let refused = parse(&["-X", "lzma"]).compressors().unwrap_err();
        assert!(refused.message().contains("LZMA") && refused.next_step().is_some());
        assert!(parse(&["-m", "best"]).mode().is_err());
        assert!(parse(&["-c", "8"]).check_cleanmarker(65_536).is_err());
    }
}
