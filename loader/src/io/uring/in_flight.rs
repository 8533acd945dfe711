//! The table of reads that the kernel may be working on.
//!
//! Whatever the kernel may touch, slot and descriptor, is owned here from before the call is put into the ring until its
//! result has come out, whether the read succeeds, fails, or nobody wants it any more.

use super::super::op::Op;

/// Reads by index; the index is the call's `user_data`.
#[derive(Debug)]
pub(super) struct InFlight {
    slots: Vec<Option<Op>>,
    free: Vec<u32>,
}

impl InFlight {
    pub(super) fn new(depth: usize) -> Self {
        Self { slots: (0..depth).map(|_| None).collect(), free: (0..depth as u32).rev().collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a read in; the read itself when the table is full.
    pub(super) fn insert(&mut self, op: Op) -> Result<u32, Op> {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(op);
                Ok(index)
            }
            None => Err(op),
        }
    }

    pub(super) fn get_mut(&mut self, index: u32) -> Option<&mut Op> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Takes a read out, after its last result.
    pub(super) fn remove(&mut self, index: u32) -> Option<Op> {
        let op = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(op)
    }

    /// Gives up everything for good: the kernel may still write there.
    pub(super) fn leak(&mut self) {
        self.slots.drain(..).flatten().for_each(std::mem::forget);
        self.free.clear();
    }
}
