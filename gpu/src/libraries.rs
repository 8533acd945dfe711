//! Which files NVIDIA's libraries are.

use std::path::PathBuf;

/// Where NVIDIA's libraries are looked for. By default as [`CudaTarget::new`](crate::CudaTarget::new) says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Libraries {
    /// The driver's library; `None`: what `FOREBAY_CUDA_LIBRARY` names, or the system's. A process has one: once it is
    /// loaded, another one is an error.
    pub driver: Option<PathBuf>,
    /// nvJPEG; `None`: what `FOREBAY_NVJPEG_LIBRARY` names, or the system's, or one in `packages`.
    pub nvjpeg: Option<PathBuf>,
    /// Folders of Python packages, such as `site-packages`, where wheels of NVIDIA's and torchvision's may have brought
    /// nvJPEG.
    pub packages: Vec<PathBuf>,
}
