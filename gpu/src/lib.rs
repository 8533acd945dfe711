//! Batches on the GPU.
