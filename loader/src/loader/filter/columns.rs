//! Columns that a filter names, among the columns of a source, and the cells of their stored values.

use super::context::FilteredStream;
use super::counting::Counting;
use crate::decode::JsonPath;
use crate::error::{Error, Result};
use crate::format::encoding::{DType, Scalar, Value};
use crate::format::json::{self, PathPart};
use crate::format::{Column, Encoding};
use crate::subsets::filter::{Cell, CellKind, whole};
use crate::subsets::question::{Question, Reply};
use crate::sync::Arc;

/// Columns of a source that a message lists at most.
const LISTED_MAX: usize = 20;

/// Column of a filter.
#[derive(Clone, Debug)]
pub(super) struct FilterColumn {
    /// Column of the source.
    pub(super) name: String,
    encoding: Encoding,
    /// Path to the value in a document; empty for the remaining columns.
    path: Vec<PathPart>,
    /// Counter of the tokens of the value and of the columns after it, if the question is about them.
    pub(super) tokens: Option<Arc<Counting>>,
}

/// Value of a column in a sample.
#[derive(Clone, Copy, Debug)]
pub(super) enum ColumnValue<'a> {
    Absent,
    Stored(&'a [u8]),
    /// Bytes of a value that is not read.
    Length(u64),
}

impl<'a> ColumnValue<'a> {
    fn stored(self) -> Option<&'a [u8]> {
        if let Self::Stored(bytes) = self { Some(bytes) } else { None }
    }
}

/// Finds the columns of the question of a stream, as [`find`].
///
/// # Errors
///
/// As [`find`]; `Config` for a column that no tokens can be made of.
pub(super) fn find_of(
    of: &FilteredStream<'_>,
    encoding: impl Fn(&str) -> Option<Encoding>,
    all: impl Fn() -> Vec<(String, Encoding)>,
) -> Result<Vec<FilterColumn>> {
    let Some(counter) = of.counter else { return find(of.question, encoding, all) };
    let names = counter.columns();
    let found: Vec<(&str, Encoding)> = names.iter().filter_map(|name| Some((*name, encoding(name)?))).collect();
    let others = all().into_iter().filter(|(column, _)| !found.iter().any(|(name, _)| name == column));
    let others = others.map(|(column, encoding)| Column::new(column, encoding));
    let columns: Vec<Column> =
        found.iter().map(|(name, encoding)| Column::new(*name, encoding.clone())).chain(others).collect();
    let counting = Counting::new(counter.compile(&columns)?, of.config.skip.has_errors());
    if found.len() != names.len() {
        return Err(Error::internal("a column was lost"));
    }
    let mut tokens = Some(Arc::new(counting));
    let column = |(name, encoding): (&str, Encoding)| FilterColumn {
        name: name.to_owned(),
        encoding,
        path: Vec::new(),
        tokens: tokens.take(),
    };
    Ok(found.into_iter().map(column).collect())
}

/// Returns the answer for a sample with these values of `columns`.
///
/// # Errors
///
/// `Format` with the column for bytes that its encoding does not write; a value that no tokens can be made of.
pub(super) fn reply_of(
    question: &Question,
    columns: &[(usize, FilterColumn)],
    values: &[ColumnValue<'_>],
) -> Result<Reply> {
    if let [(_, FilterColumn { tokens: Some(tokens), name, .. }), further @ ..] = columns {
        let cell = tokens.cell(&values.iter().map(|value| value.stored()).collect::<Vec<_>>());
        // A field of several columns names the wrong one itself.
        let named = |e: Error| if further.is_empty() { e.with("column", name) } else { e };
        return Ok(question.reply(&[cell.map_err(named)?]));
    }
    let cells = columns.iter().zip(values).map(|((_, column), value)| match *value {
        ColumnValue::Absent => Ok(Cell::Null),
        ColumnValue::Stored(bytes) => column.cell(bytes),
        ColumnValue::Length(bytes) => Ok(Cell::Stored(bytes)),
    });
    Ok(question.reply(&cells.collect::<Result<Vec<_>>>()?))
}

/// Finds the columns of `question`, where `encoding` returns the encoding of a column of the source. `all` are the
/// columns that a message lists.
///
/// # Errors
///
/// `Config` for a column that is absent, or that has no numbers or text, and for a comparison of both, with the
/// position.
pub(super) fn find(
    question: &Question,
    encoding: impl Fn(&str) -> Option<Encoding>,
    all: impl Fn() -> Vec<(String, Encoding)>,
) -> Result<Vec<FilterColumn>> {
    let find = |(number, name): (usize, &str)| {
        let found = FilterColumn::find(name, &encoding);
        let problem = match &found {
            None => format!("there is no column `{name}`"),
            Some(column) if column.kind().is_some() || column.is_read() && question.takes_any(number) => {
                return found.ok_or_else(|| Error::internal("no column"));
            }
            Some(FilterColumn { encoding: Encoding::Json, .. }) => {
                format!("the column `{name}` has documents: write a path to a number or a text, such as `{name}.key`")
            }
            Some(column) => format!("the column `{name}` is {}", column.encoding),
        };
        Err(question.column_error(number, format!("{problem}; of numbers and text there are {}", listed(&all()))))
    };
    let columns = question.columns().into_iter().enumerate().map(find).collect::<Result<Vec<_>>>()?;
    let kinds: Vec<CellKind> = columns.iter().map(|column| column.kind().unwrap_or(CellKind::Any)).collect();
    question.check(&kinds)?;
    Ok(columns)
}

impl FilterColumn {
    fn find(name: &str, encoding: &impl Fn(&str) -> Option<Encoding>) -> Option<Self> {
        if let Some(encoding) = encoding(name) {
            return Some(Self { name: name.to_owned(), encoding, path: Vec::new(), tokens: None });
        }
        // The name of a column may have dots: the longest one counts.
        name.rmatch_indices(['.', '[']).find_map(|(at, mark)| {
            let (column, rest) = (&name[..at], if mark == "." { &name[at + 1..] } else { &name[at..] });
            let encoding = encoding(column).filter(|encoding| *encoding == Encoding::Json)?;
            let path = JsonPath::Text(rest.to_owned()).parts().filter(|path| !path.is_empty())?;
            Some(Self { name: column.to_owned(), encoding, path, tokens: None })
        })
    }

    /// Kind of its values, if a filter can use them.
    fn kind(&self) -> Option<CellKind> {
        match &self.encoding {
            Encoding::Str => Some(CellKind::Text),
            Encoding::Scalar(DType::BFloat16) => None,
            Encoding::Int | Encoding::Scalar(_) | Encoding::StrInt | Encoding::StrFloat | Encoding::StrDecimal => {
                Some(CellKind::Number)
            }
            Encoding::Json if !self.path.is_empty() => Some(CellKind::Any),
            _ => None,
        }
    }

    /// True if its values are numbers or text, or may be.
    pub(super) fn has_values(&self) -> bool {
        self.kind().is_some()
    }

    /// True if its values can be read, although not all can be compared.
    fn is_read(&self) -> bool {
        !matches!(self.encoding, Encoding::Custom(_))
    }

    /// True if empty text is no value.
    pub(super) fn is_number(&self) -> bool {
        self.tokens.is_none() && self.kind() == Some(CellKind::Number)
    }

    /// Returns the cell of a stored value.
    ///
    /// # Errors
    ///
    /// `Format` with the column for bytes that its encoding does not write.
    fn cell<'a>(&self, bytes: &'a [u8]) -> Result<Cell<'a>> {
        self.decoded(bytes).map_err(|e| e.with("column", &self.name))
    }

    fn decoded<'a>(&self, bytes: &'a [u8]) -> Result<Cell<'a>> {
        if self.kind().is_none() {
            return Ok(Cell::Stored(bytes.len() as u64));
        }
        if self.encoding == Encoding::Json {
            return in_document(bytes, &self.path);
        }
        Ok(match self.encoding.decode(bytes)? {
            Value::Str(text) => Cell::Text(text),
            Value::Int(int) => Cell::Int(int.into()),
            Value::Float(float) => Cell::Float(float),
            Value::Scalar(Scalar::U64(int)) => Cell::Int(int.into()),
            Value::Scalar(scalar) => match scalar.as_i64() {
                Some(int) if !scalar.dtype().is_float() => Cell::Int(int.into()),
                _ => Cell::Float(scalar.as_f64()),
            },
            Value::BigInt(digits) | Value::Decimal(digits) => number(&digits)?,
            _ => Cell::Other,
        })
    }

    /// Returns the cell of a sample that is a document with the columns as keys.
    ///
    /// # Errors
    ///
    /// `Format` with the column for a sample that is none.
    pub(super) fn cell_of_key<'a>(&self, document: &'a [u8]) -> Result<Cell<'a>> {
        let path: Vec<PathPart> =
            [PathPart::Key(self.name.clone())].into_iter().chain(self.path.iter().cloned()).collect();
        in_document(document, &path).map_err(|e| e.with("column", &self.name))
    }
}

/// Returns the names of the columns in `all` that a filter can use.
fn listed(all: &[(String, Encoding)]) -> String {
    let usable = all.iter().filter_map(|(name, encoding)| match encoding {
        Encoding::Json => Some(format!("{name}.[key]")),
        encoding => {
            let column =
                FilterColumn { name: name.clone(), encoding: encoding.clone(), path: Vec::new(), tokens: None };
            column.kind().map(|_| name.clone())
        }
    });
    let usable: Vec<String> = usable.collect();
    let more = if usable.len() > LISTED_MAX { ", ..." } else { "" };
    match usable.as_slice() {
        [] => "none".to_owned(),
        some => format!("{}{more}", some[..some.len().min(LISTED_MAX)].join(", ")),
    }
}

/// Returns the cell of the value at `path` in `document`. A truth value is 1 or 0.
fn in_document<'a>(document: &'a [u8], path: &[PathPart]) -> Result<Cell<'a>> {
    let Some(place) = json::find(document, path)? else { return Ok(Cell::Null) };
    let token = &document[place];
    Ok(match token.first() {
        Some(b'"') => Cell::Text(match std::str::from_utf8(&token[1..token.len() - 1]) {
            Ok(plain) if !plain.contains('\\') => plain.into(),
            _ => json::unescape(token)?.into(),
        }),
        Some(b't') => Cell::Int(1),
        Some(b'f') => Cell::Int(0),
        None | Some(b'n') => Cell::Null,
        Some(b'{' | b'[') => Cell::Other,
        _ => number(&String::from_utf8_lossy(token))?,
    })
}

fn number(digits: &str) -> Result<Cell<'static>> {
    if let Some(int) = whole(digits) {
        return Ok(Cell::Int(int));
    }
    let float = digits.parse().map_err(|e| Error::format("a number cannot be compared").caused_by(e))?;
    Ok(Cell::Float(float))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subsets::filter::Filter;

    fn found(filter: &str) -> Result<Vec<FilterColumn>> {
        let all = [("a.b", Encoding::Json), ("n", Encoding::StrInt), ("image", Encoding::Jpeg), ("t", Encoding::Str)];
        let encoding = |name: &str| Some(all.iter().find(|(column, _)| *column == name)?.1.clone());
        let names = || all.iter().map(|(name, encoding)| ((*name).to_owned(), encoding.clone())).collect();
        find(&Question::Condition(Filter::parse(filter)?), encoding, names)
    }

    #[test]
    fn a_column_is_one_of_the_source_or_a_path_into_its_documents() {
        let columns = found("n < 3 and a.b.c.d == 'x' and `a.b[0]` == 5 and `a.b.x[1].y` == 5").expect("columns");
        let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
        assert_eq!(names, ["n", "a.b", "a.b", "a.b"]);
        let text = br#"{"c": {"d": "\u00e9"}, "x": [null, {"y": 1.5}]}"#;
        assert_eq!(columns[1].cell(text).expect("cell"), Cell::Text("é".into()));
        assert_eq!(columns[2].cell(text).expect("cell"), Cell::Null);
        assert_eq!(columns[3].cell(text).expect("cell"), Cell::Float(1.5));
        assert_eq!(columns[2].cell(b"[[]]").expect("cell"), Cell::Other);
        assert!(columns[2].cell(b"[").expect_err("damaged").to_string().contains("column a.b"));
        for (filter, message) in [
            (
                "x == 1",
                "at character 1, before `x == 1`: there is no column `x`; of numbers and text there are a.b.[key], n, \
                 t",
            ),
            ("n == 1 or image == 'x'", "at character 11, before `image == 'x'`: the column `image` is jpeg"),
            ("a.b == 1", "the column `a.b` has documents: write a path to a number or a text, such as `a.b.key`"),
            ("n == 'x'", "a number is compared with text"),
            ("t.x == 1", "there is no column `t.x`"),
        ] {
            let error = found(filter).expect_err(filter).to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn a_key_with_dots_is_in_quotes() {
        let columns =
            found(r#"`a.b["c.d"]` == 1 and `a.b.e["x]\"."][1].f` == 2 and `a.b["c"].d` == 3"#).expect("columns");
        let text = br#"{"c.d": 1, "e": {"x]\".": [0, {"f": 2}]}, "c": {"d": 3}}"#;
        let cells: Vec<Cell<'_>> = columns.iter().map(|column| column.cell(text).expect("cell")).collect();
        assert_eq!(cells, [1, 2, 3].map(Cell::Int));
        for wrong in [r#"a.b["c.d]"#, r#"a.b["c.d"x]"#, r#"a.b["c.d"]x"#, "a.b[c]", "a.b.", "a.b..c"] {
            assert!(found(&format!("`{wrong}` == 1")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn values_of_documents_are_numbers_text_or_absent() {
        for (value, cell) in [
            ("true", Cell::Int(1)),
            ("false", Cell::Int(0)),
            ("null", Cell::Null),
            ("-12", Cell::Int(-12)),
            ("1e2", Cell::Float(100.0)),
            ("NaN", Cell::Float(f64::NAN)),
            ("-Infinity", Cell::Float(f64::NEG_INFINITY)),
            ("123456789012345678901234567890", Cell::Int(123_456_789_012_345_678_901_234_567_890)),
            ("12345678901234567891.00", Cell::Int(12_345_678_901_234_567_891)),
            ("-7.0", Cell::Int(-7)),
            ("7.01", Cell::Float(7.01)),
            ("[1]", Cell::Other),
            ("\"\"", Cell::Text("".into())),
        ] {
            let document = format!("{{\"k\": {value}}}");
            let found = in_document(document.as_bytes(), &[PathPart::Key("k".to_owned())]).expect("cell");
            assert!(found == cell || value == "NaN" && found != found.clone(), "{value}: {found:?}");
        }
    }
}
