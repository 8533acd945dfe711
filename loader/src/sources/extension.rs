//! Extensions of file names.

/// Returns true if `name` ends with `extension`, in any case.
pub(super) fn ends_with(name: &str, extension: &str) -> bool {
    // Extensions are in ASCII, and the position of one cannot be inside a character of several bytes.
    let start = name.len().checked_sub(extension.len()).and_then(|at| name.get(at..));
    start.is_some_and(|end| end.eq_ignore_ascii_case(extension))
}

/// Returns true if `name` ends with one of `extensions`, in any case.
pub(super) fn has_extension(name: &str, extensions: &[&str]) -> bool {
    extensions.iter().any(|extension| ends_with(name, extension))
}
