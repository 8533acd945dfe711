//! Search for cuFile: the requested file, or the first of the usual ones that loads.

use super::sys;
use crate::libraries::{first_missing, load_first};
use forebay_loader::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};

/// Environment variable with the library's path.
const LIBRARY_VARIABLE: &str = "FOREBAY_CUFILE_LIBRARY";

/// Version with the interface of the bindings.
const SONAME: &str = "libcufile.so.0";

/// Folders of NVIDIA's wheels for CUDA 13 and for 12, below a folder of Python packages.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cufile/lib"];

/// Loaded library. It is never unloaded: it could not clean up in a forked child or while the driver shuts down.
pub(crate) struct Library {
    pub(super) functions: ManuallyDrop<sys::CuFile>,
}

impl Library {
    /// Loads the library at `path`, or the one in the environment's variable, or the system's, or one from NVIDIA's
    /// wheels in `packages`, folders of Python packages. A library that was not requested is not tried on machines on
    /// which it may crash.
    ///
    /// # Errors
    ///
    /// `Unsupported`, with the paths tried.
    pub(crate) fn find(path: Option<&Path>, packages: &[PathBuf]) -> Result<Self> {
        if path.is_none() && std::env::var_os(LIBRARY_VARIABLE).is_none() {
            check_machine(Path::new("/"))?;
        }
        let loaded = load_first(path, LIBRARY_VARIABLE, || candidates(packages), Self::load);
        loaded.map_err(|errors| {
            let message = format!(
                "cuFile cannot be loaded: install NVIDIA GPUDirect Storage or the Python package nvidia-cufile-cu12 or \
                 nvidia-cufile, or set {LIBRARY_VARIABLE} to the library ({errors})"
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    fn load(file: &OsString) -> std::result::Result<Self, String> {
        let shown = Path::new(file).display();
        // SAFETY: the initialisers of the library need no preparation.
        let loaded = unsafe { sys::CuFile::new(file) };
        let functions = loaded.map_err(|error| format!("{shown}: {error}"))?;
        match missing(&functions) {
            None => Ok(Self { functions: ManuallyDrop::new(functions) }),
            Some(function) => Err(format!("{shown}: it has no {function}, so it is a different library")),
        }
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

/// Fails if the library may crash on the machine below `root`. It has crashed on opening, mostly in virtual machines
/// and containers in which it does not find the devices that it expects.
fn check_machine(root: &Path) -> Result<()> {
    let has_device = || {
        let names = std::fs::read_dir(root.join("dev")).into_iter().flatten().flatten();
        names.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with("nvidia-fs"))
    };
    let what = if !root.join("run/udev").is_dir() {
        "there is no /run/udev"
    } else if root.join("proc/driver/nvidia-fs/devcount").exists() && !has_device() {
        "nvidia-fs is loaded, and there is no /dev/nvidia-fs*"
    } else {
        return Ok(());
    };
    let message = format!(
        "cuFile is not loaded, since it may crash the process where {what}: if it is known to work here, set \
         {LIBRARY_VARIABLE} to the library, such as {SONAME}"
    );
    Err(Error::new(ErrorKind::Unsupported, message))
}

/// Returns the files to try if none is requested, in this order.
fn candidates(packages: &[PathBuf]) -> Vec<OsString> {
    let wheels = packages.iter().flat_map(|folder| WHEEL_FOLDERS.map(|wheel| folder.join(wheel).join(SONAME)));
    let wheels = wheels.filter(|file| file.exists()).map(PathBuf::into_os_string);
    std::iter::once(SONAME.into()).chain(wheels).collect()
}

/// Returns a function in use that the library does not have. A call of it would panic.
fn missing(functions: &sys::CuFile) -> Option<&'static str> {
    first_missing!(
        functions;
        cuFileDriverOpen,
        cuFileDriverGetProperties,
        cuFileHandleRegister,
        cuFileHandleDeregister,
        cuFileRead,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_s_library_is_tried_before_those_of_python_packages() {
        let folder = tempfile::tempdir().expect("a folder");
        let wheel = folder.path().join("nvidia/cufile/lib/libcufile.so.0");
        std::fs::create_dir_all(wheel.parent().expect("a folder")).expect("made");
        std::fs::write(&wheel, "").expect("written");
        let expected: Vec<OsString> = vec!["libcufile.so.0".into(), wheel.into()];
        assert_eq!(candidates(&[folder.path().join("nothing"), folder.path().into()]), expected);
    }

    #[test]
    fn the_library_is_not_tried_on_a_machine_without_its_devices() {
        let root = tempfile::tempdir().expect("a folder");
        let make = |name: &str| std::fs::create_dir_all(root.path().join(name)).expect("made");
        let check = || check_machine(root.path()).map_err(|error| error.to_string());
        assert!(check().expect_err("no udev").contains("no /run/udev"));
        make("run/udev");
        make("dev/nvidia0");
        assert_eq!(check(), Ok(()));
        make("proc/driver/nvidia-fs/devcount");
        assert!(check().expect_err("no device").contains("no /dev/nvidia-fs*"));
        make("dev/nvidia-fs0");
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn a_requested_library_is_the_only_one_that_is_tried() {
        let error = Library::find(Some(Path::new("libc.so.6")), &[]).expect_err("no cuFile");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("libc.so.6: it has no cuFileDriverOpen"), "{error}");
    }
}
