//! Codes of findings with a remedy of their own.

use eraseblock_base::{Code, Remedy};

/// Blocks after the end of the image have UBI headers.
pub const AFTER_END_MARK: Code = Code::new("after-end-mark", Remedy::Rescue);
/// The copy of a moved LEB is incomplete; the original is used.
pub const COPY_INCOMPLETE: Code = Code::new("copy-incomplete", Remedy::Mount);
/// The erase counter of an eraseblock is lost.
pub const EC_HEADER_DAMAGED: Code = Code::new("ec-header-damaged", Remedy::Device);
/// A fastmap is refused; all eraseblocks are scanned.
pub const FASTMAP_UNUSABLE: Code = Code::new("fastmap-unusable", Remedy::Mount);
/// An internal volume of an unknown kind.
pub const INTERNAL_VOLUME: Code = Code::new("internal-volume", Remedy::Device);
/// A run of eraseblocks without any UBI header.
pub const NO_UBI_HEADERS: Code = Code::new("no-ubi-headers", Remedy::Device);
/// An eraseblock with data and a damaged VID header.
pub const PEB_CORRUPTED: Code = Code::new("peb-corrupted", Remedy::Lost);
/// The data of a static volume has a wrong checksum.
pub const STATIC_DATA_CORRUPT: Code = Code::new("static-data-corrupt", Remedy::Lost);
/// A LEB of a static volume is missing.
pub const STATIC_VOLUME_INCOMPLETE: Code = Code::new("static-volume-incomplete", Remedy::Device);
/// The copies of the volume table differ.
pub const TABLE_COPY_DIFFERS: Code = Code::new("table-copy-differs", Remedy::Mount);
/// A copy of the volume table is missing.
pub const TABLE_COPY_LOST: Code = Code::new("table-copy-lost", Remedy::Mount);
/// A record of the volume table is damaged.
pub const TABLE_RECORD_DAMAGED: Code = Code::new("table-record-damaged", Remedy::Device);
/// More eraseblocks are corrupted than Linux accepts.
pub const TOO_MANY_CORRUPTED_PEBS: Code = Code::new("too-many-corrupted-pebs", Remedy::Device);
/// A VID header that a power cut cut short.
pub const VID_HEADER_TORN: Code = Code::new("vid-header-torn", Remedy::Mount);
/// Eraseblocks of a volume that the table does not name.
pub const VOLUME_WITHOUT_RECORD: Code = Code::new("volume-without-record", Remedy::Device);
