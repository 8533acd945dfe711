//! One owner of a loader's iteration: the epoch, the batches that were taken, and the iterator that takes them.
//!
//! A [`Session`] drives the engines of a loader, one for each device, and serves programs in which signal handlers and
//! several threads use one loader. It knows nothing of Python: items are opaque, and an engine is a trait.
//!
//! * [`Engine`]: the calls that a session needs; [`SavedState`]: the position that an engine saves;
//! * `machine`, `batches`: the states and their transitions, without engines, locks or waits; `pass`: the states
//!   of one iterator;
//! * `iteration`: the session; `trainer`: epochs as a trainer counts them;
//! * `skips`, `budget`: samples that an epoch may leave out;
//! * `moves`: starts, loads and seeks, which the engines take part in;
//! * `taken`: a batch from the call that takes it to its delivery; `ahead`: batches that are taken before their call;
//! * `turn`: the order of threads that use the engines.
//!
//! # States
//!
//! The engines are *idle* at the start of an epoch or at a loaded position, *fresh* when the epoch was started and no
//! batch was asked for, or *used*. A **pass** is one iterator: at most one is live, and a number names it, so a call of
//! an older one fails. Batches of a pass are numbered from 0 and held by the session until they are delivered: a batch
//! is *in flight* while a call works on it, else *waiting*, because its call has failed or because it was taken ahead.
//! The next call begins with the first batch that waits.
//!
//! | event | idle | fresh | used |
//! | - | - | - | - |
//! | `begin` | starts the epoch | a new pass, the same epoch | ends the pass, starts the next epoch |
//! | `begin` after `show` | | the same pass, unless a different epoch was named | |
//! | `take` | | uses the epoch, drops the loaded position | a batch that waits, or a new one |
//! | `show` (a take) | | stays fresh: the batch waits | as `take` |
//! | the end is found | | used | the pass is over |
//! | `release`, an error, an interrupt | | the batch waits | the batch waits |
//! | the pass is closed | | idle, at the same position | the batches that wait are dropped; they do not count |
//! | the pass is dropped | | stays fresh, for the next pass | as for closed |
//! | `set_epoch`, `follow_trainer` | names the next epoch | starts it, the pass moves along | names the next epoch |
//! | `load`, `seek` | idle at the position | idle; ends the pass | idle; ends the pass |
//! | `close` | all calls fail | all calls fail | all calls fail |
//!
//! # Interrupts
//!
//! Each transition is one call, which no signal handler can divide. A wait is a sequence of short calls, between which
//! the program may run its handlers: no lock is held there, so a handler may use the session in any way. Batches move
//! from an engine into the session within a call, and an interrupt leaves them there: [`Taken`] releases its batch
//! when it is dropped, and can take back a delivery that did not arrive.
//!
//! # Locks
//!
//! The machine's lock is held for instants: never while an engine works, while items are dropped, or across code of the
//! program. So `state` never waits for a thread that works. The *turn* is held while the engines start, move or
//! deliver, and by one thread at a time. A thread that waits stores each batch that an engine delivers as
//! the first one without items, also if a different thread waits for that batch. So the numbers are the engines'
//! order.

mod ahead;
mod batches;
mod budget;
mod engine;
mod iteration;
mod machine;
#[cfg(test)]
mod models;
mod moves;
mod pass;
#[cfg(test)]
mod scripted;
mod skips;
mod taken;
#[cfg(test)]
mod tests;
mod trainer;
mod turn;

pub use ahead::Ahead;
pub use batches::HeldBatch;
pub use budget::SkipLimit;
pub use engine::{Engine, Held, Next, SavedState};
pub use iteration::{Session, Setup};
pub use moves::{MoveTurn, PassHandle};
pub use taken::{Step, Take, Taken};
pub use trainer::TrainerPosition;
