//! Columns of a table by their paths, and their encodings in MDS.

use crate::columns::FIELDS;
use crate::encoding::{DType, Encoding};
use arrow_schema::{DataType, Field, Fields};
use forebay_core::error::{ColumnNames, Error, ErrorKind, Result};
use std::sync::Arc;

/// Deepest nesting of lists that is an array.
const AXES_MAX: usize = 32;

/// Column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// Name in the loader: the field's name, or the path of a nested one with dots.
    pub name: String,
    /// Names of the fields from the root down to the values; none for the list of a row's columns without a null.
    pub path: Vec<String>,
    /// Encoding in MDS.
    pub encoding: Encoding,
    /// Value of all rows of a file, in that encoding, if the column is a part of the file's path: `year=2024/0.arrow`.
    pub partition: Option<Partition>,
}

/// Value of a column that is a part of a file's path; `None`: null.
pub type Partition = Option<Arc<[u8]>>;

impl TableColumn {
    /// Returns true for the list of a row's columns without a null.
    pub fn is_list(&self) -> bool {
        self.path.is_empty() && self.partition.is_none()
    }
}

/// Returns the columns `wanted` of a table with `fields`, each once; without that all fields of the root with values
/// that can be delivered. The table may lack those that are `optional`, or have only nulls there.
///
/// # Errors
///
/// [`ErrorKind::Config`] for a column that the table does not have; [`ErrorKind::Unsupported`] for one with values that
/// cannot be delivered. Both have its name.
pub fn columns(fields: &Fields, wanted: Option<&[String]>, optional: &[String]) -> Result<Vec<TableColumn>> {
    let named = |name: &str| {
        let found = find(fields, name).ok_or_else(|| absent(fields, name))?;
        if name == FIELDS {
            let message = "forebay keeps the names of a sample's fields in a column of this name: leave the column \
                           out of `fields`, or rename it in the files";
            return Err(Error::new(ErrorKind::Unsupported, message).with("column", name));
        }
        column(name, found).map_err(|e| e.with("column", name))
    };
    let Some(wanted) = wanted else {
        // One that cannot be delivered does not block the rest.
        let (mut all, mut first) = (Vec::new(), None);
        for column in fields.iter().map(|field| named(field.name())) {
            match column {
                Ok(column) => all.push(column),
                Err(e) => first = first.or(Some(e)),
            }
        }
        return match first {
            Some(e) if all.is_empty() => Err(e.hinting("name in `fields` the columns to read")),
            _ => Ok(all),
        };
    };
    let mut columns: Vec<TableColumn> = Vec::new();
    for name in wanted {
        // A column of nulls is as good as none.
        let is_null = |found: Vec<&Field>| found.last().is_some_and(|field| *field.data_type() == DataType::Null);
        let is_absent = optional.contains(name) && find(fields, name).is_none_or(is_null);
        if !is_absent && !columns.iter().any(|column| column.name == *name) {
            columns.push(named(name)?);
        }
    }
    Ok(columns)
}

/// Returns the column with a list of a row's columns without a null. In rows that have it, a null is no error.
pub fn list_of_columns() -> TableColumn {
    TableColumn { name: FIELDS.to_owned(), path: Vec::new(), encoding: Encoding::Str, partition: None }
}

/// Returns true for the struct in which the hub's data sets have a picture or a sound: `bytes`, and a `path`.
pub fn is_picture(kind: &DataType) -> bool {
    let DataType::Struct(fields) = kind else { return false };
    let has = |name: &str, is_kind: fn(&DataType) -> bool| {
        fields.iter().any(|field| field.name() == name && is_kind(value_type(field.data_type())))
    };
    fields.len() == 2 && has("bytes", is_binary) && has("path", |kind| is_text(kind) || *kind == DataType::Null)
}

/// Returns the fields from the root down to the column `name`.
pub(super) fn find<'a>(fields: &'a Fields, name: &str) -> Option<Vec<&'a Field>> {
    if let Some(field) = fields.iter().find(|field| field.name() == name) {
        return Some(vec![field]);
    }
    // A name may have dots: the longest one counts.
    name.rmatch_indices('.').find_map(|(at, _)| {
        let parent = fields.iter().find(|field| *field.name() == name[..at])?;
        let DataType::Struct(fields) = parent.data_type() else { return None };
        let mut path = find(fields, &name[at + 1..])?;
        path.insert(0, parent);
        Some(path)
    })
}

fn column(name: &str, mut found: Vec<&Field>) -> Result<TableColumn> {
    if let Some(last) = found.last()
        && let (true, DataType::Struct(fields)) = (is_picture(last.data_type()), last.data_type())
    {
        found.extend(fields.iter().find(|field| field.name() == "bytes").map(|field| &**field));
    }
    let kind = found.last().map_or(&DataType::Null, |field| field.data_type());
    let path = found.iter().map(|field| field.name().clone()).collect();
    Ok(TableColumn { name: name.to_owned(), path, encoding: encoding_of(kind)?, partition: None })
}

fn absent(fields: &Fields, name: &str) -> Error {
    let names: ColumnNames = fields.iter().map(|field| field.name().as_str()).collect();
    let error = Error::config(format!("there is no such column; there are {}", names.listed()));
    error.with("column", name).hinting_if(names.asked(name))
}

/// Returns the type of the values of a dictionary, and any further type as it is.
pub(super) fn value_type(kind: &DataType) -> &DataType {
    match kind {
        DataType::Dictionary(_, values) => values,
        kind => kind,
    }
}

/// Returns the type of a number; `None` for values that are no numbers. A truth value is 0 or 1; points in time and
/// durations are whole numbers of their unit.
pub(super) fn number(kind: &DataType) -> Option<DType> {
    Some(match kind {
        DataType::Boolean | DataType::UInt8 => DType::UInt8,
        DataType::UInt16 => DType::UInt16,
        DataType::UInt32 => DType::UInt32,
        DataType::UInt64 => DType::UInt64,
        DataType::Int8 => DType::Int8,
        DataType::Int16 => DType::Int16,
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => DType::Int32,
        DataType::Int64 | DataType::Date64 | DataType::Time64(_) | DataType::Timestamp(..) | DataType::Duration(_) => {
            DType::Int64
        }
        DataType::Float16 => DType::Float16,
        DataType::Float32 => DType::Float32,
        DataType::Float64 => DType::Float64,
        _ => return None,
    })
}

pub(super) fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(super) fn is_binary(kind: &DataType) -> bool {
    matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

pub(super) fn is_decimal(kind: &DataType) -> bool {
    matches!(
        kind,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..)
    )
}

fn encoding_of(kind: &DataType) -> Result<Encoding> {
    let kind = value_type(kind);
    if let Some(dtype) = number(kind) {
        return Ok(Encoding::Scalar(dtype));
    }
    if is_text(kind) {
        return Ok(Encoding::Str);
    }
    if is_binary(kind) {
        return Ok(Encoding::Bytes);
    }
    if is_decimal(kind) {
        return Ok(Encoding::StrDecimal);
    }
    if let Some(name) = array_name(kind) {
        return Encoding::parse(&name);
    }
    if is_list_of_bytes(kind) {
        return Ok(Encoding::BytesList);
    }
    match unwritable(kind) {
        None if *kind == DataType::Null => Err(unsupported(
            "a column of nulls cannot be delivered: give the field a `default`, if it takes one".to_owned(),
        )),
        None => Ok(Encoding::Json),
        Some(inner) if inner == kind => Err(unsupported(format!("values of the type {kind} cannot be delivered"))),
        Some(inner) => {
            Err(unsupported(format!("values of the type {inner} inside lists or structs cannot be delivered")))
        }
    }
}

/// Returns true for a list of bytes, or of pictures in the form of [`is_picture`].
fn is_list_of_bytes(kind: &DataType) -> bool {
    element(kind).is_some_and(|(field, _)| match field.data_type() {
        DataType::Struct(fields) if is_picture(field.data_type()) => {
            fields.iter().any(|field| field.name() == "bytes" && is_binary(field.data_type()))
        }
        kind => is_binary(kind),
    })
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the element of a list, and the number of elements if that is fixed.
pub(super) fn element(kind: &DataType) -> Option<(&Field, Option<usize>)> {
    match kind {
        DataType::List(field) | DataType::LargeList(field) => Some((field, None)),
        DataType::FixedSizeList(field, len) => Some((field, Some(usize::try_from(*len).unwrap_or(0)))),
        _ => None,
    }
}

/// Returns the name of the encoding of lists of numbers, such as `ndarray:int32`.
fn array_name(kind: &DataType) -> Option<String> {
    let (mut kind, mut shape) = (kind, Vec::new());
    while let Some((field, len)) = element(kind) {
        shape.push(len);
        kind = field.data_type();
    }
    let dtype = number(kind)?.name();
    if shape.is_empty() || shape.len() > AXES_MAX {
        return None;
    }
    match shape.into_iter().collect::<Option<Vec<usize>>>() {
        Some(shape) if !shape.contains(&0) => {
            let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
            Some(format!("ndarray:{dtype}:{}", shape.join(",")))
        }
        _ => Some(format!("ndarray:{dtype}")),
    }
}

/// Returns the type inside of `kind` that a JSON document cannot have.
fn unwritable(kind: &DataType) -> Option<&DataType> {
    let kind = value_type(kind);
    if number(kind).is_some() || is_text(kind) || is_decimal(kind) || *kind == DataType::Null {
        return None;
    }
    if let Some((field, _)) = element(kind) {
        return unwritable(field.data_type());
    }
    match kind {
        DataType::Struct(fields) => fields.iter().find_map(|field| unwritable(field.data_type())),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 && is_text(value_type(fields[0].data_type())) => {
                unwritable(fields[1].data_type())
            }
            _ => Some(kind),
        },
        _ => Some(kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, kind: DataType) -> Field {
        Field::new(name, kind, true)
    }

    fn list(kind: DataType) -> DataType {
        DataType::List(Arc::new(field("item", kind)))
    }

    fn picture() -> DataType {
        DataType::Struct(vec![field("bytes", DataType::Binary), field("path", DataType::Utf8)].into())
    }

    fn found(fields: Vec<Field>, wanted: &str) -> Result<(Vec<String>, String)> {
        let columns = columns(&fields.into(), Some(&[wanted.to_owned()]), &[])?;
        Ok((columns[0].path.clone(), columns[0].encoding.to_string()))
    }

    #[test]
    fn a_type_has_an_encoding() {
        let fixed = |kind, len| DataType::FixedSizeList(Arc::new(field("item", kind)), len);
        let pair = DataType::Struct(vec![field("a", DataType::Int8), field("b", list(DataType::Utf8))].into());
        for (kind, encoding) in [
            (DataType::Int64, "int64"),
            (DataType::Boolean, "uint8"),
            (DataType::Float16, "float16"),
            (DataType::Date32, "int32"),
            (DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None), "int64"),
            (DataType::LargeUtf8, "str"),
            (DataType::FixedSizeBinary(3), "bytes"),
            (DataType::Decimal128(9, 2), "str_decimal"),
            (DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)), "str"),
            (list(DataType::Int32), "ndarray:int32"),
            (list(list(DataType::Float32)), "ndarray:float32"),
            (fixed(fixed(DataType::UInt8, 2), 3), "ndarray:uint8:3,2"),
            (list(fixed(DataType::UInt8, 2)), "ndarray:uint8"),
            (list(DataType::Utf8), "json"),
            (list(DataType::LargeBinary), "list[bytes]"),
            (list(picture()), "list[bytes]"),
            (fixed(picture(), 2), "list[bytes]"),
            (pair.clone(), "json"),
            (list(pair), "json"),
        ] {
            let shown = kind.to_string();
            assert_eq!(found(vec![field("x", kind)], "x").unwrap().1, encoding, "{shown}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_delivered_is_an_error_with_its_column_and_type() {
        for (kind, shown) in [
            (DataType::Null, "nulls"),
            (list(list(DataType::Binary)), "Binary"),
            (DataType::Interval(arrow_schema::IntervalUnit::DayTime), "Interval"),
        ] {
            let fields = vec![field("n", DataType::Int8), field("x", kind)];
            let e = found(fields.clone(), "x").unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.to_string().contains(shown) && e.to_string().contains("column x"), "{e}");
            assert!(found(fields.clone(), "n").is_ok(), "the rest can be read");
            let all = columns(&fields.clone().into(), None, &[]).unwrap();
            assert_eq!(all.iter().map(|column| &*column.name).collect::<Vec<_>>(), ["n"]);
            let alone = columns(&fields[1..].iter().cloned().collect(), None, &[]).unwrap_err();
            assert!(alone.to_string().contains("`fields`"), "{alone}");
        }
    }

    #[test]
    fn a_nested_column_has_a_path_with_dots() {
        let inner = DataType::Struct(vec![field("c.d", DataType::Int8), field("e", DataType::Utf8)].into());
        let fields = vec![field("a.b", inner.clone()), field("a", DataType::Struct(vec![field("b", inner)].into()))];
        for (name, path) in [("a.b.c.d", &["a.b", "c.d"] as &[&str]), ("a.b.e", &["a.b", "e"]), ("a.b", &["a.b"])] {
            assert_eq!(found(fields.clone(), name).unwrap().0, path, "{name}");
        }
        let e = found(fields, "a.x").unwrap_err();
        assert!(e.to_string().contains("there are a.b, a"), "{e}");
    }

    #[test]
    fn a_table_may_lack_optional_columns_alone() {
        let fields = Fields::from(vec![field("a", DataType::Int8)]);
        let names = |wanted: &[&str], optional: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
            let found = columns(&fields, Some(&owned(wanted)), &owned(optional))?;
            Ok::<_, Error>(found.into_iter().map(|column| column.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["a", "b"], &["a", "b"]).unwrap(), ["a"]);
        assert!(names(&["a", "b"], &["a"]).unwrap_err().to_string().contains("there are a"));
    }

    #[test]
    fn a_picture_is_its_bytes() {
        let fields = vec![field("image", picture())];
        for (name, path, encoding) in [
            ("image", &["image", "bytes"], "bytes"),
            ("image.bytes", &["image", "bytes"], "bytes"),
            ("image.path", &["image", "path"], "str"),
        ] {
            let (found, kind) = found(fields.clone(), name).unwrap();
            assert_eq!((&found[..], kind.as_str()), (&path.map(str::to_owned)[..], encoding), "{name}");
        }
    }
}
