//! Primary context of a device, which frameworks use too, with its streams and events.

use crate::driver::{self, checked};
use cudarc::driver::result::{DriverError, ctx, device, event, memcpy_htod_async, primary_ctx, stream};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdeviceptr, CUevent, CUevent_flags, CUevent_wait_flags, CUresult, CUstream,
    CUstreamCaptureMode, CUstreamCaptureStatus,
};
use forebay_loader::sync::{Arc, Mutex};
use forebay_loader::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_int};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

/// Errors of the driver during the capture of a graph: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and the following numbers.
const CAPTURING: RangeInclusive<u32> = 900..=908;

/// Limit of the wait for the end of a graph capture.
pub(crate) const CAPTURE_MAX: Duration = Duration::from_secs(60);

/// Returns the number of devices that this process sees, which `CUDA_VISIBLE_DEVICES` may restrict. `library` is the
/// driver's library, instead of the system's.
///
/// # Errors
///
/// `Unsupported` without a driver, or with one that is too old.
pub fn device_count(library: Option<&Path>) -> Result<u32> {
    driver::load(library)?;
    Ok(checked(device::get_count(), "cuDeviceGetCount")?.max(0) as u32)
}

/// Retained primary context. Its calls work on any thread and leave the thread's current context as it was.
pub(crate) struct Context {
    pub(crate) number: u32,
    device: CUdevice,
    context: CUcontext,
    /// Process that opened the context. The driver does not work in a forked child, so nothing may be released there.
    pid: u32,
}

// SAFETY: the driver's functions may be called from any thread, and the context handle is only passed to them.
unsafe impl Send for Context {}
// SAFETY: as above; nothing in here changes after `open`.
unsafe impl Sync for Context {}

impl Context {
    /// Opens device `number`.
    pub(crate) fn open(number: u32, library: Option<&Path>) -> Result<Arc<Self>> {
        let count = device_count(library)?;
        if number >= count {
            let message = format!(
                "there is no CUDA device {number}, this process sees {count}: name one from 0, or change \
                 CUDA_VISIBLE_DEVICES"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let of_device = |e: Error| e.with("device", number);
        let device = checked(device::get(number as c_int), "cuDeviceGet").map_err(of_device)?;
        // SAFETY: the device handle comes from the call above.
        let context = checked(unsafe { primary_ctx::retain(device) }, "cuDevicePrimaryCtxRetain").map_err(of_device)?;
        Ok(Arc::new(Self { number, device, context, pid: std::process::id() }))
    }

    /// Returns true if this process opened the context.
    pub(crate) fn is_own_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Runs `body` with the context current. The body may wait for events and allocate memory while a second thread
    /// captures a graph: by default the driver would reject these calls and end the capture.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child; errors of the driver and of `body`.
    pub(crate) fn enter<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.is_own_process() {
            return Err(Error::new(ErrorKind::Closed, driver::FORKED).with("device", self.number));
        }
        // SAFETY: the context is retained while `self` lives.
        let pushed = unsafe { sys::cuCtxPushCurrent_v2(self.context) };
        checked(pushed.result(), "cuCtxPushCurrent").map_err(|e| e.with("device", self.number))?;
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let relaxed = exchange_capture_mode(&mut mode);
        let result = relaxed.and_then(|()| {
            let result = body();
            // Restores the mode. An error of `body` takes precedence over one of this call.
            let restored = exchange_capture_mode(&mut mode);
            result.and_then(|result| restored.map(|()| result))
        });
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one handle; the context was pushed above, on this thread.
        let code = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
        result
            .and_then(|result| checked(code.result(), "cuCtxPopCurrent").map(|()| result))
            .map_err(|e| e.with("device", self.number))
    }

    /// Waits on the host for all work on the device, including work of libraries. This ends the capture of a
    /// graph in any mode, so it is only used for memory that a consumer reads on a stream without a handle. If the
    /// driver rejects the call during a capture, it is retried until the capture is over.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let last = Instant::now() + CAPTURE_MAX;
        self.enter(|| {
            loop {
                match ctx::synchronize() {
                    Err(error) if CAPTURING.contains(&(error.0 as u32)) && Instant::now() < last => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    result => return checked(result, "cuCtxSynchronize"),
                }
            }
        })
    }

    /// Returns true if work on `stream` would become part of a graph that is being captured, or would end its capture.
    pub(crate) fn is_captured(&self, stream: CUstream) -> Result<bool> {
        self.enter(|| {
            let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
            // SAFETY: writes one value; the stream is this crate's or one that the consumer passed as valid.
            match unsafe { sys::cuStreamIsCapturing(stream, &mut status) }.result() {
                // The default stream, while a stream that waits for it captures a graph.
                Err(error) if CAPTURING.contains(&(error.0 as u32)) => Ok(true),
                result => checked(result, "cuStreamIsCapturing")
                    .map(|()| status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE),
            }
        })
    }

    /// Returns the device's address on the PCI bus, such as "0000:3b:00.0".
    pub(crate) fn bus_id(&self) -> Result<String> {
        let mut text = [0u8; 32];
        // SAFETY: writes at most 31 bytes and a NUL into an array of 32.
        let code = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), 31, self.device) };
        checked(code.result(), "cuDeviceGetPCIBusId")?;
        Ok(CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned())
    }
}

/// Swaps `mode` with the mode of this thread for calls during a capture by a different thread of a graph.
fn exchange_capture_mode(mode: &mut CUstreamCaptureMode) -> Result<()> {
    // SAFETY: reads and writes one value.
    let code = unsafe { sys::cuThreadExchangeStreamCaptureMode(mode) };
    checked(code.result(), "cuThreadExchangeStreamCaptureMode")
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_own_process() {
            // SAFETY: retained once in `open`, released once here.
            let _ = unsafe { primary_ctx::release(self.device) };
        }
    }
}

/// Stream that does not wait for the legacy default stream.
pub(crate) struct Stream {
    context: Arc<Context>,
    pub(crate) handle: CUstream,
}

// SAFETY: the handle is only passed to the driver, which may be called from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let handle = context.enter(|| checked(stream::create(stream::StreamKind::NonBlocking), "cuStreamCreate"))?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Starts copying `source` to `target` on the device.
    ///
    /// # Safety
    ///
    /// `source` is neither written nor freed until the stream has done the copy, even if it is not registered with the
    /// device: drivers copy such memory to a staging buffer only if the device cannot read it directly. The memory at
    /// `target` is large enough and is used by nothing else until then.
    pub(crate) unsafe fn copy_in(&self, target: CUdeviceptr, source: &[u8]) -> Result<()> {
        self.context.enter(|| {
            // SAFETY: by the contract above; the stream is alive.
            checked(unsafe { memcpy_htod_async(target, source, self.handle) }, "cuMemcpyHtoDAsync")
        })
    }

    /// Starts filling `bytes` bytes at `target` with `word`, rounded up to whole words.
    ///
    /// # Safety
    ///
    /// The memory at `target` is aligned to words and large enough, and is used by nothing else until the stream has
    /// filled it.
    pub(crate) unsafe fn fill(&self, target: CUdeviceptr, word: u32, bytes: usize) -> Result<()> {
        self.context.enter(|| {
            // SAFETY: by the contract above; the stream is alive. cudarc has no wrapper for this function.
            let code = unsafe { sys::cuMemsetD32Async(target, word, bytes.div_ceil(size_of::<u32>()), self.handle) };
            checked(code.result(), "cuMemsetD32Async")
        })
    }

    /// Waits on the host for the work queued so far.
    pub(crate) fn wait(&self) -> Result<()> {
        let event = Event::new(&self.context)?;
        event.record(self.handle)?;
        event.wait()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.is_own_process() {
            // SAFETY: made in `new`, destroyed once; the driver finishes the queued work.
            let _ = self.context.enter(|| checked(unsafe { stream::destroy(self.handle) }, "cuStreamDestroy"));
        }
    }
}

/// All streams that this crate has opened on a device. A wait for them does not include the model's work and is allowed
/// during the capture of a graph.
#[derive(Default)]
pub(crate) struct OwnStreams(Mutex<Vec<Arc<Stream>>>);

impl OwnStreams {
    /// Opens one more stream. It lives as long as this set.
    pub(crate) fn open(&self, context: &Arc<Context>) -> Result<Arc<Stream>> {
        let stream = Arc::new(Stream::new(context)?);
        self.0.lock().push(stream.clone());
        Ok(stream)
    }

    /// Waits on the host for the work queued so far on all streams.
    pub(crate) fn wait(&self) -> Result<()> {
        let streams = self.0.lock().clone();
        streams.iter().try_for_each(|stream| stream.wait())
    }
}

/// Event for which a thread waits asleep rather than in a busy loop.
pub(crate) struct Event {
    context: Arc<Context>,
    handle: CUevent,
}

// SAFETY: the handle is only passed to the driver, which may be called from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        Self::with_flags(context, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)
    }

    /// Creates an event that records its time, for [`seconds_since`](Self::seconds_since).
    pub(crate) fn timed(context: &Arc<Context>) -> Result<Self> {
        Self::with_flags(context, 0)
    }

    fn with_flags(context: &Arc<Context>, flags: u32) -> Result<Self> {
        let flags = flags | CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        let mut handle = std::ptr::null_mut();
        // cudarc's `event::create` takes only one flag.
        context.enter(|| {
            // SAFETY: writes one handle.
            checked(unsafe { sys::cuEventCreate(&mut handle, flags) }.result(), "cuEventCreate")
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Makes the event fire after the work queued so far on `stream`.
    pub(crate) fn record(&self, stream: CUstream) -> Result<()> {
        self.context.enter(|| {
            // SAFETY: the event is alive; the stream is this crate's or one that the consumer passed as valid.
            checked(unsafe { event::record(self.handle, stream) }, "cuEventRecord")
        })
    }

    /// Makes work that is queued on `stream` from now on wait for the event. The call itself does not wait.
    pub(crate) fn delay(&self, stream: CUstream) -> Result<()> {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        self.context.enter(|| {
            // SAFETY: the event is alive; the stream is this crate's or one that the consumer passed as valid.
            checked(unsafe { stream::wait_event(stream, self.handle, flags) }, "cuStreamWaitEvent")
        })
    }

    /// Returns true if the event has fired.
    pub(crate) fn has_fired(&self) -> Result<bool> {
        self.context.enter(|| {
            // SAFETY: the event is alive.
            match unsafe { event::query(self.handle) } {
                Err(DriverError(CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
                result => checked(result, "cuEventQuery").map(|()| true),
            }
        })
    }

    /// Returns the seconds from event `started` to this one. Both record their times and have fired.
    pub(crate) fn seconds_since(&self, started: &Self) -> Result<f64> {
        self.context.enter(|| {
            // SAFETY: both events are alive.
            let milliseconds = unsafe { event::elapsed(started.handle, self.handle) };
            checked(milliseconds, "cuEventElapsedTime").map(|milliseconds| f64::from(milliseconds) / 1e3)
        })
    }

    /// Waits on the host until the event has fired.
    pub(crate) fn wait(&self) -> Result<()> {
        self.context.enter(|| {
            // SAFETY: the event is alive.
            checked(unsafe { event::synchronize(self.handle) }, "cuEventSynchronize")
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.is_own_process() {
            // SAFETY: made in `with_flags`, destroyed once; the driver keeps it while a stream waits for it.
            let _ = self.context.enter(|| checked(unsafe { event::destroy(self.handle) }, "cuEventDestroy"));
        }
    }
}
