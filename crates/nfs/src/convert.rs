//! Conversion of attributes, times and error numbers to and from the protocol. The only place with
//! error numbers.

use eraseblock_vfs::{Attr, Caller, FileKind, FsError, FsErrorKind, SetAttr, Timestamp};
use nfs3_server::nfs3_types::nfs3::{
    Nfs3Option, fattr3, ftype3, nfsstat3, nfstime3, sattr3, set_atime, set_mtime, specdata3,
};
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the current time of the host.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Returns the owner of the medium, on whose behalf clients change it, at the current time.
pub(crate) fn owner() -> Caller {
    Caller::owner(now())
}

/// Returns the status for an error.
pub(crate) fn status(error: &FsError) -> nfsstat3 {
    match error.kind() {
        FsErrorKind::NotFound => nfsstat3::NFS3ERR_NOENT,
        FsErrorKind::NotADirectory => nfsstat3::NFS3ERR_NOTDIR,
        FsErrorKind::IsADirectory => nfsstat3::NFS3ERR_ISDIR,
        FsErrorKind::Exists => nfsstat3::NFS3ERR_EXIST,
        FsErrorKind::NotEmpty => nfsstat3::NFS3ERR_NOTEMPTY,
        FsErrorKind::Invalid | FsErrorKind::OutOfRange => nfsstat3::NFS3ERR_INVAL,
        FsErrorKind::NameTooLong => nfsstat3::NFS3ERR_NAMETOOLONG,
        FsErrorKind::NoSpace => nfsstat3::NFS3ERR_NOSPC,
        FsErrorKind::ReadOnly => nfsstat3::NFS3ERR_ROFS,
        FsErrorKind::NoKey => nfsstat3::NFS3ERR_ACCES,
        FsErrorKind::Unsupported => nfsstat3::NFS3ERR_NOTSUPP,
        FsErrorKind::NotPermitted => nfsstat3::NFS3ERR_PERM,
        FsErrorKind::TooBig => nfsstat3::NFS3ERR_FBIG,
        FsErrorKind::TooManyLinks => nfsstat3::NFS3ERR_MLINK,
        // `Io`, `Corrupted`, and kinds without a number in the protocol.
        _ => nfsstat3::NFS3ERR_IO,
    }
}

/// Returns the status for a handle whose inode has been deleted.
pub(crate) fn handle_status(error: &FsError) -> nfsstat3 {
    match error.kind() {
        FsErrorKind::NotFound => nfsstat3::NFS3ERR_STALE,
        _ => status(error),
    }
}

/// Converts a time; the protocol's range is 1970 to 2106.
fn time(time: Timestamp) -> nfstime3 {
    match u32::try_from(time.seconds) {
        Ok(seconds) => nfstime3 { seconds, nseconds: time.nanoseconds },
        Err(_) if time.seconds < 0 => nfstime3 { seconds: 0, nseconds: 0 },
        Err(_) => nfstime3 { seconds: u32::MAX, nseconds: 0 },
    }
}

fn timestamp(time: nfstime3) -> Timestamp {
    let nanoseconds = time.nseconds.min(999_999_999);
    Timestamp { seconds: i64::from(time.seconds), nanoseconds }
}

/// Returns the attributes for the client.
pub(crate) fn attributes(attr: &Attr) -> fattr3 {
    let type_ = match attr.kind {
        FileKind::Regular => ftype3::NF3REG,
        FileKind::Directory => ftype3::NF3DIR,
        FileKind::Symlink => ftype3::NF3LNK,
        FileKind::BlockDevice => ftype3::NF3BLK,
        FileKind::CharDevice => ftype3::NF3CHR,
        FileKind::Fifo => ftype3::NF3FIFO,
        FileKind::Socket => ftype3::NF3SOCK,
    };
    fattr3 {
        type_,
        mode: attr.permissions,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        used: attr.size.next_multiple_of(4096),
        rdev: specdata3 { specdata1: attr.rdev.0, specdata2: attr.rdev.1 },
        fsid: 0,
        fileid: attr.ino,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
    }
}

fn given<
    T: Copy + nfs3_server::nfs3_types::xdr_codec::Pack + nfs3_server::nfs3_types::xdr_codec::Unpack,
>(
    value: &Nfs3Option<T>,
) -> Option<T> {
    match value {
        Nfs3Option::Some(value) => Some(*value),
        Nfs3Option::None => None,
    }
}

/// Returns the changes requested by a client.
pub(crate) fn changes(wanted: &sattr3) -> SetAttr {
    let touch = matches!(wanted.atime, set_atime::SET_TO_SERVER_TIME)
        && matches!(wanted.mtime, set_mtime::SET_TO_SERVER_TIME);
    SetAttr {
        permissions: given(&wanted.mode).map(|mode| mode & 0o7777),
        uid: given(&wanted.uid),
        gid: given(&wanted.gid),
        size: given(&wanted.size),
        touch,
        atime: match wanted.atime {
            set_atime::DONT_CHANGE => None,
            set_atime::SET_TO_SERVER_TIME if touch => None,
            set_atime::SET_TO_SERVER_TIME => Some(now()),
            set_atime::SET_TO_CLIENT_TIME(time) => Some(timestamp(time)),
        },
        mtime: match wanted.mtime {
            set_mtime::DONT_CHANGE => None,
            set_mtime::SET_TO_SERVER_TIME if touch => None,
            set_mtime::SET_TO_SERVER_TIME => Some(now()),
            set_mtime::SET_TO_CLIENT_TIME(time) => Some(timestamp(time)),
        },
        flags: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_have_their_numbers() {
        let of = |kind| status(&FsError::new(kind, "why"));
        assert_eq!(of(FsErrorKind::NotFound), nfsstat3::NFS3ERR_NOENT);
        assert_eq!(of(FsErrorKind::Corrupted), nfsstat3::NFS3ERR_IO);
        let gone = FsError::new(FsErrorKind::NotFound, "inode 7");
        assert_eq!(handle_status(&gone), nfsstat3::NFS3ERR_STALE);
    }

    #[test]
    fn both_times_of_the_server_are_a_touch() {
        let (atime, mtime) = (set_atime::SET_TO_SERVER_TIME, set_mtime::SET_TO_SERVER_TIME);
        let both = changes(&sattr3 { atime, mtime, ..sattr3::default() });
        assert_eq!(both, SetAttr { touch: true, ..SetAttr::default() });
        let atime = set_atime::SET_TO_SERVER_TIME;
        let one = changes(&sattr3 { atime, ..sattr3::default() });
        assert!(!one.touch && one.atime.is_some() && one.mtime.is_none());
    }

    #[test]
    fn times_out_of_range_are_the_nearest() {
        let at = |seconds| time(Timestamp::from_seconds(seconds)).seconds;
        assert_eq!((at(-1), at(7), at(1 << 33)), (0, 7, u32::MAX));
    }
}
