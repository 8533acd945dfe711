//! Features that only a device target has.
//!
//! `decode` hands batches to a device that decodes pictures, and `split` decides which pictures decode threads take all the same.
//! `direct_rows` sends rows to the device before their batch is filled; `direct_storage` reads such rows right from their shards.

pub(crate) mod decode;
pub(crate) mod direct_rows;
pub(crate) mod direct_storage;
pub(crate) mod split;
