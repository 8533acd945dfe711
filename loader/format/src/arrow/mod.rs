//! Columns of Arrow tables as columns of MDS. Parquet files are read as such tables, too.
//!
//! ```text
//!   schema + names of fields --columns--> TableColumn: path, encoding --Values--> bytes of each row
//! ```
//!
//! * [`columns`]: the columns of a table by their paths, and their encodings;
//! * `classes`: the names of classes in the schema of a table;
//! * `units`: comparison of the units of times in different tables;
//! * `values`: the values of a column; `lists` has arrays of numbers, `json` nested values as documents.

mod arrays;
mod classes;
mod columns;
mod json;
mod lists;
mod units;
mod values;

pub use classes::{CLASSES_NOTE, ClassNames, class_names};
pub use columns::{Partition, TableColumn, columns, is_picture, list_of_columns};
pub use units::{column_type, have_same_units};
pub use values::Values;
