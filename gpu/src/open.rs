//! Opening of the device that a user names, such as `cuda:0`.

use crate::context::device_count;
use crate::{CudaDelivery, Libraries};
use forebay_loader::delivery::{Delivery, HostDelivery};
use forebay_loader::sync::Arc;
use forebay_loader::{Error, Result};

/// Opens the delivery for the device that a user names: "cpu", "cuda:0", or "cuda". The last means the device with
/// number `local_rank`, or the only device that the process sees. CUDA is loaded, from `libraries`, only
/// for a CUDA device.
///
/// # Errors
///
/// `Config` for an unknown name; the errors of [`CudaDelivery::new`].
pub fn open_delivery(device: &str, local_rank: u32, libraries: &Libraries) -> Result<Arc<dyn Delivery>> {
    let (kind, number) = device.split_once(':').map_or((device, None), |(kind, number)| (kind, Some(number)));
    match (kind, number.map(str::parse)) {
        ("cpu", None) => Ok(Arc::new(HostDelivery)),
        ("cuda", Some(Ok(number))) => Ok(CudaDelivery::with_libraries(number, libraries)?),
        ("cuda", None) => {
            let is_only = device_count(libraries.driver.as_deref())? == 1;
            Ok(CudaDelivery::with_libraries(if is_only { 0 } else { local_rank }, libraries)?)
        }
        _ => Err(Error::config("this is not a device: use \"cpu\", \"cuda\", or \"cuda:0\" with its number")
            .with("device", device)),
    }
}
