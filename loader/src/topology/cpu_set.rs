//! A set of CPU numbers.

use std::fmt;

/// Largest accepted CPU number. The kernel's own bound is 8,192; a wrong file must not cost memory.
const CPU_MAX: u32 = 65_535;

/// A set of CPUs by the kernel's numbers, ordered.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuSet {
    /// Bit `b` of word `w` is CPU `64 * w + b`; the last word is never zero.
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { words: Vec::new() }
    }

    /// Parses the kernel's list form, such as "0-3,8,10-11". Empty text is the empty set.
    pub fn parse(list: &str) -> Option<Self> {
        let mut set = Self::new();
        for part in list.trim().split(',').filter(|p| !p.is_empty()) {
            let (low, high) = match part.split_once('-') {
                Some((low, high)) => (low.trim().parse().ok()?, high.trim().parse().ok()?),
                None => {
                    let one: u32 = part.trim().parse().ok()?;
                    (one, one)
                }
            };
            if low > high || high > CPU_MAX {
                return None;
            }
            (low..=high).for_each(|cpu| set.insert(cpu));
        }
        Some(set)
    }

    /// Adds `cpu`; ignores numbers above the kernel's range.
    pub fn insert(&mut self, cpu: u32) {
        if cpu > CPU_MAX {
            return;
        }
        let word = (cpu / 64) as usize;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << (cpu % 64);
    }

    /// True if `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words.get((cpu / 64) as usize).is_some_and(|w| w & (1 << (cpu % 64)) != 0)
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// True if the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|w| *w == 0)
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let bits = |(i, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |b| word & (1 << b) != 0).map(move |b| i as u32 * 64 + b)
        };
        self.words.iter().enumerate().flat_map(bits)
    }

    /// The CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut words: Vec<u64> = self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect();
        while words.last() == Some(&0) {
            words.pop();
        }
        Self { words }
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        let mut set = Self::new();
        cpus.into_iter().for_each(|cpu| set.insert(cpu));
        set
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(u32, u32)> = Vec::new();
        for cpu in self.iter() {
            match runs.last_mut() {
                Some((_, high)) if *high + 1 == cpu => *high = cpu,
                _ => runs.push((cpu, cpu)),
            }
        }
        for (i, (low, high)) in runs.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match low == high {
                true => write!(f, "{comma}{low}")?,
                false => write!(f, "{comma}{low}-{high}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CpuSet({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_list_form_survives_a_round_trip() {
        for list in ["", "0", "0-3", "0-3,8,10-11", "63-64,127-128"] {
            assert_eq!(CpuSet::parse(list).unwrap().to_string(), list);
        }
        assert_eq!(CpuSet::parse("3,1,2\n").unwrap().to_string(), "1-3");
    }

    #[test]
    fn text_that_is_no_list_is_refused_without_cost() {
        for list in ["a", "3-1", "1-", "-1", "0-4000000000", "1;2"] {
            assert_eq!(CpuSet::parse(list), None, "{list}");
        }
    }

    #[test]
    fn sets_are_equal_whatever_their_history() {
        let a = CpuSet::parse("0-200").unwrap();
        let b = CpuSet::parse("1,2,500").unwrap();
        assert_eq!(a.intersection(&b), CpuSet::parse("1-2").unwrap());
        assert_eq!(a.len(), 201);
        assert!(a.contains(200) && !a.contains(201) && !b.contains(100_000));
        assert!(a.intersection(&CpuSet::parse("300").unwrap()).is_empty());
    }
}
