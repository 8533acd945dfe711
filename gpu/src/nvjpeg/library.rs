//! Search for nvJPEG: the requested file, or the first of the usual ones that can be used.

use super::sys;
use crate::libraries::{first_missing, load_first};
use forebay_loader::{Error, ErrorKind, Result};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// Environment variable with the library's path.
const LIBRARY_VARIABLE: &str = "FOREBAY_NVJPEG_LIBRARY";

/// Versions with the interface of the bindings, newest first.
const SONAMES: [&str; 2] = ["libnvjpeg.so.13", "libnvjpeg.so.12"];

/// Folders of NVIDIA's wheels for CUDA 13 and for 12, below a folder of Python packages.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/nvjpeg/lib"];

/// Loaded library. It is never unloaded: it could not clean up in a forked child or while the driver shuts down.
pub(crate) struct Library {
    pub(super) functions: ManuallyDrop<sys::NvJpeg>,
}

impl Library {
    /// Loads the library at `path`, or the one in the environment's variable, or the system's, or one from NVIDIA's or
    /// torchvision's wheels in `packages`, folders of Python packages. Candidates are tried until `open` succeeds: a
    /// library for a newer CUDA than the driver's loads but cannot be used.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the paths tried; `Full` if a library was found but the device has no memory for it.
    pub(crate) fn find<T>(path: Option<&Path>, packages: &[PathBuf], open: impl Fn(Self) -> Result<T>) -> Result<T> {
        let no_memory = OnceCell::new();
        let load = |file: &OsString| {
            let shown = Path::new(file).display();
            let describe = |error: Error| {
                let text = format!("{shown}: {error}");
                if error.kind() == ErrorKind::Full {
                    let _ = no_memory.set(error);
                }
                text
            };
            Self::load(file).and_then(|library| open(library).map_err(describe))
        };
        let found = load_first(path, LIBRARY_VARIABLE, || candidates(packages), load);
        found.map_err(|errors| {
            // The library was found, so the advice to install one would be wrong.
            if let Some(error) = no_memory.into_inner() {
                return error;
            }
            let message = format!(
                "nvJPEG cannot be used: install the Python package nvidia-nvjpeg-cu12 or nvidia-nvjpeg, or set \
                 {LIBRARY_VARIABLE} to the library ({errors})"
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    fn load(file: &OsString) -> std::result::Result<Self, String> {
        let shown = Path::new(file).display();
        // SAFETY: the initialisers of the library need no preparation.
        let loaded = unsafe { sys::NvJpeg::new(file) };
        let functions = loaded.map_err(|error| format!("{shown}: {error}"))?;
        match missing(&functions) {
            None => Ok(Self { functions: ManuallyDrop::new(functions) }),
            Some(function) => {
                Err(format!("{shown}: it has no {function}, so it is older than 12.0 or a different library"))
            }
        }
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

/// Returns the files to try if none is requested, in this order.
fn candidates(packages: &[PathBuf]) -> Vec<OsString> {
    let mut candidates: Vec<OsString> = SONAMES.iter().map(OsString::from).collect();
    for folder in packages {
        let wheels = WHEEL_FOLDERS.iter().flat_map(|wheel| SONAMES.map(|name| folder.join(wheel).join(name)));
        candidates.extend(wheels.filter(|file| file.exists()).map(PathBuf::into_os_string));
        // torchvision's file name has a hash in it.
        let bundled = std::fs::read_dir(folder.join("torchvision.libs")).into_iter().flatten().flatten();
        let bundled = bundled.filter(|entry| entry.file_name().to_string_lossy().starts_with("libnvjpeg"));
        candidates.extend(bundled.map(|entry| entry.path().into_os_string()));
    }
    candidates
}

/// Returns a function in use that the library does not have. A call of it would panic.
fn missing(functions: &sys::NvJpeg) -> Option<&'static str> {
    first_missing!(
        functions;
        nvjpegGetProperty,
        nvjpegCreateEx,
        nvjpegDestroy,
        nvjpegGetHardwareDecoderInfo,
        nvjpegJpegStateCreate,
        nvjpegJpegStateDestroy,
        nvjpegJpegStreamCreate,
        nvjpegJpegStreamDestroy,
        nvjpegJpegStreamParseHeader,
        nvjpegDecodeParamsCreate,
        nvjpegDecodeParamsDestroy,
        nvjpegDecodeParamsSetROI,
        nvjpegDecodeBatchedSupportedEx,
        nvjpegDecodeBatchedInitialize,
        nvjpegDecodeBatched,
        nvjpegDecodeBatchedEx,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_library_is_tried_before_those_of_python_packages() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = |name: &str| folder.path().join(name);
        for file in [
            "nvidia/nvjpeg/lib/libnvjpeg.so.12",
            "torchvision.libs/libnvjpeg.70530407.so.13",
            "torchvision.libs/libz.so.1",
        ] {
            std::fs::create_dir_all(below(file).parent().expect("a folder")).expect("made");
            std::fs::write(below(file), "").expect("written");
        }
        let expected: Vec<OsString> = vec![
            "libnvjpeg.so.13".into(),
            "libnvjpeg.so.12".into(),
            below("nvidia/nvjpeg/lib/libnvjpeg.so.12").into(),
            below("torchvision.libs/libnvjpeg.70530407.so.13").into(),
        ];
        assert_eq!(candidates(&[below("nothing"), folder.path().into()]), expected);
    }

    #[test]
    fn a_requested_library_is_the_only_one_that_is_tried() {
        let error = Library::find(Some(Path::new("libc.so.6")), &[], Ok).expect_err("no nvJPEG");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("libc.so.6: it has no nvjpegGetProperty"), "{error}");
        let error = Library::find(Some(Path::new("/nowhere/libnvjpeg.so.12")), &[], Ok).expect_err("no file");
        assert!(error.to_string().contains("/nowhere/libnvjpeg.so.12"), "{error}");
    }
}
