//! Names of files that are parts of several, such as `train-00000-of-01024`.

/// Least digits of the numbers in `train-00000-of-01024`, so that folders with such a name are seldom taken for files.
const DIGITS_MIN: usize = 5;

/// Returns the name before the numbers in the name of a part. Numbers may be wildcards.
pub(super) fn stem_of_part(name: &str) -> Option<&str> {
    let Some((stem, of)) = name.rsplit_once("-of-") else {
        // As in `x.tfrecord-*`.
        return name.strip_suffix("-*").filter(|stem| stem.contains('.'));
    };
    let (stem, number) = stem.rsplit_once('-')?;
    let is_number = |text: &str| {
        let is_plain = text.len() >= DIGITS_MIN && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain
            || (text.contains(['*', '?']) && text.bytes().all(|byte| byte.is_ascii_digit() || b"*?".contains(&byte)))
    };
    (is_number(number) && is_number(of)).then_some(stem)
}
