//! The operations of a workload.

/// One operation on volumes and LEBs by number.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Append {
        volume: u32,
        leb: u32,
        data: Vec<u8>,
    },
    Change {
        volume: u32,
        leb: u32,
        data: Vec<u8>,
    },
    Map {
        volume: u32,
        leb: u32,
    },
    Unmap {
        volume: u32,
        leb: u32,
    },
    Erase {
        volume: u32,
        leb: u32,
    },
    /// Reads and compares the whole LEB.
    Read {
        volume: u32,
        leb: u32,
    },
    Scrub {
        peb: u32,
    },
    Step,
    Flush,
    Create {
        id: u32,
        is_static: bool,
        lebs: u32,
    },
    Remove {
        volume: u32,
    },
    Resize {
        volume: u32,
        lebs: u32,
    },
    Swap {
        volume: u32,
        other: u32,
    },
    Replace {
        volume: u32,
        other: u32,
    },
    Update {
        volume: u32,
        data: Vec<u8>,
    },
    /// Completes everything pending, then closes and opens the device again.
    Reattach {
        detach: bool,
    },
}

impl Op {
    /// Returns the kind of the operation.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Append { .. } => "write",
            Self::Change { .. } => "change",
            Self::Map { .. } => "map",
            Self::Unmap { .. } => "unmap",
            Self::Erase { .. } => "erase",
            Self::Read { .. } => "read",
            Self::Scrub { .. } => "scrub",
            Self::Step => "background step",
            Self::Flush => "flush",
            Self::Create { .. } => "create",
            Self::Remove { .. } => "remove",
            Self::Resize { .. } => "resize",
            Self::Swap { .. } => "swap names",
            Self::Replace { .. } => "rename over",
            Self::Update { .. } => "update",
            Self::Reattach { .. } => "attach",
        }
    }

    /// Describes the operation.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Append { volume, leb, data } => {
                format!("append {} bytes to volume {volume} LEB {leb}", data.len())
            }
            Self::Change { volume, leb, data } => {
                format!("change volume {volume} LEB {leb} to {} bytes", data.len())
            }
            Self::Update { volume, data } => {
                format!("update volume {volume} to {} bytes", data.len())
            }
            Self::Map { volume, leb } => format!("map volume {volume} LEB {leb}"),
            Self::Unmap { volume, leb } => format!("unmap volume {volume} LEB {leb}"),
            Self::Erase { volume, leb } => format!("erase volume {volume} LEB {leb}"),
            Self::Read { volume, leb } => format!("read volume {volume} LEB {leb}"),
            Self::Scrub { peb } => format!("ask for peb {peb} to be scrubbed"),
            Self::Step => "one step of the work in the background".to_owned(),
            Self::Flush => "all work in the background".to_owned(),
            Self::Create { id, is_static, lebs } => {
                let kind = if *is_static { "static" } else { "dynamic" };
                format!("create {kind} volume {id} of {lebs} LEBs")
            }
            Self::Remove { volume } => format!("remove volume {volume}"),
            Self::Resize { volume, lebs } => format!("resize volume {volume} to {lebs} LEBs"),
            Self::Swap { volume, other } => {
                format!("exchange the names of volumes {volume} and {other}")
            }
            Self::Replace { volume, other } => {
                format!("rename volume {volume} over volume {other}")
            }
            Self::Reattach { detach: true } => "detach and attach again".to_owned(),
            Self::Reattach { detach: false } => "close and attach again".to_owned(),
        }
    }
}
