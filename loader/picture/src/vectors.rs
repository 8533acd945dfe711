//! Choice of the vector instructions of our own kernels: the best that the machine has, or fewer if [`VARIABLE`] limits
//! them.

use std::sync::OnceLock;

use forebay_core::error::{Error, Result};

/// Environment variable that limits the vector instructions: `avx512`, `avx2` or `neon`, as the machine has it, or
/// `none`, with which libjpeg-turbo decodes JPEGs. It is read once per process. Use it to measure, or to find out
/// whether a kernel causes a fault; the pixels are the same with all values. Libraries, libjpeg-turbo among them,
/// choose their instructions themselves.
pub const VARIABLE: &str = "FOREBAY_VECTORS";

/// Level of vector instructions that this machine has.
///
/// Invariant: a level above `Portable` is only created on a machine with its instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vectors(Level);

/// Sets of vector instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Only instructions that every machine has.
    Portable,
    /// AVX2, BMI1, BMI2, LZCNT and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Instructions of AVX2, and AVX-512 F, BW, VL, VBMI, VBMI2 and VNNI: Ice Lake, Zen 4 and later.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON, which every 64-bit ARM machine that Rust's standard library supports has.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Vectors {
    /// Returns all levels that this machine has, the best last.
    pub(super) fn available() -> Vec<Self> {
        LEVELS.iter().filter(|(_, _, is_available)| is_available()).map(|(_, level, _)| Self(*level)).collect()
    }

    /// Returns the level that decoders use: the best that the environment allows. Determined once.
    pub(super) fn in_use() -> Self {
        static IN_USE: OnceLock<Vectors> = OnceLock::new();
        *IN_USE.get_or_init(|| {
            // Invalid values were rejected before decoding started, see `check_environment`.
            let limit = limit().unwrap_or(None);
            let best = Self::available().into_iter().rfind(|v| limit.is_none_or(|limit| v.0 <= limit));
            best.unwrap_or(Self(Level::Portable))
        })
    }

    pub(super) fn level(self) -> Level {
        self.0
    }
}

/// Value of [`VARIABLE`], its level, and the test for the level's instructions.
type NamedLevel = (&'static str, Level, fn() -> bool);

/// Levels of this kind of machine, the best last.
const LEVELS: &[NamedLevel] = &[
    ("none", Level::Portable, || true),
    #[cfg(target_arch = "x86_64")]
    ("avx2", Level::Avx2, has_avx2),
    #[cfg(target_arch = "x86_64")]
    ("avx512", Level::Avx512, || {
        use std::arch::is_x86_feature_detected as has;
        let bytes = has!("avx512vbmi") && has!("avx512vbmi2") && has!("avx512vnni");
        has_avx2() && has!("avx512f") && has!("avx512bw") && has!("avx512vl") && bytes
    }),
    #[cfg(target_arch = "aarch64")]
    ("neon", Level::Neon, || std::arch::is_aarch64_feature_detected!("neon")),
];

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt")
}

/// Returns the name of the vector instructions that decoders use, as [`VARIABLE`] has it.
pub fn name_in_use() -> &'static str {
    let in_use = Vectors::in_use().level();
    LEVELS.iter().find(|(_, level, _)| *level == in_use).map_or("none", |(name, ..)| name)
}

/// Checks the value of [`VARIABLE`], before decoding starts.
///
/// # Errors
/// A value that is not one of the documented ones.
pub fn check_environment() -> Result<()> {
    limit().map(drop)
}

/// Returns the highest level that the environment allows; `None` is no limit.
fn limit() -> Result<Option<Level>> {
    match std::env::var_os(VARIABLE) {
        Some(value) => parse_level(&value.to_string_lossy()),
        None => Ok(None),
    }
}

fn parse_level(value: &str) -> Result<Option<Level>> {
    if value.is_empty() {
        return Ok(None);
    }
    match LEVELS.iter().find(|(name, ..)| *name == value) {
        Some((_, level, _)) => Ok(Some(*level)),
        None => {
            let names = LEVELS.iter().rev().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
            Err(Error::config(format!(
                "the environment variable has an unknown value: set it to one of {names}, or unset it"
            ))
            .with("variable", VARIABLE)
            .with("value", value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_level_or_an_error_that_lists_the_levels() {
        assert_eq!(parse_level("").unwrap(), None);
        assert_eq!(parse_level("none").unwrap(), Some(Level::Portable));
        #[cfg(target_arch = "x86_64")]
        assert!(parse_level("avx2").unwrap() < parse_level("avx512").unwrap());
        let message = parse_level("sse9").unwrap_err().to_string();
        assert!(LEVELS.iter().all(|(name, ..)| message.contains(name)), "{message}");
        assert!(message.contains("sse9") && message.contains(VARIABLE), "{message}");
    }

    #[test]
    fn the_level_in_use_is_the_best_that_is_allowed() {
        let levels: Vec<Level> = Vectors::available().into_iter().map(Vectors::level).collect();
        assert!(levels.is_sorted(), "{levels:?}");
        let limit = limit().unwrap();
        let allowed = levels.into_iter().rfind(|level| limit.is_none_or(|limit| *level <= limit));
        assert_eq!(Some(Vectors::in_use().level()), allowed);
        assert_eq!(parse_level(name_in_use()).unwrap(), allowed);
    }
}
