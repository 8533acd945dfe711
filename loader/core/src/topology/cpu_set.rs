//! A set of CPU numbers.

use std::collections::BTreeSet;
use std::fmt;

/// Largest accepted CPU number. The kernel's own bound is 8,192; a wrong file must not cost memory.
const CPU_MAX: u32 = 65_535;

/// A set of CPUs by the kernel's numbers, ordered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CpuSet(BTreeSet<u32>);

impl CpuSet {
    /// Parses the kernel's list form, such as "0-3,8,10-11". Empty text is the empty set.
    pub fn parse(list: &str) -> Option<Self> {
        let mut set = Self::default();
        for part in list.trim().split(',').filter(|p| !p.is_empty()) {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (u32, u32) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            if low > high || high > CPU_MAX {
                return None;
            }
            set.0.extend(low..=high);
        }
        Some(set)
    }

    /// True if `cpu` is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    /// The number of CPUs.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if the set has no CPU.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The CPUs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The CPUs in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self(&self.0 & &other.0)
    }
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().collect())
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
            if low == high { write!(f, "{comma}{low}")? } else { write!(f, "{comma}{low}-{high}")? }
        }
        Ok(())
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
