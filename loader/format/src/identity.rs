//! Equality and hashes of values behind trait objects.

use std::any::Any;

/// Equality of a value with a value of any type. Every type with [`PartialEq`] has it.
pub trait Identity: Any {
    /// Returns true if `other` has the same type and is equal.
    fn is_equal(&self, other: &dyn Any) -> bool;
}

impl<T: PartialEq + Any> Identity for T {
    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<T>().is_some_and(|other| self == other)
    }
}
