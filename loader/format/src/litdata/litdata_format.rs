//! The format, and its entry in an index.

use super::items::{ItemForm, offsets, split};
use super::leaf::{JSON, encoding_of};
use super::members::is_document;
use crate::columns::{Column, ColumnForm, ColumnUse, OmittedColumn, Scratch};
use crate::encoding::{ArrayType, Encoding};
use crate::index::{ForeignIndex, IndexedFormat, JsonObject, names_of, sizes_of};
use crate::layout::Layout;
use crate::plain;
use crate::read_at::ReadAt;
use crate::shard_format::{Projection, ShardFormat};
use crate::table::OffsetTable;
use forebay_core::error::{Error, Result};
use serde_json::Value as Json;
use std::ops::Range;
use std::sync::Arc;

/// Entry of a shard in an index.
pub(crate) const INDEXED: IndexedFormat = IndexedFormat {
    name: "litdata",
    keys: &["column_names", "column_encodings", "column_sizes", "items"],
    layout: of_entry,
    foreign: Some(ForeignIndex { noun: "LitData's chunks", is_document }),
};

/// Items of a data set's chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Items {
    /// Serialiser of each column.
    pub(super) serializers: Vec<String>,
    /// Form of a sample.
    pub(super) form: ItemForm,
}

/// Makes the layout of items with the leaves `names`, written by `serializers`.
///
/// # Errors
///
/// [`crate::ErrorKind::Format`] if the numbers of names and serialisers differ, or if items of tokens have several
/// leaves or one of a different kind.
pub(super) fn layout(names: Vec<String>, serializers: Vec<String>, form: ItemForm) -> Result<Layout> {
    if names.len() != serializers.len() {
        let message = format!("an item has {} leaves and {} formats", names.len(), serializers.len());
        return Err(Error::format(message).with("field", "data_format"));
    }
    let columns =
        names.into_iter().zip(&serializers).map(|(name, serializer)| Column::new(name, encoding_of(serializer)));
    let columns: Vec<_> = columns.collect();
    if form == ItemForm::Tokens
        && !matches!(&*columns, [Column { encoding: Encoding::Array(kind), .. }] if kind.is_flat())
    {
        let message = format!("tokens are one array of integers, not {}", serializers.join(", "));
        return Err(Error::format(message).with("field", "data_format"));
    }
    Ok(Layout::new(Items { serializers, form }, columns))
}

fn of_entry(entry: &JsonObject<'_>) -> Result<Layout> {
    let form = ItemForm::from_name(entry.text("items")?);
    let form = form.ok_or_else(|| entry.expected("items", "leaves or tokens"))?;
    layout(entry.owned_texts("column_names")?, entry.owned_texts("column_encodings")?, form)
}

impl ShardFormat for Items {
    fn name(&self) -> &'static str {
        INDEXED.name
    }

    fn describe(&self, columns: &[Column], put: &mut dyn FnMut(&str, Json)) {
        put("column_encodings", self.serializers.clone().into());
        put("column_names", names_of(columns));
        put("column_sizes", sizes_of(columns));
        match self.form {
            // An index of windows is never read, but identifies them.
            ItemForm::Windows { stride } => put("items", stride.into()),
            form => put("items", form.name().into()),
        }
    }

    fn has_foreign_index(&self) -> bool {
        true
    }

    fn offsets(&self, columns: &[Column], file: &dyn ReadAt, samples: u64) -> Option<Result<OffsetTable>> {
        Some(offsets(file, samples, columns, self.form))
    }

    fn split(&self, columns: &[Column], sample: &[u8], scratch: &mut Scratch) -> Result<()> {
        self.split_around(columns, sample, &[], scratch)
    }

    fn split_around(
        &self,
        columns: &[Column],
        sample: &[u8],
        omitted: &[OmittedColumn],
        scratch: &mut Scratch,
    ) -> Result<()> {
        match omitted {
            _ if self.is_plain() => plain::split(columns, sample, omitted, scratch),
            [] => split(columns, &self.serializers, self.form, sample, scratch),
            _ => Err(Error::internal("a column of a format that is not MDS was omitted")),
        }
    }

    fn around(&self, _: &[Column], _: usize) -> Option<(usize, usize)> {
        self.is_plain().then_some((0, 0))
    }

    fn fixed_range(&self, columns: &[Column], _: usize, sample_bytes: usize) -> Option<Range<usize>> {
        if self.is_plain() { plain::fixed_range(columns, sample_bytes) } else { None }
    }

    fn sample_bytes(&self, columns: &[Column]) -> Option<usize> {
        if self.is_plain() { plain::fixed_bytes(columns) } else { None }
    }

    fn projected(&self, columns: &[Column], wanted: Option<&[ColumnUse<'_>]>) -> Option<Projection> {
        let form = |column: &Column| Some(wanted?.iter().find(|wanted| wanted.name == column.name)?.form);
        let as_array = |(column, serializer): (&Column, &String)| match form(column) {
            Some(ColumnForm::List) if serializer == JSON => {
                Column::new(&*column.name, Encoding::Array(ArrayType::default()))
            }
            _ => column.clone(),
        };
        let projected: Vec<Column> = columns.iter().zip(&self.serializers).map(as_array).collect();
        (projected != columns).then(|| (Arc::new(self.clone()) as _, projected))
    }

    fn is_plain(&self) -> bool {
        matches!(self.form, ItemForm::Tokens | ItemForm::Windows { .. })
    }
}
