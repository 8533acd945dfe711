//! Memory for samples and batches: bounded, taken at start, leased, and returned by dropping the lease.
//!
//! ```text
//!  default_bytes, split      sizes of the pools                                                (budget)
//!        |
//!   Mapping                  anonymous pages: placed on a node, populated in the background     (map, populate)
//!        |
//!   Slab                     mappings of at most 1 GiB, divided into runs of blocks                (slab, piece)
//!        |          \
//!   ReadPool         BatchPool                                                      (read, batch, batch_stock)
//!    ReadLease        BatchSlot -> RowMut ... -> BatchMemory                                    (slot)
//!    encoded bytes    rows are written into it, then the slot is frozen and delivered
//! ```
//!
//! * **Read slots** hold encoded bytes between the kernel, which reads into them, and the decode threads. Forked
//!   children do not inherit them, since the kernel may be writing into them, and they can be registered with a ring. A
//!   slot is as long as its sample plus a block for the rounding of O_DIRECT. Users never see one.
//! * Both pools consist of runs of blocks instead of slots of one size: samples differ in size by a factor of a
//!   hundred.
//! * **Batch slots** become tensors. They are ordinary memory, since users keep batches, copy them to devices and fork.
//! * Each NUMA node with decode threads has its own read pool. There is a single batch pool. Its slab has a part on
//!   each of these nodes: one queue grants its slots in plan order, from the nodes in turn. A device's batches are on
//!   the device's node.
//! * Requests for batch slots wait in order of arrival ([`FairPool`](forebay_core::flow::FairPool)). This is plan
//!   order, because a single thread makes them. A read thread does not wait for slots, since it returns those in flight
//!   itself.
//! * A request that no slot can hold gets a separate mapping, counted; read slots one at a time.
//! * Files are mapped for two purposes: to find out which of their pages are in the page cache ([`page_cache`]), and to
//!   copy small samples, if configured, under a file lease that keeps all processes from changing the file
//!   (`leased`).
//! * Large memory of different owners, such as objects of Python, asks for huge pages (`huge_pages`). The pools do not:
//!   their pages are populated once.
//! * A [`Budget`](forebay_core::flow::Budget) bounds bytes that are not slots: the shard plane's downloads.
//!
//! Ownership: a lease keeps its pool's slab alive, so a pool may be dropped while tensors live. Memory that is not
//! leased returns to the system at once, the rest when its lease is dropped. In a forked child the drop of a lease does
//! nothing.

mod batch;
mod batch_stock;
mod budget;
mod file_map;
mod huge_pages;
pub(crate) mod leased;
mod map;
pub mod page_cache;
mod piece;
mod populate;
mod read;
mod register;
mod slab;
mod slot;

#[cfg(test)]
mod tests;

pub use batch::{BatchPool, BatchPoolConfig};
pub use budget::{Split, default_bytes, split};
pub use huge_pages::prefer_huge_pages;
pub use piece::Piece;
pub use read::{ReadLease, ReadPool, ReadPoolConfig};
pub use register::{Registrar, Registration};
pub use slab::{BLOCK_BYTES, PIECE_BYTES_MAX};
pub use slot::{BatchMemory, BatchSlot, RowMut};
