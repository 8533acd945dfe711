//! The Python extension module.
