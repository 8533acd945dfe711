//! Names of the columns of a data set, for errors about one that it does not have: usually a name with a mistake.

use super::{Error, near};

/// Columns that a message lists at most.
const LISTED_MAX: usize = 20;

/// Columns that there are, in the order of the messages.
pub struct ColumnNames(Vec<String>);

impl<'a> FromIterator<&'a str> for ColumnNames {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }
}

impl ColumnNames {
    /// The names. The message of an error has as many of them as are readable.
    pub fn listed(&self) -> String {
        let more = if self.0.len() > LISTED_MAX { ", ..." } else { "" };
        let some: Vec<&str> = self.0.iter().take(LISTED_MAX).map(String::as_str).collect();
        format!("{}{more}", some.join(", "))
    }

    /// The hint that asks for the column that `name` may mean, or for one of its alternatives.
    pub fn asked(&self, name: &str) -> Option<String> {
        name.split(';').find_map(|name| near::asked(name, self.0.iter().map(String::as_str)))
    }

    /// The error of the column `name`, which is none of them, with the hint.
    pub fn error_about(&self, name: &str, message: impl Into<String>) -> Error {
        self.error_without_hint(name, message).hinting_if(self.asked(name))
    }

    /// The error of the column `name`, which is none of them, where `message` has the name that is meant.
    pub fn error_without_hint(&self, name: &str, message: impl Into<String>) -> Error {
        Error::config(message).with("column", name).with("columns", self.listed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_lists_the_columns_up_to_a_bound_and_asks_for_the_nearest() {
        let all: Vec<String> = (0..LISTED_MAX).map(|number| format!("column{number}")).collect();
        let mut names: ColumnNames = all.iter().map(String::as_str).collect();
        assert_eq!(names.listed(), all.join(", "));
        names.0.push("label".to_owned());
        assert!(names.listed().ends_with("column19, ..."), "{}", names.listed());
        let e = names.error_about("class;lable", "no such column");
        assert!(e.to_string().ends_with("column19, ...); did you mean `label`?"), "{e}");
        assert!(e.to_string().starts_with("no such column (column class;lable, columns column0, "), "{e}");
        assert!(names.error_without_hint("lable", "no such column").to_string().ends_with(", ...)"));
    }
}
