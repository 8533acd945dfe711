//! Macros that the kernels of the JPEG decoder and of the resize share.

/// Makes a table of `$count` values, as [`std::array::from_fn`] does, in a constant.
macro_rules! table {
    ($count:expr, |$i:ident| $value:expr) => {{
        let mut $i = 0;
        let mut table = [$value; $count];
        while $i < $count {
            table[$i] = $value;
            $i += 1;
        }
        table
    }};
}

/// Runs the kernel of a [`Level`](super::vectors::Level): `dispatch!(level, name(arguments))`.
///
/// The level comes from [`Vectors`](super::vectors::Vectors), and the calling module has a child module for each level.
macro_rules! dispatch {
    ($level:expr, $name:ident($($argument:expr),*)) => {
        match $level {
            Level::Portable => portable::$name($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the machine has AVX2 and the features that this level includes (invariant of `Vectors`).
            Level::Avx2 => unsafe { avx2::$name($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the machine has the parts of AVX-512 that this level includes (invariant of `Vectors`).
            Level::Avx512 => unsafe { avx512::$name($($argument),*) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: the machine has NEON (invariant of `Vectors`).
            Level::Neon => unsafe { neon::$name($($argument),*) },
        }
    };
}

/// Defines kernels that are the portable ones, compiled with `$features`.
macro_rules! portable_with {
    ($features:literal: $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[target_feature(enable = $features)]
        pub(super) fn $name($($argument: $type),*) $(-> $result)? {
            portable::$name($($argument),*)
        }
    )*};
}

/// Defines functions that load a vector from an array, which needs no alignment beyond its values'.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! loads {
    ($features:literal: $($name:ident([$value:ty; $count:literal]) -> $vector:ty = $intrinsic:ident;)*) => {$(
        #[inline]
        #[target_feature(enable = $features)]
        fn $name(values: &[$value; $count]) -> $vector {
            const { assert!(size_of::<[$value; $count]>() == size_of::<$vector>()) };
            // SAFETY: the reference covers the vector's bytes, and the load needs no alignment beyond a value's.
            unsafe { $intrinsic(values.as_ptr().cast()) }
        }
    )*};
}

/// Defines functions that store a vector to an array, which needs no alignment beyond its values'.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! stores {
    ($features:literal: $($name:ident([$value:ty; $count:literal], $vector:ty) = $intrinsic:ident;)*) => {$(
        #[inline]
        #[target_feature(enable = $features)]
        fn $name(values: &mut [$value; $count], vector: $vector) {
            const { assert!(size_of::<[$value; $count]>() == size_of::<$vector>()) };
            // SAFETY: the reference covers the vector's bytes, and the store needs no alignment beyond a value's.
            unsafe { $intrinsic(values.as_mut_ptr().cast(), vector) }
        }
    )*};
}

pub(super) use {dispatch, portable_with, table};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use {loads, stores};
