//! Flow of work between threads: order, bounds, stop and failure. Locks come from `sync`, so that models try the orders
//! in which threads can run.
//!
//! * [`Run`]: stop flag, failure and progress of the threads of one run;
//! * [`ReorderQueue`]: items finish in any order and leave in order, a limited number ahead of the consumer;
//! * [`FairPool`]: a stock that serves requests in order of arrival; [`Budget`]: bytes that are reserved from one;
//! * [`Permits`]: a number of items in flight, which return their permits while they wait.
//!
//! ```
//! use forebay_core::flow::{ReorderQueue, Run, TakeOutcome};
//! use forebay_core::sync::{Arc, spawn};
//! use std::time::Duration;
//!
//! let (run, queue) = (Run::new(), Arc::new(ReorderQueue::new(2)));
//! let woken = queue.clone();
//! run.on_stop(move || woken.stop());
//! let (theirs, stage) = (queue.clone(), run.clone());
//! let body = move || {
//!     stage.guard("numbers", || {
//!         (0..3).filter(|number| theirs.wait_turn(*number)).for_each(|number| theirs.put(number, number * 10));
//!         theirs.end(3);
//!         Ok(())
//!     });
//! };
//! let producer = spawn("numbers", body)?;
//! let limit = Duration::from_secs(60);
//! for number in [0, 10, 20] {
//!     assert_eq!(queue.take(limit), TakeOutcome::Item(number));
//! }
//! assert_eq!(queue.take(limit), TakeOutcome::End);
//! producer.join().expect("no panic");
//! assert!(run.failure().is_none());
//! # Ok::<(), std::io::Error>(())
//! ```

mod budget;
mod fair_pool;
mod permits;
mod reorder;
mod run;

pub use budget::{Budget, Reservation};
pub use fair_pool::{Closed, FairPool};
pub use permits::{HeldPermit, Permits};
pub use reorder::{ReorderQueue, TakeOutcome};
pub use run::Run;
