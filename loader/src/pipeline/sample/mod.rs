//! The sample plane: small, random, always.
//!
//! `decode` takes chunks and decodes what the page cache has, which `hot` reads; `read` brings the rest from disk; `collate` is
//! a batch while it is filled, and `finish` hands it to its target when the last row is in; `place` does that where the
//! target decodes pictures itself, and `share` says which of them decode threads take all the same. `given` is memory that the
//! consumer gives for rows. `early` has rows go to the target before their batch, and `stored` brings them right from their shards.

pub(crate) mod batch_builder;
pub(crate) mod consumer_memory;
pub(crate) mod decode;
pub(crate) mod deliver;
pub(crate) mod page_cache;
pub(crate) mod read;
