//! Memory of the caller that fetches fill.

use bytes::BytesMut;
use std::any::Any;

/// Memory that a fetch fills. Each of its parts is filled on a fetch thread, and the last one to end joins them.
pub trait FetchMemory: Send + 'static {
    /// Returns all of it.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Splits off the first `bytes`, at most as many as there are. This value keeps the rest.
    fn split_front(&mut self, bytes: usize) -> Box<dyn FetchMemory>;

    /// Appends `next`, which was split off of the same memory and follows this part.
    fn join(&mut self, next: Box<dyn FetchMemory>);

    /// Returns the concrete type.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;
}

impl FetchMemory for BytesMut {
    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }

    fn split_front(&mut self, bytes: usize) -> Box<dyn FetchMemory> {
        Box::new(self.split_to(bytes))
    }

    fn join(&mut self, next: Box<dyn FetchMemory>) {
        // Adjacent parts are joined without a copy.
        if let Ok(next) = next.into_any().downcast::<Self>() {
            self.unsplit(*next);
        }
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
