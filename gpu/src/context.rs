//! One device's primary context (the one that frameworks use too), its streams and its events.

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

/// What the driver answers while somebody captures a graph: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED and those that follow.
const CAPTURING: RangeInclusive<u32> = 900..=908;

/// A capture takes less.
pub(crate) const CAPTURE_MAX: Duration = Duration::from_secs(60);

/// Devices that this process sees, which `CUDA_VISIBLE_DEVICES` may restrict.
pub(crate) fn device_count(library: Option<&Path>) -> Result<u32> {
    driver::load(library)?;
    Ok(checked(device::get_count(), "cuDeviceGetCount")?.max(0) as u32)
}

/// A retained primary context. Its calls work on any thread and leave the thread's current context as it was.
pub(crate) struct Context {
    pub(crate) number: u32,
    device: CUdevice,
    context: CUcontext,
    /// The driver does not work in a forked child, where nothing may be given back.
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
                "there is no CUDA device {number}, this process sees {count}: name one from 0, or change CUDA_VISIBLE_DEVICES"
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let of_device = |e: Error| e.with("device", number);
        let device = checked(device::get(number as c_int), "cuDeviceGet").map_err(of_device)?;
        // SAFETY: the device is the one just got.
        let context = checked(unsafe { primary_ctx::retain(device) }, "cuDevicePrimaryCtxRetain").map_err(of_device)?;
        Ok(Arc::new(Self { number, device, context, pid: std::process::id() }))
    }

    /// Whether this process made the context.
    pub(crate) fn is_own_process(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Runs `body` with the context current. It may wait for events and allocate while another thread captures a graph: by
    /// default the driver would refuse that, and end the capture.
    ///
    /// # Errors
    ///
    /// `Closed` in a forked child; what the driver and `body` say.
    pub(crate) fn enter<T>(&self, body: impl FnOnce() -> Result<T>) -> Result<T> {
        if !self.is_own_process() {
            return Err(Error::new(ErrorKind::Closed, driver::FORKED).with("device", self.number));
        }
        // SAFETY: the context is retained while `self` lives.
        let pushed = unsafe { sys::cuCtxPushCurrent_v2(self.context) };
        checked(pushed.result(), "cuCtxPushCurrent").map_err(|e| e.with("device", self.number))?;
        let mut mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let relaxed = exchange_capture_mode(&mut mode);
        let answer = relaxed.and_then(|()| {
            let answer = body();
            // Back to what it was; `answer` says more than a refusal of this.
            let restored = exchange_capture_mode(&mut mode);
            answer.and_then(|answer| restored.map(|()| answer))
        });
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one handle; the context was pushed above, on this thread.
        let code = unsafe { sys::cuCtxPopCurrent_v2(&mut popped) };
        answer
            .and_then(|answer| checked(code.result(), "cuCtxPopCurrent").map(|()| answer))
            .map_err(|e| e.with("device", self.number))
    }

    /// Waits on the host until everything that was given to the device is done, by anybody. That ends a capture of a graph,
    /// whatever its mode, so it is for what consumers have given to streams that have no name here, and nothing else. Where the
    /// driver refuses it during a capture, it is tried again until that is over.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let last = Instant::now() + CAPTURE_MAX;
        self.enter(|| {
            loop {
                match ctx::synchronize() {
                    Err(refusal) if CAPTURING.contains(&(refusal.0 as u32)) && Instant::now() < last => {
                        std::thread::sleep(Duration::from_millis(10));
                    }
                    answer => return checked(answer, "cuCtxSynchronize"),
                }
            }
        })
    }

    /// Whether a graph is being captured that work on `stream` would become a part of, or end.
    pub(crate) fn is_captured(&self, stream: CUstream) -> Result<bool> {
        self.enter(|| {
            let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
            // SAFETY: writes one value; the stream is ours or one that the consumer vouches for.
            match unsafe { sys::cuStreamIsCapturing(stream, &mut status) }.result() {
                // The default stream, while one that waits for it captures.
                Err(refusal) if CAPTURING.contains(&(refusal.0 as u32)) => Ok(true),
                answer => checked(answer, "cuStreamIsCapturing")
                    .map(|()| status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE),
            }
        })
    }

    /// The device's address on the PCI bus, "0000:3b:00.0".
    pub(crate) fn bus_id(&self) -> Result<String> {
        let mut text = [0u8; 32];
        // SAFETY: writes at most 31 bytes and a NUL into an array of 32.
        let code = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), 31, self.device) };
        checked(code.result(), "cuDeviceGetPCIBusId")?;
        Ok(CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy().into_owned())
    }
}

/// Sets what this thread may do while another one captures a graph, to `mode`, which becomes what it was.
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

/// A stream that does not wait for the legacy default stream.
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
    /// Until the stream has done it, nobody writes `source` or frees it, whether it is registered with the device or not: drivers
    /// copy other memory aside only where the device cannot read it. There is room at `target`, which nobody else uses until then.
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
    /// There is room at `target`, which starts a word and which nobody else uses until the stream has done it.
    pub(crate) unsafe fn fill(&self, target: CUdeviceptr, word: u32, bytes: usize) -> Result<()> {
        self.context.enter(|| {
            // SAFETY: by the contract above; the stream is alive. cudarc has no function of its own for it.
            let code = unsafe { sys::cuMemsetD32Async(target, word, bytes.div_ceil(size_of::<u32>()), self.handle) };
            checked(code.result(), "cuMemsetD32Async")
        })
    }

    /// Waits on the host for what it has been given so far.
    pub(crate) fn wait(&self) -> Result<()> {
        let event = Event::new(&self.context)?;
        event.record(self.handle)?;
        event.wait()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.is_own_process() {
            // SAFETY: made in `new`, destroyed once; the driver finishes what is queued.
            let _ = self.context.enter(|| checked(unsafe { stream::destroy(self.handle) }, "cuStreamDestroy"));
        }
    }
}

/// All streams that the engine has on a device. Their work can be waited for without the model's, and in the middle of a capture.
#[derive(Default)]
pub(crate) struct OwnStreams(Mutex<Vec<Arc<Stream>>>);

impl OwnStreams {
    /// One more, which stays as long as these.
    pub(crate) fn open(&self, context: &Arc<Context>) -> Result<Arc<Stream>> {
        let stream = Arc::new(Stream::new(context)?);
        self.0.lock().push(stream.clone());
        Ok(stream)
    }

    /// Waits on the host until all is done that they were given.
    pub(crate) fn wait(&self) -> Result<()> {
        let streams = self.0.lock().clone();
        streams.iter().try_for_each(|stream| stream.wait())
    }
}

/// An event for which a thread waits asleep rather than in a loop.
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

    /// One that knows when it fired, for [`since`](Self::since).
    pub(crate) fn timed(context: &Arc<Context>) -> Result<Self> {
        Self::with_flags(context, 0)
    }

    fn with_flags(context: &Arc<Context>, flags: u32) -> Result<Self> {
        let flags = flags | CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;
        let mut handle = std::ptr::null_mut();
        // cudarc's `event::create` takes one flag.
        context.enter(|| {
            // SAFETY: writes one handle.
            checked(unsafe { sys::cuEventCreate(&mut handle, flags) }.result(), "cuEventCreate")
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Fires when what `stream` has been given so far is done.
    pub(crate) fn record(&self, stream: CUstream) -> Result<()> {
        self.context.enter(|| {
            // SAFETY: the event is alive; the stream is ours or one that the consumer vouches for.
            checked(unsafe { event::record(self.handle, stream) }, "cuEventRecord")
        })
    }

    /// Makes what `stream` is given from now on wait for the event. Does not wait itself.
    pub(crate) fn delay(&self, stream: CUstream) -> Result<()> {
        let flags = CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
        self.context.enter(|| {
            // SAFETY: the event is alive; the stream is ours or one that the consumer vouches for.
            checked(unsafe { stream::wait_event(stream, self.handle, flags) }, "cuStreamWaitEvent")
        })
    }

    /// Whether what the stream had been given is done.
    pub(crate) fn has_fired(&self) -> Result<bool> {
        self.context.enter(|| {
            // SAFETY: the event is alive.
            match unsafe { event::query(self.handle) } {
                Err(DriverError(CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
                answer => checked(answer, "cuEventQuery").map(|()| true),
            }
        })
    }

    /// Seconds from when `begun` fired to when this did; both are timed, and have fired.
    pub(crate) fn seconds_since(&self, begun: &Self) -> Result<f64> {
        self.context.enter(|| {
            // SAFETY: both events are alive.
            let milliseconds = unsafe { event::elapsed(begun.handle, self.handle) };
            checked(milliseconds, "cuEventElapsedTime").map(|milliseconds| f64::from(milliseconds) / 1e3)
        })
    }

    /// Waits on the host.
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
            // SAFETY: made in `new`, destroyed once; the driver keeps what a stream still waits for.
            let _ = self.context.enter(|| checked(unsafe { event::destroy(self.handle) }, "cuEventDestroy"));
        }
    }
}
