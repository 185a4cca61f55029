//! Mounts the model file system, empty, for the suites that test the adapter: until it is
//! unmounted, for every user, as root.
//!
//! `cargo run --example model -- DIR [ubifs|jffs2|exact]`

use eraseblock_fuse::{MountOptions, Served, mount};
use eraseblock_vfs::Timestamp;
use eraseblock_vfs_testkit::{ModelFs, ModelRules};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let dir = arguments.next().ok_or("which directory?")?;
    let rules = match arguments.next().as_ref().map(|name| name.to_str()) {
        None | Some(Some("ubifs")) => ModelRules::UBIFS,
        Some(Some("jffs2")) => ModelRules::JFFS2,
        // UBIFS with nanosecond times.
        Some(Some("exact")) => ModelRules { granularity_ns: 1, ..ModelRules::UBIFS },
        Some(_) => return Err("expected ubifs, jffs2 or exact".into()),
    };
    let fs = Arc::new(ModelFs::new(rules, Timestamp::default()));
    let options = MountOptions {
        source: "model".to_owned(),
        kind: "eraseblock".to_owned(),
        allow_other: true,
        acl: true,
        dev: true,
        suid: true,
        ..MountOptions::default()
    };
    Ok(mount(Served::ReadWrite(fs), Path::new(&dir), &options)?.wait()?)
}
