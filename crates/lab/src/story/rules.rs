//! What each rule expects, in words.

/// What is expected by the rule that a violation names.
pub fn expected_by(rule: &str) -> &'static str {
    match rule {
        "attach-refused" => "a chip can be attached after every power cut",
        "invariants" => {
            "the device agrees with itself: every block is in one place, every LEB in one block"
        }
        "flash-differs" => "what the device knows of LEBs and tables is what is on flash",
        "erase-counter" | "erase-counter-fell" => {
            "no erase counter falls, and one that was lost begins at the mean"
        }
        "background-failed" => "work in the background succeeds after every recovery",
        "second-attach-writes" => "a recovered device is attached again without a write",
        "update-marker" => "only the volume whose update was interrupted is marked as damaged",
        "fastmap-refused" => "a device that was recovered or detached is attached by its fastmap",
        "volume-table" => "the volumes are those before the operation or those after it",
        "volume-lost" => "every volume in the table can be opened",
        "read-failed" | "unreadable" => "what was durable can be read",
        "leb-content" => {
            "a LEB holds what it held before the operation or after it, or the part that was being written"
        }
        "static-data" => "every LEB of a static volume has its checksum",
        "update-half-done" => {
            "a volume without the update marker is all as before or all as after its update"
        }
        "dead" => "the recovered device or file system can be written to",
        "operation-failed" | "answer" => {
            "an operation does what the model does, without a power cut"
        }
        "mount-refused" => "a file system can be mounted after every power cut",
        "second-mount-refused" => "a recovered file system can be mounted again",
        "second-mount-differs" => "the second mount shows the same tree as the first",
        "read-only-mount-refused" => "a read-only mount succeeds where one for writing does",
        "read-only-tree" => "a read-only mount shows what one for writing may show",
        "read-only-writes" => "a read-only mount writes nothing",
        "structure" | "structure-uncut" => "the file system's own check finds nothing",
        "tree-unreadable" => "every directory and inode can be read",
        "statfs" => "free space is not more than all of it",
        "space-lost" => "the space that was free after the recovery is free after the next mount",
        "space-gone" => "the space that was free before the cut is free after the recovery",
        "full" => "a file can be made while space is free",
        "tail" => "a file that grows after a recovery has zeros after its old end",
        "unmount-failed" => "a recovered file system can be unmounted",
        "links" => "an inode has the link count that its names make",
        "names" => "names are those after some operation, none earlier than the last durable one",
        "attributes" => {
            "the attributes of an inode are those after some operation since it was durable"
        }
        "size" => "the size of a file is one it had since it was durable",
        "content" => "every block of a file is as of some moment since it was durable",
        "differs-uncut" => "without a power cut the tree is that of the model",
        "thorough" => "everything a file system does now and then happens in the sequences",
        _ => "the state keeps every promise",
    }
}
