//! Changes to the source on its way into an image of any file system.

use clap::Args;
use eraseblock::builder::source_choices::SourceOptions;
use std::path::PathBuf;

/// Changes to the source.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct SourceArgs {
    /// Device table: nodes, owners and modes
    #[arg(long, help_heading = "File system", value_name = "FILE")]
    pub devtable: Option<PathBuf>,
    /// SELinux file contexts: the security.selinux attribute of every file
    #[arg(long, help_heading = "File system", value_name = "FILE")]
    pub selinux: Option<PathBuf>,
    /// Make everything owned by 0:0
    #[arg(long, help_heading = "File system")]
    pub squash_owner: bool,
    /// Change owners; may be repeated
    #[arg(long, help_heading = "File system", value_name = "FROM:TO[:COUNT]")]
    pub map_uid: Vec<String>,
    /// Change groups; may be repeated
    #[arg(long, help_heading = "File system", value_name = "FROM:TO[:COUNT]")]
    pub map_gid: Vec<String>,
    /// Leave extended attributes and access control lists out
    #[arg(long, help_heading = "File system")]
    pub no_xattrs: bool,
}

impl SourceArgs {
    /// The same for the library.
    pub(crate) fn choices(&self) -> SourceOptions {
        SourceOptions {
            devtable: self.devtable.clone(),
            selinux: self.selinux.clone(),
            squash_owner: self.squash_owner,
            map_uid: self.map_uid.clone(),
            map_gid: self.map_gid.clone(),
            no_xattrs: self.no_xattrs,
        }
    }
}
