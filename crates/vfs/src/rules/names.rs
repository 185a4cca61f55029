//! Names of entries and of xattrs.

use super::{acl, refuse};
use crate::attr::FileKind;
use crate::error::{FsError, FsErrorKind};

/// Returns a name for messages, shortened.
pub fn quoted(name: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&name[..name.len().min(64)]);
    let dots = if name.len() > 64 { "..." } else { "" };
    format!("`{}`{dots}", shown.escape_debug())
}

/// Refuses invalid entry names: empty, `.`, `..`, or with a slash or NUL byte (EINVAL), or longer
/// than `max` bytes (ENAMETOOLONG).
///
/// # Errors
///
/// Fails with EINVAL or ENAMETOOLONG.
pub fn check_name(name: &[u8], max: usize) -> Result<(), FsError> {
    let special = matches!(name, b"" | b"." | b"..");
    if special || name.iter().any(|byte| matches!(byte, b'/' | 0)) {
        return refuse(FsErrorKind::Invalid, format!("{} cannot be a name", quoted(name)));
    }
    if name.len() > max {
        let message = format!("a name of {} bytes is longer than {max}", name.len());
        return refuse(FsErrorKind::NameTooLong, message);
    }
    Ok(())
}

/// Maximum length of an xattr name, prefix included, in bytes.
pub const XATTR_NAME_MAX: usize = 255;

/// The supported namespaces, and whether they are for regular files and directories only.
const NAMESPACES: [(&[u8], bool); 3] =
    [(b"user.", true), (b"trusted.", false), (b"security.", false)];

/// What an attribute is named for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum XattrUse {
    /// Its value is read.
    Read,
    /// It is set or removed.
    Change,
}

impl XattrUse {
    /// Returns the refusal of a name that files of this kind cannot have.
    fn refusal(self) -> FsErrorKind {
        match self {
            Self::Read => FsErrorKind::NoAttribute,
            Self::Change => FsErrorKind::NotPermitted,
        }
    }
}

/// Refuses invalid xattr names: empty or over 255 bytes (ERANGE), in an unsupported namespace
/// (EOPNOTSUPP), with nothing after the prefix or with a NUL byte (EINVAL). `user.` names exist on
/// regular files and directories only: elsewhere EPERM for a change, otherwise ENODATA.
///
/// # Errors
///
/// Fails with the error given for the rule that the name breaks.
pub fn check_xattr_name(kind: FileKind, name: &[u8], xattr: XattrUse) -> Result<(), FsError> {
    if name.is_empty() || name.len() > XATTR_NAME_MAX {
        let message = format!("an attribute name of {} bytes: expected 1 to 255", name.len());
        return refuse(FsErrorKind::OutOfRange, message);
    }
    if name.contains(&0) {
        return refuse(FsErrorKind::Invalid, format!("{} has a NUL byte", quoted(name)));
    }
    if acl::is_acl_name(name) {
        return check_acl(kind, name, xattr);
    }
    let Some((prefix, limited)) = NAMESPACES.iter().find(|row| name.starts_with(row.0)) else {
        let message = format!("{} is in no namespace that is stored", quoted(name));
        return refuse(FsErrorKind::Unsupported, message);
    };
    if *limited && !matches!(kind, FileKind::Regular | FileKind::Directory) {
        let refusal = xattr.refusal();
        return refuse(refusal, "only regular files and directories have `user.` attributes");
    }
    if name.len() == prefix.len() {
        return refuse(FsErrorKind::Invalid, format!("{} is only a prefix", quoted(name)));
    }
    Ok(())
}

/// Checks that the inode can have the ACL: symbolic links have none, and only directories have
/// default ones: elsewhere EPERM for a change, otherwise ENODATA.
fn check_acl(kind: FileKind, name: &[u8], xattr: XattrUse) -> Result<(), FsError> {
    if kind == FileKind::Symlink {
        return refuse(FsErrorKind::Unsupported, "a symbolic link has no access control list");
    }
    if name == acl::DEFAULT && kind != FileKind::Directory {
        let refusal = xattr.refusal();
        return refuse(refusal, "only directories have default access lists");
    }
    Ok(())
}

/// Refuses a value of more than `max` bytes (ERANGE).
///
/// # Errors
///
/// Fails with ERANGE.
pub fn check_xattr_value(value: &[u8], max: usize) -> Result<(), FsError> {
    if value.len() > max {
        let message = format!("an attribute value of {} bytes is longer than {max}", value.len());
        return refuse(FsErrorKind::OutOfRange, message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_refused_by_kind() {
        let kind = |name: &[u8]| check_name(name, 255).map_err(|error| error.kind());
        for name in [&b""[..], b".", b"..", b"a/b", b"a\0"] {
            assert_eq!(kind(name), Err(FsErrorKind::Invalid));
        }
        assert_eq!(kind(&[b'x'; 255]), Ok(()));
        assert_eq!(kind(&[b'x'; 256]), Err(FsErrorKind::NameTooLong));
        assert_eq!(kind(b"..."), Ok(()));
    }

    #[test]
    fn attribute_names_are_refused_by_kind() {
        let kind = |file, name: &[u8], xattr| {
            check_xattr_name(file, name, xattr).map_err(|error| error.kind())
        };
        let regular = FileKind::Regular;
        assert_eq!(kind(regular, b"user.a", XattrUse::Change), Ok(()));
        assert_eq!(kind(FileKind::Symlink, b"trusted.a", XattrUse::Change), Ok(()));
        assert_eq!(kind(FileKind::Fifo, b"security.a", XattrUse::Change), Ok(()));
        assert_eq!(kind(regular, b"user.", XattrUse::Change), Err(FsErrorKind::Invalid));
        assert_eq!(kind(regular, b"user.a\0", XattrUse::Change), Err(FsErrorKind::Invalid));
        assert_eq!(kind(regular, b"", XattrUse::Change), Err(FsErrorKind::OutOfRange));
        assert_eq!(kind(regular, &[b'u'; 256], XattrUse::Change), Err(FsErrorKind::OutOfRange));
        assert_eq!(kind(regular, b"other.a", XattrUse::Change), Err(FsErrorKind::Unsupported));
        assert_eq!(kind(regular, b"system.x", XattrUse::Change), Err(FsErrorKind::Unsupported));
        assert_eq!(
            kind(FileKind::Symlink, b"user.a", XattrUse::Change),
            Err(FsErrorKind::NotPermitted)
        );
        assert_eq!(
            kind(FileKind::Symlink, b"user.a", XattrUse::Read),
            Err(FsErrorKind::NoAttribute)
        );
        assert_eq!(kind(regular, acl::ACCESS, XattrUse::Change), Ok(()));
        assert_eq!(
            kind(FileKind::Symlink, acl::ACCESS, XattrUse::Change),
            Err(FsErrorKind::Unsupported)
        );
        assert_eq!(kind(regular, acl::DEFAULT, XattrUse::Change), Err(FsErrorKind::NotPermitted));
        assert_eq!(kind(regular, acl::DEFAULT, XattrUse::Read), Err(FsErrorKind::NoAttribute));
        assert_eq!(kind(FileKind::Directory, acl::DEFAULT, XattrUse::Change), Ok(()));
    }
}
