//! Measurements, one per file. Each takes its arguments and returns a [`Report`](crate::report::Report).

pub(crate) mod accuracy;
pub(crate) mod checkpoint;
mod child;
pub(crate) mod counts;
pub(crate) mod decode;
pub(crate) mod disk;
pub(crate) mod dropin;
pub(crate) mod evict;
pub(crate) mod ffi;
pub(crate) mod files;
mod megatron;
pub(crate) mod operations;
pub(crate) mod order;
pub(crate) mod peers;
pub(crate) mod pipeline;
mod reads;
mod recipe;
mod s3_clients;
mod samples;
pub(crate) mod scaling;
mod served;
pub(crate) mod store;
pub(crate) mod text;
pub(crate) mod tokens;
