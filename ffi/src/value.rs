//! Values of columns, between C and the engine.

use crate::arguments::{c_text, slice_at, text_at};
use crate::status::{CallError, CallResult};
use forebay_loader::Error;
use forebay_loader::format::Value;
use forebay_loader::format::encoding::{Array, DType, Pixels, Scalar};
use std::ffi::{CString, c_char};

/// Most dimensions of an array.
const DIMENSIONS_MAX: u32 = 32;

/// Kind of a value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForebayValueKind {
    /// `data`: bytes. Stored files such as JPEG and PNG, pickles, and lists of pictures as stored. A writer takes bytes
    /// for every column and stores them unchanged.
    Bytes = 0,
    /// `data`: UTF-8 text, `len` bytes, without a NUL at its end.
    Text = 1,
    /// `data`: a JSON document as UTF-8 text.
    Json = 2,
    /// `integer`.
    Int = 3,
    /// `data`: the decimal digits of an integer that `integer` cannot hold.
    BigInt = 4,
    /// `number`.
    Float = 5,
    /// `data`: a decimal number as text.
    Decimal = 6,
    /// `data`: one number of the type `type_name`, little-endian. A reader sets `number` as well, and `integer` if it
    /// is one.
    Scalar = 7,
    /// `data`: little-endian elements of the type `type_name`, in C order; `ndim` sizes in `shape`.
    Array = 8,
    /// `data`: rows of pixels; `shape` is height and width, `type_name` Pillow's mode, such as "RGB".
    Pixels = 9,
}

impl ForebayValueKind {
    const ALL: [Self; 10] = [
        Self::Bytes,
        Self::Text,
        Self::Json,
        Self::Int,
        Self::BigInt,
        Self::Float,
        Self::Decimal,
        Self::Scalar,
        Self::Array,
        Self::Pixels,
    ];
}

/// Value of a column. Members that its kind does not name are 0.
#[repr(C)]
#[derive(Debug)]
pub struct ForebayValue {
    /// Name of the column.
    pub column: *const c_char,
    /// A ForebayValueKind.
    pub kind: u32,
    /// Number of sizes in `shape`.
    pub ndim: u32,
    /// An integer.
    pub integer: i64,
    /// A number.
    pub number: f64,
    /// Bytes, text or elements.
    pub data: *const u8,
    /// Bytes in `data`.
    pub len: usize,
    /// Type of the elements, such as "uint16", or mode of the pixels.
    pub type_name: *const c_char,
    /// Sizes, slowest first.
    pub shape: *const u64,
}

/// Value of a column, copied.
pub(crate) struct ColumnValue {
    column: CString,
    kind: ForebayValueKind,
    integer: i64,
    number: f64,
    data: Vec<u8>,
    type_name: Option<CString>,
    shape: Vec<u64>,
}

impl ColumnValue {
    /// Copies `value`; `stored` are its bytes in the shard.
    pub(crate) fn new(column: &str, value: Value<'_>, stored: &[u8]) -> CallResult<Self> {
        use ForebayValueKind::{Array, BigInt, Bytes, Decimal, Float, Int, Json, Pixels, Scalar, Text};
        let column = c_text(column, "a column's name")?;
        let plain = |kind, data: &[u8]| Self {
            column: column.clone(),
            kind,
            integer: 0,
            number: 0.0,
            data: data.to_vec(),
            type_name: None,
            shape: Vec::new(),
        };
        Ok(match value {
            Value::Bytes(data) | Value::Jpeg(data) | Value::Png(data) | Value::Pickle(data) => plain(Bytes, &data),
            Value::List(_) => plain(Bytes, stored),
            Value::Str(text) => plain(Text, text.as_bytes()),
            Value::Json(text) => plain(Json, text.as_bytes()),
            Value::Decimal(text) => plain(Decimal, text.as_bytes()),
            Value::BigInt(digits) => plain(BigInt, digits.as_bytes()),
            Value::Int(integer) => Self { integer, ..plain(Int, &[]) },
            Value::Float(number) => Self { number, ..plain(Float, &[]) },
            Value::Scalar(scalar) => {
                let mut data = Vec::new();
                scalar.write(&mut data);
                let type_name = Some(c_text(scalar.dtype().name(), "a type")?);
                let (integer, number) = (scalar.as_i64().unwrap_or(0), scalar.as_f64());
                Self { integer, number, type_name, ..plain(Scalar, &data) }
            }
            Value::Array(array) => {
                let shape = array.shape.iter().map(|size| *size as u64).collect();
                let type_name = Some(c_text(array.dtype.name(), "a type")?);
                Self { type_name, shape, ..plain(Array, &array.data) }
            }
            Value::Pixels(pixels) => {
                let shape = vec![pixels.height.into(), pixels.width.into()];
                let type_name = Some(c_text(pixels.mode.as_bytes(), "a mode")?);
                Self { type_name, shape, ..plain(Pixels, &pixels.data) }
            }
        })
    }

    /// Name of the column.
    pub(crate) fn column(&self) -> &[u8] {
        self.column.as_bytes()
    }

    /// Returns the value for C. Its pointers are valid while `self` lives.
    pub(crate) fn as_c(&self) -> ForebayValue {
        ForebayValue {
            column: self.column.as_ptr(),
            kind: self.kind as u32,
            ndim: self.shape.len() as u32,
            integer: self.integer,
            number: self.number,
            data: self.data.as_ptr(),
            len: self.data.len(),
            type_name: self.type_name.as_ref().map_or(std::ptr::null(), |name| name.as_ptr()),
            shape: self.shape.as_ptr(),
        }
    }
}

impl ForebayValue {
    /// Returns the engine's value.
    ///
    /// # Safety
    ///
    /// The pointers are null, or valid for `len` bytes, `ndim` sizes or up to a NUL, and outlive the result.
    pub(crate) unsafe fn as_engine(&self) -> CallResult<Value<'_>> {
        let kinds = ForebayValueKind::ALL;
        let known = kinds.into_iter().find(|known| *known as u32 == self.kind);
        let kind = known.ok_or_else(|| CallError::argument(format!("there is no kind {} of values", self.kind)))?;
        // SAFETY: by the contract above.
        let data = || unsafe { slice_at(self.data, self.len, "data") };
        let text = || -> CallResult<&str> {
            std::str::from_utf8(data()?).map_err(|e| CallError::argument(format!("a value is not UTF-8: {e}")))
        };
        // SAFETY: by the contract above.
        let type_name = || unsafe { text_at(self.type_name, "type_name") };
        let dtype = || -> CallResult<DType> {
            let name = type_name()?;
            let dtype = DType::from_name(name);
            dtype.ok_or_else(|| Error::config(format!("`{name}` is not a type of stored numbers")).into())
        };
        let shape = || -> CallResult<&[u64]> {
            if self.ndim > DIMENSIONS_MAX {
                return Err(CallError::argument(format!(
                    "{} dimensions: there are at most {DIMENSIONS_MAX}",
                    self.ndim
                )));
            }
            // SAFETY: by the contract above.
            unsafe { slice_at(self.shape, self.ndim as usize, "shape") }
        };
        Ok(match kind {
            ForebayValueKind::Bytes => Value::Bytes(data()?.into()),
            ForebayValueKind::Text => Value::Str(text()?.into()),
            ForebayValueKind::Json => Value::Json(text()?.into()),
            ForebayValueKind::Int => Value::Int(self.integer),
            ForebayValueKind::BigInt => Value::BigInt(text()?.into()),
            ForebayValueKind::Float => Value::Float(self.number),
            ForebayValueKind::Decimal => Value::Decimal(text()?.into()),
            ForebayValueKind::Scalar => {
                let (dtype, data) = (dtype()?, data()?);
                let wrong = || CallError::argument(format!("{} bytes are not one {}", data.len(), dtype.name()));
                Value::Scalar(Scalar::read(dtype, data).ok_or_else(wrong)?)
            }
            ForebayValueKind::Array => {
                let size = |size: &u64| {
                    usize::try_from(*size).map_err(|_| CallError::argument(format!("an impossible size: {size}")))
                };
                let shape = shape()?.iter().map(size).collect::<CallResult<Vec<_>>>()?;
                Value::Array(Array { dtype: dtype()?, shape, data: data()?.into() })
            }
            ForebayValueKind::Pixels => {
                let side = |size: u64| {
                    u32::try_from(size).map_err(|_| CallError::argument(format!("a picture of {size} pixels per side")))
                };
                let &[height, width] = shape()? else {
                    return Err(CallError::argument("the shape of pixels is height and width"));
                };
                let (width, height) = (side(width)?, side(height)?);
                Value::Pixels(Pixels { width, height, mode: type_name()?.into(), data: data()?.into() })
            }
        })
    }
}
