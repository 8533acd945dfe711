//! Which neighbouring samples are worth one read.

use std::ops::Range;

/// Several ranges of a file, read at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The bytes to read.
    pub span: Range<u64>,
    /// The ranges it serves: index in the input, and place within `span`.
    pub parts: Vec<(usize, Range<usize>)>,
}

/// Joins ranges of one file that follow each other, in the order given, with gaps of at most `gap_bytes_max`, into spans
/// of at most `span_bytes_max`. Order is kept: only a range that starts at or behind the end of the one before it is
/// joined to it, so that a shuffled list stays what it is and a sequential one of small samples becomes few reads. A
/// single range longer than the bound stays alone.
pub fn coalesce(ranges: &[Range<u64>], gap_bytes_max: u64, span_bytes_max: u64) -> Vec<Joined> {
    let mut joined: Vec<Joined> = Vec::new();
    for (i, range) in ranges.iter().enumerate() {
        let end = range.end.max(range.start);
        let fits = |last: &Joined| {
            range.start >= last.span.end
                && range.start - last.span.end <= gap_bytes_max
                && end - last.span.start <= span_bytes_max
        };
        match joined.last_mut().filter(|last| fits(last)) {
            Some(last) => {
                let at = (range.start - last.span.start) as usize;
                last.parts.push((i, at..at + (end - range.start) as usize));
                last.span.end = end;
            }
            None => joined.push(Joined { span: range.start..end, parts: vec![(i, 0..(end - range.start) as usize)] }),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequential_samples_become_one_read_up_to_the_bound() {
        let ranges: Vec<Range<u64>> = (0..10).map(|i| i * 100..(i + 1) * 100).collect();
        let joined = coalesce(&ranges, 0, 400);
        assert_eq!(joined.iter().map(|j| j.span.clone()).collect::<Vec<_>>(), [0..400, 400..800, 800..1000]);
        assert_eq!(joined[1].parts[1], (5, 100..200));
    }

    #[test]
    fn a_shuffled_list_stays_what_it_is() {
        let ranges = [200..300, 100..200, 0..100];
        assert_eq!(coalesce(&ranges, 1000, 1000).len(), 3);
        let gaps = [0..100, 150..200, 300..400];
        assert_eq!(coalesce(&gaps, 50, 1000).len(), 2);
    }

    #[test]
    fn hostile_ranges_neither_wrap_nor_panic() {
        let wrong_way = Range { start: u64::MAX, end: 0 };
        let joined = coalesce(&[0..u64::MAX, wrong_way, 5..5, u64::MAX - 1..u64::MAX], u64::MAX, u64::MAX);
        assert_eq!(joined.iter().map(|j| j.parts.len()).sum::<usize>(), 4);
        assert!(coalesce(&[], 0, 0).is_empty());
    }
}
