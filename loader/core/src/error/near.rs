//! Names that mistyped ones may mean, for the hints of errors.

/// Most characters of a name that is compared: the time is the product of two lengths.
const CHARS_MAX: usize = 64;

/// Returns the hint that asks for the name among `known` that is nearest to `name`; `None` if none is near.
pub(super) fn asked<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(name, known).map(|meant| format!("did you mean `{meant}`?"))
}

/// Returns the name among `known` that differs from `name` by the fewest mistakes, at most one in three characters.
fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().chars().filter(|c| !matches!(c, ' ' | '_' | '-')).collect::<Vec<_>>();
    let name = plain(name);
    let mistakes = |other: &&str| {
        let other = plain(other);
        let most = (name.len().max(other.len()) / 3).max(1);
        let is_short = name.len().max(other.len()) <= CHARS_MAX;
        // A name of one character is near to all the rest.
        is_short.then(|| distance(&name, &other)).filter(|found| *found <= most && *found < name.len())
    };
    known
        .into_iter()
        .filter_map(|other| Some((mistakes(&other)?, other)))
        .min_by_key(|(found, _)| *found)
        .map(|of| of.1)
}

/// Returns the characters to add, remove, replace, or exchange with their neighbours, to get from `a` to `b`.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_means_the_nearest_one() {
        let known = ["__key__", "cls", "jpg", "json", "label", "input_ids"];
        for (name, meant) in [
            ("lable", Some("label")),
            ("labels", Some("label")),
            ("Label", Some("label")),
            ("clss", Some("cls")),
            ("cl", Some("cls")),
            ("key", Some("__key__")),
            ("inputIds", Some("input_ids")),
            ("jsn", Some("json")),
            ("caption", None),
            ("x", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, known), meant, "{name}");
        }
        assert_eq!(asked("lable", known).as_deref(), Some("did you mean `label`?"));
        assert_eq!(nearest(&"x".repeat(1 << 20), ["y"]), None);
    }

    #[test]
    fn mistakes_are_counted() {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        for (a, b, mistakes) in [("", "ab", 2), ("abc", "acb", 1), ("abc", "abd", 1), ("kitten", "sitting", 3)] {
            assert_eq!(distance(&chars(a), &chars(b)), mistakes, "{a} {b}");
        }
    }
}
