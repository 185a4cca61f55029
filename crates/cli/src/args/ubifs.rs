//! Options of a UBIFS file system.

use super::size64;
use super::source::SourceArgs;
use clap::{Args, ValueEnum};
use eraseblock::builder::ubifs_choices::{
    self, CompressRule, CompressorChoice, UbifsOptions, UuidChoice,
};

/// Options of a UBIFS image; what is left out is chosen by the builder.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct UbifsOptionArgs {
    /// Most logical eraseblocks the file system may grow to; of the whole flash when left out
    #[arg(long, help_heading = "File system", value_name = "COUNT")]
    pub max_lebs: Option<u32>,
    /// lzo, zlib, zstd[:LEVEL], none, or favor-lzo[:PERCENT]
    #[allow(rustdoc::broken_intra_doc_links)] // what may be left out, in the manner of --help
    #[arg(long, help_heading = "File system", value_name = "COMPRESSOR")]
    pub compressor: Option<CompressorChoice>,
    /// Another compressor for the files whose path fits a pattern; may be repeated, the first that fits counts
    #[arg(long, help_heading = "File system", value_name = "GLOB=COMPRESSOR")]
    pub compress_path: Vec<CompressRule>,
    /// Fanout of the index tree
    #[arg(long, help_heading = "File system", value_name = "NUMBER")]
    pub fanout: Option<u32>,
    /// Size of the journal
    #[arg(long, help_heading = "File system", value_name = "SIZE", value_parser = size64)]
    pub journal: Option<u64>,
    /// Space only the super-user may use
    #[arg(long, help_heading = "File system", value_name = "SIZE", value_parser = size64)]
    pub reserved: Option<u64>,
    /// Eraseblocks for the log
    #[arg(long, help_heading = "File system", value_name = "COUNT")]
    pub log_lebs: Option<u32>,
    /// Eraseblocks for orphans
    #[arg(long, help_heading = "File system", value_name = "COUNT")]
    pub orphan_lebs: Option<u32>,
    /// How names become keys
    #[arg(long, help_heading = "File system", value_name = "HASH")]
    pub key_hash: Option<KeyHashChoice>,
    /// Have Linux fix up the free space on the first mount
    #[arg(long, help_heading = "File system")]
    pub space_fixup: bool,
    /// On-flash format: 4 or 5
    #[arg(long, help_heading = "File system", value_name = "VERSION", value_parser = clap::value_parser!(u32).range(4..=5))]
    pub format_version: Option<u32>,
    /// UUID of the file system; made from its content when left out
    #[arg(long, help_heading = "File system", value_name = "UUID")]
    pub uuid: Option<UuidChoice>,
    #[command(flatten)]
    pub source: SourceArgs,
    /// Take extended attributes along (this is what happens anyway)
    #[arg(long, help_heading = "File system", overrides_with = "no_xattrs")]
    pub xattrs: bool,
}

impl UbifsOptionArgs {
    /// The same for the library.
    pub(crate) fn choices(&self) -> UbifsOptions {
        UbifsOptions {
            max_lebs: self.max_lebs,
            compressor: self.compressor,
            compress_path: self.compress_path.clone(),
            fanout: self.fanout,
            journal: self.journal,
            reserved: self.reserved,
            log_lebs: self.log_lebs,
            orphan_lebs: self.orphan_lebs,
            key_hash: self.key_hash.map(|hash| match hash {
                KeyHashChoice::R5 => ubifs_choices::KeyHashChoice::R5,
                KeyHashChoice::Test => ubifs_choices::KeyHashChoice::Test,
            }),
            space_fixup: self.space_fixup,
            format_version: self.format_version,
            uuid: self.uuid,
            source: self.source.choices(),
            xattrs: self.xattrs,
        }
    }
}

/// How names become keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum KeyHashChoice {
    /// What Linux uses.
    R5,
    /// For testing.
    Test,
}
