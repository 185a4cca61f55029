//! Structures byte for byte: numbers of fixed byte order, and structures of them.
//!
//! Every bit pattern is a legal value, so reading can only fail for lack of bytes. The format crates
//! decide what is valid.

use crate::field::{Field, Repr};

/// A value of a fixed number of bytes.
pub trait Raw: Copy {
    /// The number of bytes.
    const SIZE: usize;

    /// How its bytes are read.
    const REPR: Repr;

    /// The fields, if it is a structure: they tile its bytes.
    const FIELDS: &'static [Field] = &[];

    /// Returns the value whose bytes are all zero.
    fn zeroed() -> Self;

    /// Reads the value from the first [`Self::SIZE`] bytes.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer; [`Self::split`] checks.
    fn get(bytes: &[u8]) -> Self;

    /// Writes the value to the first [`Self::SIZE`] bytes.
    ///
    /// # Panics
    ///
    /// Panics if there are fewer.
    fn put(&self, bytes: &mut [u8]);

    /// Returns the value that starts the bytes, and the bytes after it; `None` if there are too few.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (own, rest) = bytes.split_at_checked(Self::SIZE)?;
        Some((Self::get(own), rest))
    }
}

impl Raw for u8 {
    const SIZE: usize = 1;
    const REPR: Repr = Repr::Little;

    fn zeroed() -> Self {
        0
    }

    fn get(bytes: &[u8]) -> Self {
        bytes[0]
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[0] = *self;
    }
}

impl<const N: usize> Raw for [u8; N] {
    const SIZE: usize = N;
    const REPR: Repr = Repr::Bytes;

    fn zeroed() -> Self {
        [0; N]
    }

    fn get(bytes: &[u8]) -> Self {
        *bytes.first_chunk().expect("the caller gives enough bytes")
    }

    fn put(&self, bytes: &mut [u8]) {
        bytes[..N].copy_from_slice(self);
    }
}

macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident: $native:ty, $from:ident, $to:ident, $repr:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name([u8; size_of::<$native>()]);

        impl $name {
            /// Returns the number.
            pub const fn get(self) -> $native {
                <$native>::$from(self.0)
            }

            /// Replaces the number.
            pub const fn set(&mut self, number: $native) {
                self.0 = number.$to();
            }
        }

        impl super::Raw for $name {
            const SIZE: usize = size_of::<$native>();
            const REPR: $crate::field::Repr = $crate::field::Repr::$repr;

            fn zeroed() -> Self {
                Self([0; size_of::<$native>()])
            }

            fn get(bytes: &[u8]) -> Self {
                Self(super::Raw::get(bytes))
            }

            fn put(&self, bytes: &mut [u8]) {
                super::Raw::put(&self.0, bytes);
            }
        }
    )*};
}

/// Numbers with the lowest byte first.
pub mod little_endian {
    numbers! {
        /// 16 bits.
        U16: u16, from_le_bytes, to_le_bytes, Little;
        /// 32 bits.
        U32: u32, from_le_bytes, to_le_bytes, Little;
        /// 64 bits.
        U64: u64, from_le_bytes, to_le_bytes, Little;
    }
}

/// Numbers with the highest byte first.
pub mod big_endian {
    numbers! {
        /// 16 bits.
        U16: u16, from_be_bytes, to_be_bytes, Big;
        /// 32 bits.
        U32: u32, from_be_bytes, to_be_bytes, Big;
        /// 64 bits.
        U64: u64, from_be_bytes, to_be_bytes, Big;
    }
}

/// Defines a structure with a [`Raw`] field at each offset. The compiler checks that the fields
/// cover the structure without gaps. `= Hex` after a type says how [`Raw::FIELDS`] shows the field
/// ([`crate::field::Show`]).
#[macro_export]
macro_rules! raw {
    (@show $type:ty) => {
        $crate::field::Show::usual(<$type as $crate::raw::Raw>::REPR)
    };
    (@show $type:ty, $show:ident) => {
        $crate::field::Show::$show
    };
    (
        $(#[$meta:meta])* $name:ident, $size:literal,
        { $($(#[$field_meta:meta])* $field:ident @ $offset:literal : $type:ty $(= $show:ident)?,)* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug)]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        const _: () = {
            assert!(size_of::<$name>() == $size);
            assert!(align_of::<$name>() == 1);
            let mut end = 0;
            $(
                assert!($offset == end && core::mem::offset_of!($name, $field) == end);
                end += <$type as $crate::raw::Raw>::SIZE;
            )*
            assert!(end == $size);
        };

        impl $name {
            /// Length on flash, without what follows the fixed part.
            pub const SIZE: usize = $size;

            /// Returns the bytes on flash.
            pub fn to_bytes(self) -> [u8; $size] {
                let mut bytes = [0; $size];
                $crate::raw::Raw::put(&self, &mut bytes);
                bytes
            }
        }

        impl $crate::raw::Raw for $name {
            const SIZE: usize = $size;
            const REPR: $crate::field::Repr = $crate::field::Repr::Bytes;
            const FIELDS: &'static [$crate::field::Field] = &[
                $($crate::field::Field::raw::<$type>(
                    stringify!($field),
                    $offset,
                    $crate::raw!(@show $type $(, $show)?),
                ),)*
            ];

            fn zeroed() -> Self {
                Self { $($field: $crate::raw::Raw::zeroed(),)* }
            }

            fn get(bytes: &[u8]) -> Self {
                Self { $($field: $crate::raw::Raw::get(&bytes[$offset..]),)* }
            }

            fn put(&self, bytes: &mut [u8]) {
                $($crate::raw::Raw::put(&self.$field, &mut bytes[$offset..]);)*
            }
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro defines public structures")]
mod tests {
    use super::{Raw, big_endian, little_endian};

    raw!(
        /// A structure of every kind of field.
        Sample, 11, {
            /// A byte
            byte @ 0: u8,
            /// Lowest first
            little @ 1: little_endian::U32,
            /// Highest first
            big @ 5: big_endian::U16,
            /// Bytes
            bytes @ 7: [u8; 3],
            /// A byte
            last @ 10: u8,
        }
    );

    #[test]
    fn fields_are_where_the_offsets_say() {
        let bytes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        let (mut sample, rest) = Sample::split(&bytes).unwrap();
        assert_eq!((sample.byte, sample.little.get()), (1, 0x0504_0302));
        assert_eq!((sample.big.get(), sample.bytes, sample.last), (0x0607, [8, 9, 10], 11));
        assert_eq!((rest, &sample.to_bytes()[..]), (&[12][..], &bytes[..Sample::SIZE]));
        sample.big.set(0xABCD);
        assert_eq!(sample.to_bytes()[5..7], [0xAB, 0xCD]);
        assert_eq!(Sample::zeroed().to_bytes(), [0; 11]);
    }

    #[test]
    fn too_few_bytes_are_no_structure() {
        assert!(Sample::split(&[0; 10]).is_none());
        assert!(little_endian::U64::split(&[0; 7]).is_none());
    }
}
