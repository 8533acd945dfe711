//! The array encoding: `ndarray`, `ndarray:<dtype>`, `ndarray:<dtype>:<d0>,<d1>,...`.
//!
//! ```text
//! any dtype, any shape   : u8 dtype | u8 (axes << 2 | s) | axes * width(s) shape | values
//! fixed dtype, any shape :            u8 (axes << 2 | s) | axes * width(s) shape | values
//! fixed dtype and shape  :                                                         values
//! ```
//!
//! `s` is 0, 1, 2 or 3 for a shape of u8, u16, u32 or u64, the narrowest that holds the largest dimension.
//!
//! Some data sets have forms that are only read:
//!
//! ```text
//! flat                   :                                                         values, along one axis
//! typed by words         : u32 dtype | u32 axes | axes * u32 shape               | values
//! ```
//!
//! A table may have lists that are no array, in a few of its rows. They are a document instead of the shape:
//!
//! ```text
//! fixed dtype, any shape : u8 3 | JSON
//! ```

use std::fmt;

use super::dtype::{DType, values_bytes};
use super::value::Array;
use forebay_core::error::{Error, Result};

/// Upper bound of the axes, which the header counts in six bits.
const AXES_MAX: usize = 63;

/// First byte of lists that are no array. Of a shape it would mean no axes, with lengths of 64 bits.
pub(crate) const DOCUMENT: u8 = 0b11;

/// Element type and shape of a column's arrays, as far as the column fixes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ArrayType {
    dtype: Option<DType>,
    /// Only with a dtype.
    shape: Option<Vec<usize>>,
    form: Form,
}

/// Form of a stored array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
enum Form {
    /// The form of MDS.
    #[default]
    Mds,
    /// Elements of a fixed type, along one axis.
    Flat,
    /// A header of words, with the number of the type in a table.
    Words { types: &'static [Option<DType>], is_big_endian: bool },
}

impl ArrayType {
    /// Arrays of `dtype` with one axis. Its length follows from their bytes.
    pub fn flat(dtype: DType) -> Self {
        Self { dtype: Some(dtype), shape: None, form: Form::Flat }
    }

    /// Parses the text after `ndarray:`, which may be empty.
    pub(super) fn parse(config: &str) -> Result<Self> {
        if config.is_empty() {
            return Ok(Self::default());
        }
        let form = Form::Mds;
        let (dtype, shape) = match config.split_once(':') {
            Some((dtype, shape)) => (dtype, Some(shape)),
            None => (config, None),
        };
        let dtype = DType::from_name(dtype)
            .ok_or_else(|| Error::config(format!("`{dtype}` is not an element type; write int32, float64 ...")))?;
        let Some(shape) = shape else { return Ok(Self { dtype: Some(dtype), shape: None, form }) };
        let shape: Vec<usize> = shape
            .split(',')
            .map(|d| d.trim().parse::<usize>().ok().filter(|&d| d > 0))
            .collect::<Option<_>>()
            .filter(|shape: &Vec<usize>| shape.len() <= AXES_MAX)
            .ok_or_else(|| {
                Error::config(format!("`{shape}` is not a shape; write positive numbers as in 3,224,224"))
            })?;
        Self::fixed(dtype, shape)
            .ok_or_else(|| Error::config("an array of this shape is larger than 4 GiB, the limit of a sample"))
    }

    /// Makes the type of arrays of this shape; `None` for one without elements, or of more than 4 GiB.
    pub(crate) fn fixed(dtype: DType, shape: Vec<usize>) -> Option<Self> {
        values_bytes(dtype, &shape).filter(|&bytes| bytes > 0 && u32::try_from(bytes).is_ok())?;
        Some(Self { dtype: Some(dtype), shape: Some(shape), form: Form::Mds })
    }

    /// Makes the type of arrays with a header of words of 32 bits. The first one is the number of the type in
    /// `types`.
    pub(crate) fn with_types(types: &'static [Option<DType>], is_big_endian: bool) -> Self {
        Self { dtype: None, shape: None, form: Form::Words { types, is_big_endian } }
    }

    /// True for arrays of one axis without a header.
    #[inline]
    pub fn is_flat(&self) -> bool {
        self.form == Form::Flat
    }

    /// Element type, if the column fixes it.
    #[inline]
    pub fn dtype(&self) -> Option<DType> {
        self.dtype
    }

    /// Shape, if the column fixes it.
    #[inline]
    pub fn shape(&self) -> Option<&[usize]> {
        self.shape.as_deref()
    }

    /// Bytes of every array, if the column fixes type and shape.
    pub fn fixed_size(&self) -> Option<u32> {
        let bytes = values_bytes(self.dtype?, self.shape.as_deref()?)?;
        u32::try_from(bytes).ok()
    }

    pub(super) fn encode(&self, array: &Array<'_>, out: &mut Vec<u8>) -> Result<()> {
        if self.form != Form::Mds {
            return Err(Error::config("an array of this form cannot be stored: its column needs a shape"));
        }
        if array.shape.is_empty() {
            return Err(Error::config("an array without axes is a scalar; use a scalar encoding"));
        }
        if array.shape.len() > AXES_MAX {
            return Err(Error::config(format!("an array of {} axes; at most {AXES_MAX} fit", array.shape.len())));
        }
        if array.shape.contains(&0) {
            return Err(Error::config("an array without elements cannot be stored"));
        }
        if values_bytes(array.dtype, &array.shape) != Some(array.data.len()) {
            return Err(Error::config(format!("{} bytes do not fill the shape {:?}", array.data.len(), array.shape)));
        }
        match self.dtype {
            None => {
                let code = array.dtype.code();
                let unknown = || Error::config(format!("arrays of {} cannot be stored", array.dtype));
                out.push(code.ok_or_else(unknown)?);
            }
            Some(dtype) if dtype == array.dtype => {}
            Some(dtype) => {
                let (expected, got) = (dtype.name(), array.dtype.name());
                return Err(Error::config(format!("wrong dtype: expected {expected}, got {got}")));
            }
        }
        match &self.shape {
            None => encode_shape(&array.shape, out),
            Some(shape) if *shape == array.shape => {}
            Some(shape) => {
                return Err(Error::config(format!("wrong shape: expected {shape:?}, got {:?}", array.shape)));
            }
        }
        out.extend_from_slice(&array.data);
        Ok(())
    }

    /// Returns the document of lists that are no array: their lengths differ, or they have a null.
    pub fn document<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let may_be = self.form == Form::Mds && self.dtype.is_some() && self.shape.is_none();
        bytes.strip_prefix(&[DOCUMENT]).filter(|_| may_be)
    }

    pub(super) fn decode<'a>(&self, bytes: &'a [u8]) -> Result<Array<'a>> {
        let mut shape = Vec::new();
        let (dtype, data) = self.read(bytes, &mut shape)?;
        Ok(Array { dtype, shape, data: data.into() })
    }

    /// Reads a stored array: returns its type and its elements in C order, and replaces `shape` with its shape.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Format`] for bytes that end early or do not fill the shape.
    pub fn read<'a>(&self, bytes: &'a [u8], shape: &mut Vec<usize>) -> Result<(DType, &'a [u8])> {
        shape.clear();
        if self.document(bytes).is_some() {
            return Err(Error::format(
                "the lists inside a list have different lengths, or an element is null: take the column as a Text \
                 or Json field",
            ));
        }
        let (dtype, data) = match (self.form, self.dtype) {
            (Form::Words { types, is_big_endian }, _) => read_words(bytes, types, is_big_endian, shape)?,
            (Form::Flat, Some(dtype)) => {
                shape.push(bytes.len() / dtype.size());
                (dtype, bytes)
            }
            (_, dtype) => self.read_mds(dtype, bytes, shape)?,
        };
        if values_bytes(dtype, shape) != Some(data.len()) {
            return Err(Error::format("the array's shape and bytes do not fit")
                .with("shape", format!("{shape:?}"))
                .with("dtype", dtype)
                .with("bytes", data.len()));
        }
        Ok((dtype, data))
    }

    fn read_mds<'a>(&self, dtype: Option<DType>, bytes: &'a [u8], shape: &mut Vec<usize>) -> Result<(DType, &'a [u8])> {
        let (dtype, bytes) = match dtype {
            Some(dtype) => (dtype, bytes),
            None => {
                let (&code, rest) = bytes.split_first().ok_or_else(|| truncated("dtype"))?;
                let dtype = DType::from_code(code)
                    .ok_or_else(|| Error::format("the array has an unknown type code").with("code", code))?;
                (dtype, rest)
            }
        };
        match &self.shape {
            Some(fixed) => {
                shape.extend(fixed);
                Ok((dtype, bytes))
            }
            None => Ok((dtype, decode_shape(bytes, shape)?)),
        }
    }
}

impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ndarray")?;
        if let Some(dtype) = self.dtype {
            write!(f, ":{}", dtype.name())?;
        }
        for (i, d) in self.shape.iter().flatten().enumerate() {
            write!(f, "{}{d}", if i == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

fn truncated(field: &str) -> Error {
    Error::format(format!("an array ends before its {field}"))
}

pub(crate) fn encode_shape(shape: &[usize], out: &mut Vec<u8>) {
    let largest = shape.iter().copied().max().unwrap_or(0) as u64;
    let width_log = match largest {
        0..=0xff => 0u8,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    };
    // The caller checks that there are at most 63 axes, so the shift loses nothing.
    out.push((shape.len() as u8) << 2 | width_log);
    for &d in shape {
        out.extend_from_slice(&(d as u64).to_le_bytes()[..1 << width_log]);
    }
}

/// Reads the header into `shape`, and returns the bytes after it.
fn decode_shape<'a>(bytes: &'a [u8], shape: &mut Vec<usize>) -> Result<&'a [u8]> {
    let (&head, rest) = bytes.split_first().ok_or_else(|| truncated("shape"))?;
    let (axes, width) = (usize::from(head >> 2), 1usize << (head & 3));
    let (dims, data) = rest.split_at_checked(axes * width).ok_or_else(|| truncated("shape"))?;
    let dim = |bytes: &[u8]| bytes.iter().rev().fold(0, |dim: u64, &byte| dim << 8 | u64::from(byte)) as usize;
    shape.extend(dims.chunks_exact(width).map(dim));
    Ok(data)
}

/// Reads a header of words into `shape`, and returns the type and the bytes after it.
fn read_words<'a>(
    bytes: &'a [u8],
    types: &[Option<DType>],
    is_big_endian: bool,
    shape: &mut Vec<usize>,
) -> Result<(DType, &'a [u8])> {
    let word = |bytes: &[u8; 4]| if is_big_endian { u32::from_be_bytes(*bytes) } else { u32::from_le_bytes(*bytes) };
    let (code, rest) = bytes.split_first_chunk::<4>().ok_or_else(|| truncated("dtype"))?;
    let (axes, rest) = rest.split_first_chunk::<4>().ok_or_else(|| truncated("shape"))?;
    let (code, axes) = (word(code), word(axes) as usize);
    let dtype = types.get(code as usize).copied().flatten();
    let dtype = dtype.ok_or_else(|| Error::format("the array has an unknown type").with("code", code))?;
    if axes > AXES_MAX {
        return Err(Error::format(format!("an array of {axes} axes; at most {AXES_MAX} are read")));
    }
    let (dims, data) = rest.split_at_checked(axes * 4).ok_or_else(|| truncated("shape"))?;
    shape.extend(dims.as_chunks::<4>().0.iter().map(|dim| word(dim) as usize));
    Ok((dtype, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dtype: DType, shape: &[usize]) -> Array<'static> {
        let bytes = values_bytes(dtype, shape).unwrap();
        Array { dtype, shape: shape.to_vec(), data: (0..bytes).map(|i| i as u8).collect::<Vec<_>>().into() }
    }

    #[test]
    fn the_documented_example_is_written_byte_for_byte() {
        let data: Vec<u8> = (0..6i16).flat_map(i16::to_le_bytes).collect();
        let array = Array { dtype: DType::Int16, shape: vec![2, 3], data: data.into() };
        let mut out = Vec::new();
        ArrayType::parse("").unwrap().encode(&array, &mut out).unwrap();
        assert_eq!(out, b"\x11\x08\x02\x03\0\0\x01\0\x02\0\x03\0\x04\0\x05\0");
    }

    #[test]
    fn every_form_reads_back_and_prints_its_name() {
        for name in ["ndarray", "ndarray:int16", "ndarray:int16:2,3"] {
            let kind = ArrayType::parse(name.strip_prefix("ndarray").unwrap().trim_start_matches(':')).unwrap();
            assert_eq!(kind.to_string(), name);
            let array = array(DType::Int16, &[2, 3]);
            let mut out = Vec::new();
            kind.encode(&array, &mut out).unwrap();
            assert_eq!(kind.decode(&out).unwrap(), array);
            for len in 0..out.len() {
                assert!(kind.decode(&out[..len]).is_err(), "{name} {len}");
            }
        }
        let wide = array(DType::UInt8, &[70_000, 1]);
        let mut out = Vec::new();
        ArrayType::default().encode(&wide, &mut out).unwrap();
        assert_eq!(out[..2], [8, 2 << 2 | 2]);
        assert_eq!(ArrayType::default().decode(&out).unwrap(), wide);
    }

    #[test]
    fn invalid_arrays_and_types_are_rejected() {
        let any = ArrayType::default();
        let mut out = Vec::new();
        for shape in [&[][..], &[0, 3], &[1; 64]] {
            let array = Array { dtype: DType::UInt8, shape: shape.to_vec(), data: vec![0].into() };
            assert!(any.encode(&array, &mut out).is_err(), "{shape:?}");
        }
        assert!(ArrayType::parse("int16").unwrap().encode(&array(DType::Int32, &[1]), &mut out).is_err());
        assert!(ArrayType::parse("int16:4").unwrap().encode(&array(DType::Int16, &[5]), &mut out).is_err());
        for config in ["bool", "int16:", "int16:0", "int16:-1", "int16:4:4", ":4", "float64:65536,65536"] {
            assert!(ArrayType::parse(config).is_err(), "{config}");
        }
    }

    #[test]
    fn a_shape_with_a_product_that_overflows_is_rejected() {
        let mut bytes = vec![8, 2 << 2 | 3];
        bytes.extend((1u64 << 32).to_le_bytes());
        bytes.extend((1u64 << 32).to_le_bytes());
        assert!(ArrayType::default().decode(&bytes).is_err());
    }
}
