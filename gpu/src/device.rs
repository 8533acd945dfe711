//! From a device's name, as users write it, to the target.

use crate::context::device_count;
use crate::{CudaDelivery, Libraries};
use forebay_loader::delivery::{Delivery, HostDelivery};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};

/// Where batches for `device` go: "cpu", "cuda:0", or "cuda" for the device of the process with `local_rank` on its
/// node, which is the only one where the process sees no other. CUDA is touched, by way of `libraries`, for a CUDA device
/// alone.
///
/// # Errors
///
/// `Config` for another name; those of [`CudaDelivery::new`].
pub fn open_delivery(device: &str, local_rank: u32, libraries: &Libraries) -> Result<Arc<dyn Delivery>> {
    let (kind, number) = device.split_once(':').map_or((device, None), |(kind, number)| (kind, Some(number)));
    match (kind, number.map(str::parse)) {
        ("cpu", None) => Ok(Arc::new(HostDelivery)),
        ("cuda", Some(Ok(number))) => Ok(CudaDelivery::with_libraries(number, libraries)?),
        ("cuda", None) => {
            let is_only = device_count(libraries.driver.as_deref())? == 1;
            Ok(CudaDelivery::with_libraries(if is_only { 0 } else { local_rank }, libraries)?)
        }
        _ => Err(Error::config("this is no device: use \"cpu\", \"cuda\", or \"cuda:0\" with its number")
            .with("device", device)),
    }
}
