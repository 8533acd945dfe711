//! Openers of the kinds of files. [`KINDS`](crate::sources::KINDS) has the kinds; each has one opener.

use super::opening::OpenFiles;
use super::tables::TableKind;
use super::{array_records, files, lines, tables, tars, tfrecords, tokens};
use crate::error::{Error, Result};
use crate::sources::FileKind;
use crate::sources::array_records::ARRAY_RECORD;
use crate::sources::arrays::{NPY, NPZ};
use crate::sources::files::FILE;
use crate::sources::lines::{CELLS, JSON_LINES};
use crate::sources::tables::{ARROW, PARQUET};
use crate::sources::tars::TAR;
use crate::sources::tfrecords::TF_RECORD;
use crate::sources::tokens::TOKENS;

/// Opener of each kind.
static OPENERS: [(&FileKind, &dyn OpenFiles); 11] = [
    (&TAR, &tars::Opener),
    (&TOKENS, &tokens::Opener),
    (&PARQUET, &tables::Opener(TableKind::Parquet)),
    (&ARROW, &tables::Opener(TableKind::Arrow)),
    (&TF_RECORD, &tfrecords::Opener),
    (&ARRAY_RECORD, &array_records::Opener),
    (&JSON_LINES, &lines::Opener),
    (&CELLS, &lines::Opener),
    (&FILE, &files::Opener(&FILE)),
    (&NPY, &files::Opener(&NPY)),
    (&NPZ, &files::Opener(&NPZ)),
];

/// Returns the opener of `kind`.
///
/// # Errors
///
/// `Internal` for a kind that is not in the table.
pub(super) fn opener_of(kind: &FileKind) -> Result<&'static dyn OpenFiles> {
    let found = OPENERS.iter().find(|(known, _)| *known == kind);
    found.map(|(_, opener)| *opener).ok_or_else(|| Error::internal(format!("files of kind {kind:?} have no opener")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::KINDS;

    #[test]
    fn each_kind_has_an_opener() {
        assert!(KINDS.into_iter().all(|kind| opener_of(kind).is_ok()));
        assert_eq!(KINDS.len(), OPENERS.len());
    }
}
