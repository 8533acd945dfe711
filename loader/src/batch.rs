//! Finished batches: tensors and lists by output name.

use crate::decode::DType;
use crate::delivery::{Device, RowMemory, TensorMemory};
use crate::sync::Arc;

/// One batch, in plan order.
#[derive(Debug)]
pub struct Batch {
    /// Epoch of the batch.
    pub epoch: u64,
    /// Number of the batch in its epoch, counted from the epoch's first even after a resume.
    pub number: u64,
    /// Rows in every output: `batch_size`, or fewer in the last batch and if samples were skipped.
    pub rows: usize,
    /// Outputs in the order of the fields.
    pub outputs: Vec<(Arc<str>, Output)>,
    /// Numbers of the batch as a whole, such as the tokens of its longest sequence.
    pub numbers: Vec<(&'static str, i64)>,
    /// Rows of the batch in the plan, skipped ones included. A checkpoint counts these.
    pub(crate) planned_rows: u64,
}

impl Batch {
    /// The output called `name`.
    pub fn get(&self, name: &str) -> Option<&Output> {
        self.outputs.iter().find(|(n, _)| &**n == name).map(|(_, output)| output)
    }

    /// Marks the batch's memory as held by the consumer.
    pub(crate) fn hand_over(&self) {
        for (_, output) in &self.outputs {
            if let Output::Tensor(tensor) = output {
                tensor.memory().hand_over();
            }
        }
    }
}

/// One output of a batch.
#[derive(Debug)]
pub enum Output {
    /// Rows of equal shape, stacked: the first dimension is the row.
    Tensor(Tensor),
    /// UTF-8 text of each row.
    Text(Vec<String>),
    /// Bytes of each row.
    Bytes(Vec<RowBytes>),
    /// An array with its own shape for each row, in the encoding of an MDS `ndarray` with dynamic type and shape.
    Ragged(Vec<Vec<u8>>),
}

/// Bytes of one row.
#[derive(Debug)]
pub enum RowBytes {
    /// Bytes in the engine's memory.
    Engine(Vec<u8>),
    /// Memory from the consumer, completely filled: see [`RowAllocator`](crate::delivery::RowAllocator).
    Consumer(Box<dyn RowMemory>),
}

impl RowBytes {
    /// The bytes; `None` in the consumer's memory, which the engine only writes.
    pub fn host(&self) -> Option<&[u8]> {
        match self {
            Self::Engine(bytes) => Some(bytes),
            Self::Consumer(_) => None,
        }
    }
}

/// Dense row-major tensor that shares its batch's memory.
#[derive(Clone, Debug)]
pub struct Tensor {
    memory: Arc<dyn TensorMemory>,
    /// Offset of the first element in the memory, in bytes.
    offset: usize,
    dtype: DType,
    /// True if the elements are bytes 0 and 1 that mean false and true.
    is_bool: bool,
    shape: Vec<i64>,
}

impl Tensor {
    /// A tensor of `shape` and `dtype` that starts `offset` bytes into `memory`.
    pub(crate) fn new(memory: Arc<dyn TensorMemory>, offset: usize, dtype: DType, shape: Vec<i64>) -> Self {
        Self { memory, offset, dtype, is_bool: false, shape }
    }

    /// The tensor as truth values.
    pub(crate) fn of_bool(self) -> Self {
        Self { is_bool: true, ..self }
    }

    /// The tensor as unsigned integers with the bits of its elements.
    pub fn of_bits(self) -> Self {
        let dtype = match self.dtype.size() {
            1 => DType::UInt8,
            2 => DType::UInt16,
            4 => DType::UInt32,
            _ => DType::UInt64,
        };
        Self { dtype, is_bool: false, ..self }
    }

    /// Element type; `UInt8` for truth values, see [`is_bool`](Self::is_bool).
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// True if the elements are bytes 0 and 1 that mean false and true.
    pub fn is_bool(&self) -> bool {
        self.is_bool
    }

    /// Sizes, rows first.
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// Bytes of all elements.
    pub fn bytes(&self) -> usize {
        self.shape.iter().product::<i64>() as usize * self.dtype.size()
    }

    /// The device with the tensor in its memory.
    pub fn device(&self) -> Device {
        self.memory.device()
    }

    /// The memory that all tensors of the batch share.
    pub fn memory(&self) -> &Arc<dyn TensorMemory> {
        &self.memory
    }

    /// Address of the first element, on [`device`](Self::device). Valid while the tensor lives.
    pub fn address(&self) -> *mut u8 {
        self.memory.address().wrapping_add(self.offset)
    }

    /// The elements as bytes; `None` on a device.
    pub fn host(&self) -> Option<&[u8]> {
        self.memory.host().and_then(|all| all.get(self.offset..self.offset + self.bytes()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::error::Result;
    use crate::sync::Weak;
    use std::any::Any;

    #[derive(Debug)]
    struct Heap(Vec<u8>);

    impl TensorMemory for Heap {
        fn device(&self) -> Device {
            Device::Cpu
        }
        fn address(&self) -> *mut u8 {
            self.0.as_ptr().cast_mut()
        }
        fn host(&self) -> Option<&[u8]> {
            Some(&self.0)
        }
        fn order_before(&self, _consumer: Option<i64>) -> Result<()> {
            Ok(())
        }
        fn as_any(&self) -> &dyn Any {
            self
        }
    }

    /// A uint8 tensor and a weak reference to its memory.
    pub(crate) fn host_tensor(shape: &[i64]) -> (Tensor, Weak<dyn TensorMemory>) {
        let bytes = shape.iter().product::<i64>() as usize;
        let memory: Arc<dyn TensorMemory> = Arc::new(Heap((0..bytes as u8).collect()));
        let alive = Arc::downgrade(&memory);
        (Tensor::new(memory, 0, DType::UInt8, shape.to_vec()), alive)
    }

    #[test]
    fn tensors_of_one_batch_share_its_memory() {
        let (whole, alive) = host_tensor(&[6]);
        let part = Tensor::new(whole.memory().clone(), 2, DType::UInt8, vec![2, 2]);
        drop(whole);
        assert_eq!(part.host(), Some(&[2u8, 3, 4, 5][..]));
        let bits = Tensor { dtype: DType::BFloat16, shape: vec![2], ..part }.of_bits();
        assert_eq!((bits.dtype(), bits.host()), (DType::UInt16, Some(&[2u8, 3, 4, 5][..])));
        drop(bits);
        assert!(alive.upgrade().is_none());
    }
}
