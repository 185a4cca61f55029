//! The thread that does background work, with the model file system.

use eraseblock_vfs::background::{Activity, BackgroundWork, Worker};
use eraseblock_vfs_testkit::ModelFs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[test]
fn background_work_is_done_while_nothing_changes() {
    let left = Arc::new(AtomicU32::new(3));
    let (seen, activity) = (Arc::clone(&left), Arc::new(Activity::default()));
    let (sender, receiver) = std::sync::mpsc::channel();
    let background_work = BackgroundWork::new(move || {
        let more = seen.fetch_sub(1, Ordering::Relaxed) > 1;
        if !more {
            let _ = sender.send(());
        }
        Ok(more)
    });
    activity.changed();
    let fs = Arc::new(ModelFs::default());
    let worker = Worker::start(fs, Some(background_work), activity, |_| {}).unwrap();
    receiver.recv_timeout(Duration::from_secs(20)).unwrap();
    drop(worker);
    assert_eq!(left.load(Ordering::Relaxed), 0);
}
