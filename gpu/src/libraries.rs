//! Search for NVIDIA's libraries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Paths of NVIDIA's libraries. The default is described at [`CudaDelivery::new`](crate::CudaDelivery::new).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// Driver library. `None` means the one in `FOREBAY_CUDA_LIBRARY`, or the system's. A process has one driver
    /// library: after it is loaded, a request for a second one is an error.
    pub driver: Option<PathBuf>,
    /// nvJPEG. `None` means the one in `FOREBAY_NVJPEG_LIBRARY`, or the system's, or one in `packages`.
    pub nvjpeg: Option<PathBuf>,
    /// cuFile. `None` means the one in `FOREBAY_CUFILE_LIBRARY`, or the system's, or one in `packages`.
    pub cufile: Option<PathBuf>,
    /// Folders of Python packages, such as `site-packages`, that may have nvJPEG and cuFile from NVIDIA's or
    /// torchvision's wheels.
    pub packages: Vec<PathBuf>,
}

/// Loads the library at `path`, or the one in the environment's `variable`, or else the first of `candidates` that
/// loads.
///
/// # Errors
///
/// The errors of all libraries that were tried, since the last one may be the only one that exists.
pub(crate) fn load_first<T>(
    path: Option<&Path>,
    variable: &str,
    candidates: impl FnOnce() -> Vec<OsString>,
    load: impl Fn(&OsString) -> Result<T, String>,
) -> Result<T, String> {
    let mut errors = Vec::new();
    for candidate in &requested(path, variable).map_or_else(candidates, |file| vec![file]) {
        match load(candidate) {
            Ok(library) => return Ok(library),
            Err(error) => errors.push(error),
        }
    }
    Err(errors.join("; "))
}

/// Returns the library that `path` or the environment's `variable` requests. An empty variable requests none.
pub(crate) fn requested(path: Option<&Path>, variable: &str) -> Option<OsString> {
    let of_environment = || std::env::var_os(variable).filter(|name| !name.is_empty());
    path.map(|path| path.as_os_str().to_owned()).or_else(of_environment)
}

/// Returns the first of the given functions that bindgen's `$library` has not found in its file. A call of it would
/// panic.
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
    fn the_error_has_all_failures_and_the_first_library_that_loads_is_used() {
        let candidates = || ["a", "b", "c"].map(Into::into).to_vec();
        let load = |last: &'static str| {
            move |file: &std::ffi::OsString| {
                if file == last { Ok(last) } else { Err(format!("{}: no", file.display())) }
            }
        };
        assert_eq!(load_first(None, "FOREBAY_NO_SUCH_LIBRARY", candidates, load("b")), Ok("b"));
        let error = load_first(None, "FOREBAY_NO_SUCH_LIBRARY", candidates, load("d"));
        assert_eq!(error, Err("a: no; b: no; c: no".to_owned()));
    }
}
