//! The error types of the layers below: the one list of those that become an [`Error`], have a class,
//! or have a cause that `source` does not return.

use super::Error;
use super::cause::AnyError;
use eraseblock_base::ErrorClass;

/// What a type of error says about itself, where the list below says that it does.
#[derive(Clone, Copy, Default)]
pub(super) struct Facts<'e> {
    /// How to react.
    pub(super) class: Option<ErrorClass>,
    /// The cause, whose message is part of that of the error.
    pub(super) cause: Option<&'e AnyError>,
}

macro_rules! fact {
    (class, $error:ident) => {
        Some($error.class())
    };
    (cause, $error:ident) => {
        $error.get_ref().map(|cause| cause as &AnyError)
    };
}

macro_rules! from {
    (From, $(#[$cfg:meta])* $type:ty) => {
        $(#[$cfg])*
        impl From<$type> for Error {
            fn from(error: $type) -> Self {
                Self::of(&error)
            }
        }
    };
    (None, $(#[$cfg:meta])* $type:ty) => {};
}

macro_rules! layers {
    ($($(#[$cfg:meta])* $from:ident $type:ty: $($fact:ident)*;)*) => {
        $(from!($from, $(#[$cfg])* $type);)*

        /// Returns what is known of an error of one of the layers.
        pub(super) fn facts(error: &AnyError) -> Facts<'_> {
            $(
                $(#[$cfg])*
                if let Some(_error) = error.downcast_ref::<$type>() {
                    #[allow(clippy::needless_update)] // some types have all facts
                    return Facts { $($fact: fact!($fact, _error),)* ..Facts::default() };
                }
            )*
            Facts::default()
        }
    };
}

layers! {
    From eraseblock_base::GeometryError:;
    From eraseblock_jffs2::Jffs2Error: class cause;
    From eraseblock_jffs2::mkfs::MkfsError: class cause;
    From eraseblock_mtd::MtdError: class cause;
    From eraseblock_mtd::OpenError: cause;
    From eraseblock_ubi::DetectError: cause;
    From eraseblock_ubi::UbiError: class cause;
    From eraseblock_ubi::image::ImageError: cause;
    From eraseblock_ubi_format::LayoutError:;
    From eraseblock_ubifs::UbifsError: class cause;
    From eraseblock_vfs::FsError: cause;
    From eraseblock_yaffs::YaffsError: class cause;
    From eraseblock_yaffs::mkfs::MkfsError: class cause;
    None std::io::Error: cause;
    None eraseblock_mtd::ReadError: cause;
    #[cfg(feature = "axfs")]
    From eraseblock_axfs::mkfs::MkfsError: class cause;
    #[cfg(feature = "axfs")]
    From eraseblock_axfs::AxfsError: class cause;
    #[cfg(feature = "logfs")]
    From eraseblock_logfs::LogfsError: class cause;
    #[cfg(feature = "squashfs")]
    From eraseblock_squashfs::SquashfsError: class cause;
    #[cfg(feature = "write")]
    From eraseblock_ubifs::mkfs::MkfsError: class cause;
    #[cfg(feature = "cards")]
    From eraseblock_card::CardError: class cause;
    #[cfg(feature = "chips")]
    From eraseblock_nandsim::ChipFileError: class cause;
    #[cfg(feature = "repair")]
    From eraseblock_repair::RepairError: class cause;
    #[cfg(any(feature = "build", feature = "extract"))]
    From eraseblock_tree::TreeError: class cause;
    #[cfg(feature = "host")]
    From eraseblock_mtd_host::BlockError: cause;
    #[cfg(feature = "host")]
    From eraseblock_mtd_host::HostError: cause;
    #[cfg(feature = "census")]
    None eraseblock_census::text::TextError: cause;
    #[cfg(feature = "nand")]
    None eraseblock_nand_recipe::RecipeError: cause;
    #[cfg(feature = "fuse")]
    None eraseblock_fuse::MountError: cause;
    #[cfg(feature = "nfs")]
    None eraseblock_nfs::ServerError: cause;
    #[cfg(feature = "lab")]
    None eraseblock_lab::figures::FigureError: cause;
    #[cfg(feature = "lab")]
    None eraseblock_lab::figures::side_by_side::SideError: cause;
}
