//! Filters: conditions on number and text columns, such as `class < 100 and name != "unknown"`.
//!
//! ```text
//!   text --> tokens --> parse: Expression --> Filter: checked against the columns' kinds --> evaluate, row by row
//! ```
//!
//! A comparison with an absent value is neither true nor false, as in SQL, and so is its opposite. A sample is kept if
//! the whole condition is true.

mod cell;
mod evaluate;
mod expression;
mod mistake;
mod parse;
mod possible;
mod tokens;

use crate::error::{Error, Result};
pub(crate) use cell::{Cell, CellKind, whole};
use expression::Expression;
use mistake::Mistake;
pub(crate) use possible::{Possible, Range};

/// Longest filter.
const FILTER_BYTES_MAX: usize = 1 << 20;

/// Condition on the columns of a sample.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    text: String,
    expression: Expression,
    /// Names of the columns that it needs, each once, with the position of the first use.
    columns: Vec<(String, usize)>,
    /// Names of further columns that a sample must have, which the text does not name.
    present: Vec<String>,
}

impl Filter {
    /// Parses a filter.
    ///
    /// # Errors
    ///
    /// `Config` with the position of the mistake.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        if text.len() > FILTER_BYTES_MAX {
            return Err(Error::config("a filter has at most 1 MiB").with("bytes", text.len()));
        }
        let mut columns = Vec::new();
        let expression = parse::expression(text, &mut columns).map_err(|mistake| mistake.in_filter(text))?;
        Ok(Self { text: text.to_owned(), expression, columns, present: Vec::new() })
    }

    /// Makes the condition that `filter` is true, if there is one, and that a sample has all of `columns`.
    pub(crate) fn with_present(filter: Option<Self>, columns: &[&str]) -> Self {
        let all = Self {
            text: String::new(),
            expression: Expression::All(Vec::new()),
            columns: Vec::new(),
            present: Vec::new(),
        };
        let mut filter = filter.unwrap_or(all);
        let mut parts = vec![filter.expression];
        for name in columns {
            let known = filter.columns.iter().position(|(other, _)| other == name);
            let number = known.unwrap_or(filter.columns.len() + filter.present.len());
            parts.push(Expression::Not(Box::new(Expression::IsNull(number))));
            if known.is_none() {
                filter.present.push((*name).to_owned());
            }
        }
        Self { expression: Expression::All(parts), ..filter }
    }

    /// Returns the filter as it was written, with the further columns that a sample must have: a text unique to the
    /// filter.
    pub(crate) fn text(&self) -> String {
        if self.present.is_empty() { self.text.clone() } else { format!("{:?} {:?}", self.text, self.present) }
    }

    /// Names of the columns that it needs. A row has their cells in this order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|(name, _)| name).chain(&self.present).map(String::as_str)
    }

    /// The error that column number `column` has for `problem`.
    pub(crate) fn column_error(&self, column: usize, problem: String) -> Error {
        match self.columns.get(column) {
            Some((_, at)) => Mistake { at: *at, problem }.in_filter(&self.text),
            None => Error::config(format!("samples without a column cannot be left out: {problem}")),
        }
    }

    /// Checks that numbers are compared with numbers and text with text, for columns of these kinds.
    ///
    /// # Errors
    ///
    /// `Config` with the position of the comparison.
    pub(crate) fn check(&self, kinds: &[CellKind]) -> Result<()> {
        self.expression.check(kinds).map_err(|mistake| mistake.in_filter(&self.text))
    }

    /// True if column number `column` is compared with nothing: its values may be of any kind.
    pub(crate) fn is_about_presence(&self, column: usize) -> bool {
        column >= self.columns.len() || !self.expression.compares(column)
    }

    /// The values that the condition may have for samples with columns that have values in these ranges.
    pub(crate) fn possible(&self, ranges: &[Range<'_>]) -> Possible {
        self.expression.possible(ranges)
    }

    /// True if the condition is true for a sample with these cells.
    pub(crate) fn keeps(&self, row: &[Cell<'_>]) -> bool {
        self.expression.value(row) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keeps(filter: &str, row: &[(&str, Cell<'_>)]) -> bool {
        let filter = Filter::parse(filter).expect(filter);
        let cells: Vec<Cell<'_>> = filter
            .columns()
            .map(|name| row.iter().find(|(column, _)| *column == name).map_or(Cell::Null, |(_, cell)| cell.clone()))
            .collect();
        filter.check(&vec![CellKind::Any; cells.len()]).expect("kinds");
        filter.keeps(&cells)
    }

    #[test]
    fn columns_of_any_name_and_number_may_have_to_be_present() {
        let names: Vec<String> = (0..3000).map(|number| format!("a`b {number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).chain(["x"]).collect();
        let alone = Filter::with_present(None, &names);
        assert!(alone.columns().eq(names.iter().copied()));
        let filter = |text| Filter::with_present(Some(Filter::parse(text).expect(text)), &names);
        let both = filter("x > 3 or x < 0");
        assert!(both.columns().eq(["x"].into_iter().chain(names[..3000].iter().copied())));
        let row = |x: Cell<'static>, last: Cell<'static>| {
            let middle = std::iter::repeat_n(Cell::Stored(1), 2999);
            std::iter::once(x).chain(middle).chain([last]).collect::<Vec<_>>()
        };
        assert!(both.keeps(&row(Cell::Int(4), Cell::Other)));
        assert!(!both.keeps(&row(Cell::Int(2), Cell::Other)) && !both.keeps(&row(Cell::Int(4), Cell::Null)));
        assert!(alone.keeps(&row(Cell::Int(2), Cell::Int(1))) && !alone.keeps(&row(Cell::Null, Cell::Int(1))));
        let texts = [alone.text(), both.text(), filter("x > 3 or x < 1").text(), "x > 3 or x < 0".to_owned()];
        assert!((0..4).all(|one| (0..one).all(|other| texts[one] != texts[other])), "answers are kept by them");
        assert!(both.is_about_presence(1) && !both.is_about_presence(0) && alone.is_about_presence(3000));
        let (of_filter, of_other) = (both.column_error(0, "p".to_owned()), both.column_error(1, "p".to_owned()));
        assert!(of_filter.to_string().starts_with("the filter has a mistake at character 1, before `x > 3"));
        assert!(!of_other.to_string().contains("filter"), "{of_other}");
    }

    #[test]
    fn comparisons_and_their_combinations_hold_as_written() {
        let row = [
            ("class", Cell::Int(7)),
            ("width", Cell::Float(256.0)),
            ("name", Cell::Text("it's".into())),
            ("lines", Cell::Text("a\n\r\t\\'\"b".into())),
            ("a b", Cell::Int(-1)),
            ("meta.id", Cell::Int(1 << 60)),
        ];
        for (filter, expected) in [
            ("class < 100 and width >= 256", true),
            ("class<7", false),
            ("class <= 7", true),
            ("class == 7", true),
            ("class = 7", true),
            ("class != 7", false),
            ("7 > class", false),
            ("0 <= class < 8", true),
            ("0 < class < 7 or width > 1e3", false),
            ("not class < 7", true),
            ("not (class < 7 or width == 256)", false),
            ("class in (1, 7, 9)", true),
            ("class in (1, 7.0)", true),
            ("class not in (1, 9)", true),
            ("class in ()", false),
            ("class in [1, 7, 9]", true),
            ("class not in [1, 9]", true),
            ("class in []", false),
            ("class is not None and not name is none", true),
            ("name == \"it's\"", true),
            ("name == 'it\\'s'", true),
            ("name in ('x', 'y')", false),
            ("name < 'j'", true),
            ("`a b` < 0 and meta.id == 1152921504606846976", true),
            ("meta.id == 1152921504606846977", false),
            ("meta.id == 1152921504606846976.00", true),
            ("meta.id == 1152921504606846977.0", false),
            ("meta.id < 1e19", true),
            ("class == 7 or class == 8 and width == 0", true),
            ("(class == 7 or class == 8) and width == 0", false),
            ("class == 7 AND NOT width IN (1, 255.5)", true),
            ("`a b` != true and class in (true, 7)", true),
            ("name in (3, 'it\\'s', -2.5, 'a')", true),
            ("name not in ()", true),
            (r#"lines == 'a\n\r\t\\\'\"b' and lines == "a\n\r\t\\\'\"b""#, true),
            ("lines == 'a\n\r\t\\\\\\'\"b'", true),
        ] {
            assert_eq!(keeps(filter, &row), expected, "{filter}");
        }
    }

    #[test]
    fn a_comparison_with_an_absent_value_keeps_nothing_either_way() {
        for filter in ["x < 5", "not x < 5", "x in (1, 2)", "x not in (1, 2)", "x != 3", "x is not null"] {
            assert!(!keeps(filter, &[("x", Cell::Null)]), "{filter}");
        }
        assert!(!keeps("x in ()", &[("x", Cell::Null)]));
        for filter in ["x not in ()", "x is null", "x < 5 or y == 1", "not (x < 5 and y == 2)", "not x is not null"] {
            assert!(keeps(filter, &[("x", Cell::Null), ("y", Cell::Int(1))]), "{filter}");
        }
        for filter in ["x == 3", "x != 3", "not x < 3", "x in ('a', 3)", "x is null", "x == '3'", "not x == '3'"] {
            assert!(!keeps(filter, &[("x", Cell::Other)]), "{filter}");
        }
        assert!(!keeps("x != 3", &[("x", Cell::Text("3".into()))]));
        assert!(keeps("x not in (1, 2)", &[("x", Cell::Float(f64::NAN))]));
        assert!(!keeps("x == x", &[("x", Cell::Float(f64::NAN))]));
        assert!(keeps("x != x", &[("x", Cell::Float(f64::NAN))]));
    }

    #[test]
    fn mistakes_are_named_with_their_position() {
        let deep = format!("{}x == 1{}", "(".repeat(10_000), ")".repeat(10_000));
        for (filter, message) in [
            ("", "at its end: a condition such as `class < 100` is missing"),
            ("  ", "at its end"),
            ("class <", "at its end: a column, a number or a text is missing"),
            ("class < 100 and", "at its end"),
            ("class < 100 or or x", "at character 16, before `or x`"),
            ("class 100", "at character 7, before `100`: a comparison such as `<` or `in` is missing"),
            ("class", "at its end: a comparison"),
            ("class < 5)", "at character 10, before `)`: the condition ends here"),
            ("(class < 5", "at its end: `)` is missing"),
            ("class < 'abc", "at character 9, before `'abc`: the text has no end"),
            ("x == 'a\\", "at character 6, before `'a\\`: the text has no end"),
            (r"x == 'a\d'", r"at character 8, before `\d'`: `\d` has no meaning: write a backslash twice"),
            ("`abc < 3", "at character 1, before `` `abc < 3``"),
            ("class ~ 5", "at character 7, before `~ 5`: this character has no meaning here"),
            ("class <> 5", "at character 8"),
            ("class in 5", "at character 10, before `5`: `(` is missing: `in` has a list, such as `in (1, 2)`"),
            ("class in [5, 6)", "at character 15, before `)`: `,` or `]` is missing"),
            ("class in {5, 6}", "at character 10, before `{5, 6}`: a list is in brackets, such as `in (1, 2)`"),
            ("class < 5 & x > 3", "at character 11, before `& x > 3`: write `and`"),
            ("class < 5 || x > 3", "at character 11, before `|| x > 3`: write `or`"),
            ("!(class < 5)", "at character 1, before `!(class < 5)`: write `not`"),
            ("boxes[0] < 5", "at character 6, before `[0] < 5`: a path with brackets is a name in backticks"),
            ("class in (5", "at its end: `,` or `)` is missing"),
            ("class in (5,", "at its end"),
            ("class in (x)", "at character 11, before `x)`: a number or a text is missing"),
            ("class is 5", "at character 10"),
            ("5 < 6", "at character 1, before `5 < 6`: a comparison has a column on one side"),
            ("x < 99999999999999999999999999999999999999999", "at character 5"),
            ("x < 1.2.3", "at character 5"),
            ("x < 5 and é < 3 and ! 5", "at character 21, before `! 5`"),
            ("f(x) < 3", "at character 2"),
            ("x + 1 < 3", "at character 3, before `+ 1 < 3`"),
            ("and < 3", "at character 1"),
            ("x == null", "at character 6, before `null`: nothing is equal to an absent value: write `is null`"),
            (&deep, "at character 101"),
        ] {
            let error = Filter::parse(filter).expect_err(message).to_string();
            assert!(error.starts_with("the filter has a mistake "), "{error}");
            assert!(error.contains(&message.replace("`` `abc < 3``", "``abc < 3`")), "{filter}: {error}");
        }
    }

    #[test]
    fn numbers_and_text_are_not_compared() {
        let filter = Filter::parse("x < 5 and name == 3").expect("parsed");
        filter.check(&[CellKind::Number, CellKind::Number]).expect("numbers");
        let error = filter.check(&[CellKind::Number, CellKind::Text]).expect_err("text").to_string();
        assert!(error.contains("at character 11, before `name == 3`: text is compared with a number"), "{error}");
        let error =
            Filter::parse("x in (1, 'a')").expect("parsed").check(&[CellKind::Number]).expect_err("a").to_string();
        assert!(error.contains("at character 1"), "{error}");
    }
}
