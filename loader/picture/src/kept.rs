//! Buffers that are kept from one picture to the next.

/// Larger buffers are released after their picture: one huge picture must not keep its memory in every thread.
const KEPT_BYTES: usize = 64 << 20;

/// Grows `buffer` to at least `len` values, contents unspecified (new ones are `value`), and releases the memory of a
/// far larger picture.
pub fn fit<T: Copy>(buffer: &mut Vec<T>, len: usize, value: T) {
    let kept = KEPT_BYTES / size_of::<T>();
    if buffer.len() < len {
        buffer.resize(len, value);
    } else if buffer.len() > kept && len <= kept {
        buffer.truncate(len);
        buffer.shrink_to_fit();
    }
}

/// Releases the memory of a far larger picture. The next picture of that size allocates again.
pub fn release<T>(buffer: &mut Vec<T>) {
    if buffer.capacity() > KEPT_BYTES / size_of::<T>() {
        *buffer = Vec::new();
    }
}
