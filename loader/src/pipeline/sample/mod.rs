//! The sample plane: small, random, always.
//!
//! * `decode`: the decode threads. They read samples that are in the `page_cache`, decode them (`decoder`), and pass
//!   the rest to the read threads.
//! * `read`: the read threads, which read samples from disk; `loose_reads`: the reads of samples with their own files
//!   and of `large` ones; `miss`: the samples.
//! * `batch_layout`, `batch_builder`: the layout of a batch and the batch while it is filled.
//! * `stored_columns`: columns with rows that are read directly into their destination.
//! * `pack_layout`: packs of documents, which are made of the rows of a batch; `pack_forms`: their outputs.
//! * `row_marks`: outputs that the plan gives, and not the sample.
//! * `place`: filled batches to the consumer.
//! * `consumer_memory`: rows of bytes in the consumer's own memory.
//! * `offload`: the work that a device takes over, if there is one.
//!
//! A sample that is in the page cache is read by the decode thread itself. Only misses go to the thread with the ring,
//! because through the ring a cached sample would change threads twice for one copy. Data that fits into half of the
//! memory is read through the page cache, larger data with O_DIRECT. Residency in the page cache is queried before a
//! read (see [`page_cache`](crate::memory::page_cache)).

pub(crate) mod batch_builder;
pub(crate) mod batch_layout;
pub(crate) mod consumer_memory;
pub(crate) mod decode;
mod decoder;
pub(crate) mod large;
mod loose_reads;
pub(crate) mod miss;
pub(crate) mod offload;
mod pack_forms;
pub(crate) mod pack_layout;
pub(crate) mod page_cache;
pub(crate) mod place;
pub(crate) mod read;
pub(crate) mod row_marks;
pub(crate) mod stored_columns;
