//! One device's primary context (the one that frameworks use too), its streams and its events.

use crate::driver::{Driver, Object};
use forebay_loader::Result;
use forebay_loader::sync::Arc;
use std::ffi::c_int;
use std::path::Path;

/// A retained primary context. Its calls work on any thread and leave the thread's current context as it was.
pub(crate) struct Context {
    pub(crate) driver: Driver,
    pub(crate) number: u32,
    device: c_int,
    context: Object,
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
        let driver = Driver::load(library)?;
        let (mut device, mut context) = (0, std::ptr::null_mut());
        let ordinal = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: writes one int.
        let code = unsafe { (driver.device_get)(&mut device, ordinal) };
        driver.check(code, "cuDeviceGet").map_err(|e| e.with("device", number))?;
        // SAFETY: writes one handle; the device is the one just got.
        let code = unsafe { (driver.context_retain)(&mut context, device) };
        driver.check(code, "cuDevicePrimaryCtxRetain").map_err(|e| e.with("device", number))?;
        Ok(Arc::new(Self { driver, number, device, context, pid: std::process::id() }))
    }

    /// Whether this process made the context.
    pub(crate) fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    /// Runs `body` with the context current.
    pub(crate) fn enter<T>(&self, body: impl FnOnce(&Driver) -> Result<T>) -> Result<T> {
        // SAFETY: the context is retained while `self` lives.
        self.driver.check(unsafe { (self.driver.context_push)(self.context) }, "cuCtxPushCurrent")?;
        let answer = body(&self.driver);
        let mut popped = std::ptr::null_mut();
        // SAFETY: writes one handle; the context was pushed above, on this thread.
        let code = unsafe { (self.driver.context_pop)(&mut popped) };
        answer.and_then(|answer| self.driver.check(code, "cuCtxPopCurrent").map(|()| answer))
    }

    /// Waits on the host until everything that was given to the device is done.
    pub(crate) fn synchronize(&self) -> Result<()> {
        // SAFETY: takes no pointer.
        self.enter(|driver| driver.check(unsafe { (driver.context_synchronize)() }, "cuCtxSynchronize"))
    }

    /// The device's address on the PCI bus, "0000:3b:00.0".
    pub(crate) fn bus_id(&self) -> Result<String> {
        let mut text = [0u8; 32];
        // SAFETY: writes at most 31 bytes and a NUL into an array of 32.
        let code = unsafe { (self.driver.device_bus_id)(text.as_mut_ptr().cast(), 31, self.device) };
        self.driver.check(code, "cuDeviceGetPCIBusId")?;
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        Ok(String::from_utf8_lossy(&text[..end]).into_owned())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.is_ours() {
            // SAFETY: retained once in `open`, released once here.
            unsafe { (self.driver.context_release)(self.device) };
        }
    }
}

/// A stream that does not wait for the legacy default stream.
pub(crate) struct Stream {
    context: Arc<Context>,
    pub(crate) handle: Object,
}

// SAFETY: the handle is only passed to the driver, which may be called from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // CU_STREAM_NON_BLOCKING is 1.
        context.enter(|driver| {
            // SAFETY: writes one handle.
            driver.check(unsafe { (driver.stream_create)(&mut handle, 1) }, "cuStreamCreate")
        })?;
        Ok(Self { context: context.clone(), handle })
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.context.is_ours() {
            // SAFETY: made in `new`, destroyed once; the driver finishes what is queued.
            let _ = self
                .context
                .enter(|driver| driver.check(unsafe { (driver.stream_destroy)(self.handle) }, "cuStreamDestroy"));
        }
    }
}

/// An event without timing.
pub(crate) struct Event {
    context: Arc<Context>,
    handle: Object,
}

// SAFETY: the handle is only passed to the driver, which may be called from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self> {
        let mut handle = std::ptr::null_mut();
        // CU_EVENT_DISABLE_TIMING is 2.
        context.enter(|driver| {
            // SAFETY: writes one handle.
            driver.check(unsafe { (driver.event_create)(&mut handle, 2) }, "cuEventCreate")
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Fires when what `stream` has been given so far is done.
    pub(crate) fn record(&self, stream: Object) -> Result<()> {
        self.context.enter(|driver| {
            // SAFETY: the event is alive; the stream is ours or one that the consumer vouches for.
            driver.check(unsafe { (driver.event_record)(self.handle, stream) }, "cuEventRecord")
        })
    }

    /// Makes what `stream` is given from now on wait for the event. Does not wait itself.
    pub(crate) fn hold_back(&self, stream: Object) -> Result<()> {
        self.context.enter(|driver| {
            // SAFETY: the event is alive; the stream is ours or one that the consumer vouches for.
            driver.check(unsafe { (driver.stream_wait)(stream, self.handle, 0) }, "cuStreamWaitEvent")
        })
    }

    /// Waits on the host.
    pub(crate) fn wait(&self) -> Result<()> {
        self.context.enter(|driver| {
            // SAFETY: the event is alive.
            driver.check(unsafe { (driver.event_synchronize)(self.handle) }, "cuEventSynchronize")
        })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.is_ours() {
            // SAFETY: made in `new`, destroyed once; the driver keeps what a stream still waits for.
            let _ = self
                .context
                .enter(|driver| driver.check(unsafe { (driver.event_destroy)(self.handle) }, "cuEventDestroy"));
        }
    }
}
