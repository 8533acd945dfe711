//! Wildcards of different programs in a list of files, which are part of a name here: the text to write instead.

use std::fmt::Write as _;

/// Returns advice for a list of files, some of them absent, if it has a wildcard of a different program, or numbers
/// without leading zeros. `near` are names of files in the same folder, as far as they are known.
pub fn advice_on_wildcards(list: &str, near: &[String]) -> Option<String> {
    printf(list).or_else(|| class(list)).or_else(|| without_zeros(list, near))
}

/// Advice for `%04d`.
fn printf(list: &str) -> Option<String> {
    list.match_indices('%').find_map(|(at, _)| {
        let rest = &list[at + 1..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (width, rest) = rest.split_at(digits);
        let rest = rest.strip_prefix('d')?;
        let width = width.parse::<usize>().unwrap_or(1).clamp(1, 9);
        let last = "9".repeat(width);
        let name = format!("{}{{{:0width$}..{last}}}{rest}", last_part(&list[..at]), 0);
        Some(format!(
            "%{}d is a part of the name here: write the first and the last number in braces, as in {name}",
            &list[at + 1..at + 1 + digits]
        ))
    })
}

/// Advice for `[0-3]`.
fn class(list: &str) -> Option<String> {
    let (before, rest) = list.split_once('[')?;
    let (inside, after) = rest.split_once(']').filter(|(inside, _)| !inside.is_empty())?;
    let instead = match inside.as_bytes() {
        [b'!' | b'^', ..] => "?".to_owned(),
        [first, b'-', last] => format!("{{{}..{}}}", char::from(*first), char::from(*last)),
        // Several ranges have too many forms.
        bytes if bytes.contains(&b'-') => "?".to_owned(),
        _ => {
            let mut choices = String::from("{");
            for (at, c) in inside.chars().enumerate() {
                let _ = write!(choices, "{}{c}", if at > 0 { "," } else { "" });
            }
            choices + "}"
        }
    };
    let name = format!("{}{instead}{after}", last_part(before));
    Some(format!("[{inside}] is a part of the name here, where *, ?, ** and braces are wildcards: write {name}"))
}

/// Advice for `{0..11}` where the files have names such as `000`.
fn without_zeros(list: &str, near: &[String]) -> Option<String> {
    let (before, rest) = list.split_once('{')?;
    let (inside, after) = rest.split_once('}')?;
    let (first, last) = inside.split_once("..")?;
    let number = |text: &str| text.parse::<u64>().ok();
    let (first, last) = (number(first)?, number(last)?);
    let start = last_part(before);
    let end = after.split(['{', '*', '?', ':']).next().unwrap_or_default();
    let digits = |name: &String| {
        let rest = name.strip_prefix(start)?;
        let width = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        (rest[width..].starts_with(end) && width > last.to_string().len().min(inside.len())).then_some(width)
    };
    let padded = |width: usize| format!("{start}{{{first:0width$}..{last:0width$}}}{after}");
    if let Some(width) = near.iter().find_map(digits) {
        return Some(format!("the files have numbers of {width} digits: write {}", padded(width)));
    }
    // A name that is padded already is a different mistake.
    let is_padded = inside.split("..").any(|text| text.len() > 1 && text.starts_with('0'));
    (near.is_empty() && !is_padded).then(|| {
        let width = last.to_string().len() + 1;
        format!(
            "braces make numbers as they are written: names with leading zeros need them in the braces, as in {}",
            padded(width)
        )
    })
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_wildcards_have_advice() {
        for (list, advice) in [
            ("s3://b/train-%04d.tar", "write the first and the last number in braces, as in train-{0000..9999}.tar"),
            ("train-%d.parquet", "as in train-{0..9}.parquet"),
            ("s3://b/train-[0-3].tar", "write train-{0..3}.tar"),
            ("a/part-[abc]-*.tfrecord", "write part-{a,b,c}-*.tfrecord"),
            ("a/part-[!0].tar", "write part-?.tar"),
            ("a/part-[0-9a-f].tar", "write part-?.tar"),
            ("s3://b/train-{0..146}.tar", "as in train-{0000..0146}.tar"),
        ] {
            let found = advice_on_wildcards(list, &[]).expect(list);
            assert!(found.contains(advice), "{list}: {found}");
        }
        for list in [
            "s3://b/train-{000..146}.tar",
            "s3://b/100%/a.tar",
            "train-*.tar",
            "a.tar",
            "a[.tar",
            "a{b,c}.tar",
            "%",
            "{..}",
        ] {
            assert_eq!(advice_on_wildcards(list, &[]), None, "{list}");
        }
    }

    #[test]
    fn numbers_without_leading_zeros_are_compared_with_the_names_that_are_there() {
        let near = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let found = advice_on_wildcards("/d/p-{0..11}.tar", &near(&["x.tar", "p-00011.tar"]));
        assert_eq!(found.as_deref(), Some("the files have numbers of 5 digits: write p-{00000..00011}.tar"));
        assert_eq!(advice_on_wildcards("/d/p-{0..11}.tar", &near(&["p-0.tar", "q-00011.tar"])), None);
    }
}
