//! Tests of all readers, and the simulated reader that takes part in them.

mod contract;
mod sim;
