//! Result of a scenario and its three output formats.
//!
//! * `data` has [`Report`], a table of figures, which serialises to JSON.
//! * `table` formats it for the terminal.
//! * `plot` draws the columns that are marked for it as SVG.

mod data;
mod plot;
mod table;

pub(crate) use data::{Better, Column, Curves, Report, Row, Skipped, median};

impl Report {
    /// Formats the report for the terminal.
    pub(crate) fn table(&self) -> String {
        table::render(self)
    }

    /// Draws the report as an SVG document.
    pub(crate) fn svg(&self) -> String {
        plot::render(self)
    }
}
