//! Which vector instructions our own kernels use: the most that the machine has, or less where [`VARIABLE`] says so.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// The environment variable that limits them: `avx512`, `avx2`, `neon`, as the machine may have it, or `none`, with which JPEGs
/// are left to libjpeg-turbo. Read once per process. For measuring, and to find out whether a kernel is to blame for
/// something; pixels are the same with all. Other libraries, libjpeg-turbo among them, choose their instructions themselves.
pub const VARIABLE: &str = "FOREBAY_VECTORS";

/// A level of vector instructions.
///
/// Invariant: one above `Portable` is only made where the machine has what it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vectors(Level);

/// What a level names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Nothing that not every machine has.
    Portable,
    /// AVX2, BMI1, BMI2, LZCNT and POPCNT.
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Those, and AVX-512 F, BW, VL, VBMI, VBMI2 and VNNI: Ice Lake and Zen 4, and what came after.
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// NEON, which every 64-bit ARM has that Rust's standard library is made for.
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Vectors {
    /// All levels that this machine has, the best last.
    pub(super) fn available() -> Vec<Self> {
        #[cfg_attr(
            not(any(target_arch = "x86_64", target_arch = "aarch64")),
            expect(unused_mut, reason = "nothing is added there")
        )]
        let mut levels = vec![Self(Level::Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            let avx2 = has!("avx2") && has!("bmi1") && has!("bmi2") && has!("lzcnt") && has!("popcnt");
            let avx512 = has!("avx512f") && has!("avx512bw") && has!("avx512vl");
            let bytes = has!("avx512vbmi") && has!("avx512vbmi2") && has!("avx512vnni");
            if avx2 {
                levels.push(Self(Level::Avx2));
            }
            if avx2 && avx512 && bytes {
                levels.push(Self(Level::Avx512));
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            levels.push(Self(Level::Neon));
        }
        levels
    }

    /// What decoders use: the best level, or the best that the environment allows. Found out once.
    pub(super) fn in_use() -> Self {
        static IN_USE: OnceLock<Vectors> = OnceLock::new();
        *IN_USE.get_or_init(|| {
            // Whoever decodes for a user has refused what cannot be understood, see `check_environment`.
            let limit = limit().unwrap_or(None);
            let best = Self::available().into_iter().rfind(|v| limit.is_none_or(|limit| v.0 <= limit));
            best.unwrap_or(Self(Level::Portable))
        })
    }

    /// What it names.
    pub(super) fn level(self) -> Level {
        self.0
    }
}

/// Whether the environment says something about vectors that can be understood. For whoever sets up decoding.
///
/// # Errors
/// Another value of [`VARIABLE`] than those.
pub fn check_environment() -> Result<()> {
    limit().map(drop)
}

/// What the variable may say on this kind of machine.
const NAMES: &str = if cfg!(target_arch = "x86_64") {
    "avx512, avx2 or none"
} else if cfg!(target_arch = "aarch64") {
    "neon or none"
} else {
    "none"
};

/// The highest level that the environment allows; `None`: any.
fn limit() -> Result<Option<Level>> {
    match std::env::var_os(VARIABLE) {
        Some(value) => named(&value.to_string_lossy()),
        None => Ok(None),
    }
}

fn named(value: &str) -> Result<Option<Level>> {
    match value {
        "" => Ok(None),
        "none" => Ok(Some(Level::Portable)),
        #[cfg(target_arch = "x86_64")]
        "avx2" => Ok(Some(Level::Avx2)),
        #[cfg(target_arch = "x86_64")]
        "avx512" => Ok(Some(Level::Avx512)),
        #[cfg(target_arch = "aarch64")]
        "neon" => Ok(Some(Level::Neon)),
        _ => Err(Error::config(format!("the environment names no vector instructions: {NAMES}, or unset it"))
            .with("variable", VARIABLE)
            .with("value", value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_level_or_an_error_that_says_which_there_are() {
        assert_eq!(named("").unwrap(), None);
        assert_eq!(named("none").unwrap(), Some(Level::Portable));
        #[cfg(target_arch = "x86_64")]
        assert!(named("avx2").unwrap() < named("avx512").unwrap());
        let message = named("sse9").unwrap_err().to_string();
        assert!(message.contains(NAMES) && message.contains("sse9") && message.contains(VARIABLE), "{message}");
    }

    #[test]
    fn levels_grow_and_the_one_in_use_is_the_last_that_is_allowed() {
        let levels: Vec<Level> = Vectors::available().into_iter().map(Vectors::level).collect();
        assert!(levels.is_sorted(), "{levels:?}");
        let limit = limit().unwrap();
        let allowed = levels.into_iter().rfind(|level| limit.is_none_or(|limit| *level <= limit));
        assert_eq!(Some(Vectors::in_use().level()), allowed);
    }
}
