//! Table of the reads that the kernel may be working on.
//!
//! Slot and descriptor of a read are owned here from before its call enters the ring until its result is there, whether
//! the read succeeds, fails, or is not needed any more.

use super::super::op::ReadOp;

/// Reads by index; the index is the call's `user_data`.
#[derive(Debug)]
pub(super) struct InFlight {
    slots: Vec<Option<ReadOp>>,
    free: Vec<u32>,
}

impl InFlight {
    pub(super) fn new(depth: usize) -> Self {
        Self { slots: (0..depth).map(|_| None).collect(), free: (0..depth as u32).rev().collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a read; returns it if the table is full.
    pub(super) fn insert(&mut self, op: ReadOp) -> Result<u32, ReadOp> {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(op);
                Ok(index)
            }
            None => Err(op),
        }
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut ReadOp> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Removes a read, after its last result.
    pub(super) fn remove(&mut self, index: u32) -> Option<ReadOp> {
        let op = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(op)
    }

    /// Leaks all reads, because the kernel may still write to their slots.
    pub(super) fn leak(&mut self) {
        self.slots.drain(..).flatten().for_each(std::mem::forget);
        self.free.clear();
    }
}
