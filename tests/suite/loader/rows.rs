//! Rows of bytes in the consumer's memory.

use super::*;
use forebay_loader::batch::RowBytes;
use forebay_loader::delivery::{Delivery, Device, HostDelivery, RowAllocator, RowMemory, TensorMemory};
use forebay_loader::memory::{BatchMemory, Registrar};
use forebay_loader::{Error, ErrorKind, Result};
use std::any::Any;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

/// Allocates at most `left` rows, and records the calling threads.
#[derive(Debug)]
struct Consumer {
    left: Mutex<usize>,
    asked_by: Mutex<Vec<ThreadId>>,
}

#[derive(Debug)]
struct Given(Box<[MaybeUninit<u8>]>);

impl RowMemory for Given {
    fn bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        &mut self.0
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl RowAllocator for Consumer {
    fn allocate(&self, lengths: &[Option<usize>]) -> Result<Vec<Option<Box<dyn RowMemory>>>> {
        self.asked_by.lock().expect("no panic").push(std::thread::current().id());
        let row = |length: usize| {
            let mut left = self.left.lock().expect("no panic");
            *left =
                left.checked_sub(1).ok_or_else(|| Error::new(ErrorKind::Full, "the consumer has no more memory"))?;
            Ok(Box::new(Given(Box::new_uninit_slice(length))) as Box<dyn RowMemory>)
        };
        lengths.iter().map(|length| length.map(row).transpose()).collect()
    }
}

impl Delivery for Consumer {
    fn device(&self) -> Device {
        Device::Cpu
    }
    fn registrar(&self) -> Option<&dyn Registrar> {
        None
    }
    fn row_allocator(&self) -> Option<&dyn RowAllocator> {
        Some(self)
    }
    fn deliver(&self, filled: BatchMemory, bytes: usize) -> Result<Arc<dyn TensorMemory>> {
        HostDelivery.deliver(filled, bytes)
    }
}

/// A loader over files of 1 to `samples` bytes with a class each, and a consumer with memory for `rows` rows.
fn loader(dir: &Path, samples: u8, rows: usize) -> (Loader, Arc<Consumer>) {
    let files = (0..samples).map(|i| Ok((vec![i; 1 + usize::from(i)], i64::from(i))));
    let options = Options { size_limit: Some(1 << 10), ..Options::default() };
    forebay_tests::data::images(dir, files, options).expect("a data set");
    let consumer = Arc::new(Consumer { left: Mutex::new(rows), asked_by: Mutex::default() });
    (Loader::with_delivery(config(stream(Some(dir), None)), consumer.clone()).expect("a loader"), consumer)
}

#[test]
fn every_row_is_allocated_at_its_length_by_the_consumers_thread() {
    let dir = tempfile::tempdir().unwrap();
    let (loader, consumer) = loader(dir.path(), 100, 100);
    let mut rows = 0;
    for batch in epoch(&loader) {
        let Some(Output::Bytes(files)) = batch.get("image") else { panic!("no bytes") };
        let Some(Output::Tensor(classes)) = batch.get("class") else { panic!("no classes") };
        let classes = classes.host().unwrap().as_chunks::<8>().0.iter().map(|c| i64::from_le_bytes(*c));
        for (file, class) in files.iter().zip(classes) {
            let RowBytes::Consumer(_) = file else { panic!("a row in the engine's memory: {file:?}") };
            let memory = format!("{file:?}");
            assert_eq!(memory.matches("MaybeUninit").count(), 1 + class as usize, "{memory}");
            rows += 1;
        }
    }
    assert_eq!((rows, *consumer.left.lock().unwrap()), (100, 0));
    let here = std::thread::current().id();
    assert!(consumer.asked_by.lock().unwrap().iter().all(|thread| *thread == here));
}

#[test]
fn a_consumer_without_memory_ends_the_epoch_with_its_own_error() {
    let dir = tempfile::tempdir().unwrap();
    let (loader, _) = loader(dir.path(), 100, 40);
    loader.start_epoch().unwrap();
    let error = loop {
        match loader.next() {
            Ok(Next::Batch(_)) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("no more memory"), "{error}");
}
