//! Reads with io_uring: a deep queue at a tenth of the CPU time of as many threads.
//!
//! * `reader`: the implementation of [`Reader`](super::Reader). It owns the memory and descriptors that the kernel may
//!   use, until the kernel has reported the result;
//! * `probe`: checks that this process may use a ring; `refusal`: the errors if it may not;
//! * `ring`: the ring itself, with every call that is unsafe or has error numbers.
//!
//! The ring is created disabled, so that the reader can move to its thread. The first use enables it, and from then on
//! it belongs to that thread. The pool's pieces are registered one by one, as the background thread populates them: the
//! registration of a piece without pages would populate it first, which takes seconds for a large pool.
//!
//! Order of the shutdown: drain, then close, then unmap.

mod probe;
mod reader;
mod refusal;
mod ring;
#[cfg(test)]
mod tests;

pub use probe::probe;
pub(super) use reader::UringReader;
