//! Which files NVIDIA's libraries are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where NVIDIA's libraries are looked for. By default as [`CudaDelivery::new`](crate::CudaDelivery::new) says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// The driver's library; `None`: what `FOREBAY_CUDA_LIBRARY` names, or the system's. A process has one: once it is
    /// loaded, another one is an error.
    pub driver: Option<PathBuf>,
    /// nvJPEG; `None`: what `FOREBAY_NVJPEG_LIBRARY` names, or the system's, or one in `packages`.
    pub nvjpeg: Option<PathBuf>,
    /// cuFile; `None`: what `FOREBAY_CUFILE_LIBRARY` names, or the system's, or one in `packages`.
    pub cufile: Option<PathBuf>,
    /// Folders of Python packages, such as `site-packages`, where wheels of NVIDIA's and torchvision's may have brought
    /// nvJPEG and cuFile.
    pub packages: Vec<PathBuf>,
}

/// Loads the library at `path`, or the one that the environment's `variable` names; without either, the first of `candidates`
/// that loads.
///
/// # Errors
///
/// Why none loads of all that were tried: the last may be the only one that is there.
pub(crate) fn load_first<T>(
    path: Option<&Path>,
    variable: &str,
    candidates: impl FnOnce() -> Vec<OsString>,
    load: impl Fn(&OsString) -> Result<T, String>,
) -> Result<T, String> {
    let mut refusals = Vec::new();
    for candidate in &named(path, variable).map_or_else(candidates, |named| vec![named]) {
        match load(candidate) {
            Ok(library) => return Ok(library),
            Err(why) => refusals.push(why),
        }
    }
    Err(refusals.join("; "))
}

/// The library that is named by `path` or the environment's `variable`; an empty one names none.
pub(crate) fn named(path: Option<&Path>, variable: &str) -> Option<OsString> {
    let of_environment = || std::env::var_os(variable).filter(|name| !name.is_empty());
    path.map(|path| path.as_os_str().to_owned()).or_else(of_environment)
}

/// The first of the named functions that bindgen's `$library` has not found in its file; calling it would panic.
macro_rules! first_missing {
    ($library:expr; $($function:ident),* $(,)?) => {
        [$((stringify!($function), $library.$function.is_err())),*]
            .into_iter()
            .find_map(|(function, is_missing)| is_missing.then_some(function))
    };
}
pub(crate) use first_missing;

#[cfg(test)]
mod tests {
    use super::load_first;

    #[test]
    fn all_that_was_tried_is_said_and_what_loads_ends_it() {
        let candidates = || ["a", "b", "c"].map(Into::into).to_vec();
        let load = |last: &'static str| {
            move |file: &std::ffi::OsString| {
                if file == last { Ok(last) } else { Err(format!("{}: no", file.display())) }
            }
        };
        assert_eq!(load_first(None, "FOREBAY_NO_SUCH_LIBRARY", candidates, load("b")), Ok("b"));
        let refusal = load_first(None, "FOREBAY_NO_SUCH_LIBRARY", candidates, load("d"));
        assert_eq!(refusal, Err("a: no; b: no; c: no".to_owned()));
    }
}
