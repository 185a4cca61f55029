//! What of the source is to be changed on its way into an image, whatever the file system.

use crate::source::{Adjustments, Xattrs};
use clap::Args;
use serde::Deserialize;
use std::path::PathBuf;

/// Changes to the source, on the command line and in a layout file.
#[derive(Clone, Debug, Default, Args, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct SourceOptions {
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

impl SourceOptions {
    /// What is to be changed; `xattrs` is what the file system takes unless told not to.
    pub(crate) fn adjustments(&self, xattrs: Xattrs) -> Adjustments {
        Adjustments {
            devtable: self.devtable.clone(),
            selinux: self.selinux.clone(),
            squash_owner: self.squash_owner,
            map_uid: self.map_uid.clone(),
            map_gid: self.map_gid.clone(),
            xattrs: if self.no_xattrs { Xattrs::None } else { xattrs },
            ..Adjustments::default()
        }
    }
}
