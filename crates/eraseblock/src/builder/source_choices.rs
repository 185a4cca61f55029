//! Changes to the source on its way into an image of any file system.

use crate::source::{Adjustments, Xattrs};
use serde::Deserialize;
use std::path::PathBuf;

/// Changes to the source, on the command line and in a layout file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct SourceOptions {
    /// Device table: nodes, owners and modes
    pub devtable: Option<PathBuf>,
    /// SELinux file contexts: the security.selinux attribute of every file
    pub selinux: Option<PathBuf>,
    /// Make everything owned by 0:0
    pub squash_owner: bool,
    /// Change owners; may be repeated
    pub map_uid: Vec<String>,
    /// Change groups; may be repeated
    pub map_gid: Vec<String>,
    /// Leave extended attributes and access control lists out
    pub no_xattrs: bool,
}

impl SourceOptions {
    /// Returns the changes; `xattrs` are the attributes that the file system stores by default.
    pub fn adjustments(&self, xattrs: Xattrs) -> Adjustments {
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
