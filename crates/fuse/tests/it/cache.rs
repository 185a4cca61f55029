//! The kernel's caches of a mount.

use crate::helper::Helper;
use crate::stage::{Stage, leave_out};
use rustix::io::Errno;
use std::fs;

/// Number of racing writes and reads.
const ROUNDS: &str = "1000";

/// A reader got content from before a completed write, and kept getting it until the mount ended.
#[test]
fn asynchronous_direct_writes_are_seen_through_the_page_cache() {
    let Some((stage, _)) = Stage::model("direct") else { return };
    let helper = Helper::new(include_str!("aio.c"));
    let run = helper.command().arg(stage.path("f")).arg(ROUNDS).output().unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    match run.status.code() {
        Some(77) => leave_out("direct", "this kernel has no asynchronous I/O"),
        code => assert_eq!(code, Some(0), "{said}{}", String::from_utf8_lossy(&run.stderr)),
    }
}

/// A kernel NFS server opens inodes that the kernel has forgotten by their handles; that failed
/// with ESTALE.
#[test]
fn file_handles_outlive_the_caches_of_the_kernel() {
    let Some((stage, _)) = Stage::model("handles") else { return };
    if !rustix::process::getuid().is_root() {
        return leave_out("handles", "only root opens file handles");
    }
    let helper = Helper::new(include_str!("handle.c"));
    fs::create_dir_all(stage.path("d/e")).unwrap();
    fs::write(stage.path("d/e/f"), "content").unwrap();
    fs::write(stage.path("gone"), "").unwrap();
    let paths = ["", "d", "d/e", "d/e/f", "gone"].map(|path| stage.path(path));
    let handles = paths.map(|path| {
        let (handle, code) = helper.run("encode", &path, &[]);
        assert_eq!(code, 0, "{}", path.display());
        handle
    });
    fs::remove_file(stage.path("gone")).unwrap();
    let forget = || fs::write("/proc/sys/vm/drop_caches", "2").unwrap();
    let opened = |handle: &str| {
        forget();
        helper.run("open", stage.dir(), &[handle])
    };
    assert_eq!(opened(&handles[3]), ("content".to_owned(), 0));
    for (path, handle) in ["d/e", "d"].iter().zip([&handles[2], &handles[1]]) {
        assert_eq!(opened(handle), (stage.path(path).display().to_string(), 0));
    }
    assert_eq!(opened(&handles[0]), (stage.dir().display().to_string(), 0));
    assert_eq!(opened(&handles[4]).1, Errno::STALE.raw_os_error());
}
