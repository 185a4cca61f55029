//! Mapped owners, and read-only mounts.

use crate::stage::Stage;
use eraseblock_fuse::{IdMap, IdMaps, MountError, MountOptions, Served, mount};
use eraseblock_vfs::FileSystem;
use eraseblock_vfs_testkit::ModelFs;
use rustix::io::Errno;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

#[test]
fn owners_are_mapped() {
    let model = Arc::new(ModelFs::default());
    let me = rustix::process::getuid().as_raw();
    let map = |inside: u32, outside: u32| IdMap {
        ranges: vec![format!("{inside}:{outside}").parse().unwrap()],
    };
    let ids = IdMaps { uid: map(500, me), gid: map(0, rustix::process::getgid().as_raw()) };
    let options = MountOptions { ids, ..MountOptions::default() };
    let served = Served::ReadWrite(Arc::<ModelFs>::clone(&model));
    let Some(stage) = Stage::new("owners", served, &options) else { return };
    fs::write(stage.path("f"), "").unwrap();
    assert_eq!(fs::metadata(stage.path("f")).unwrap().uid(), me);
    assert_eq!(fs::metadata(stage.dir()).unwrap().uid(), 65_534);
    let chown = std::os::unix::fs::chown(stage.path("f"), Some(me + 1), None).unwrap_err();
    assert_eq!(chown.raw_os_error(), Some(Errno::OVERFLOW.raw_os_error()));
    stage.end();
    assert_eq!(model.attr(model.resolve(b"f").unwrap()).unwrap().uid, 500);
}

#[test]
fn a_read_only_mount_refuses_changes() {
    let model: Arc<dyn FileSystem> = Arc::new(ModelFs::default());
    let options = MountOptions::default();
    let Some(stage) = Stage::new("read-only", Served::ReadOnly(model), &options) else { return };
    let error = fs::write(stage.path("f"), "").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::ROFS.raw_os_error()));
    assert!(!stage.path("f").exists());
    assert_eq!(fs::read_dir(stage.dir()).unwrap().count(), 0);
}

#[test]
fn a_place_that_is_no_directory_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for place in [file.path(), Path::new("/nowhere/at/all")] {
        let served = Served::ReadOnly(Arc::new(ModelFs::default()));
        match mount(served, place, &MountOptions::default()) {
            Err(error @ MountError::Place { .. }) => assert!(!error.is_no_fuse()),
            Err(error) if error.is_no_fuse() => {}
            other => panic!("{other:?}"),
        }
    }
}
