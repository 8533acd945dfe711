//! Sentences for the statistics about each part of device decoding that has been abandoned.

use forebay_loader::Error;
use forebay_loader::sync::{AtomicBool, Mutex, Ordering};

/// Sentences that the loader has not fetched yet, and flags for those that are reported once.
pub(super) struct FallbackLog {
    device: u32,
    sentences: Mutex<Vec<String>>,
    has_undecoded: AtomicBool,
    has_large: AtomicBool,
}

impl FallbackLog {
    /// Creates a log for device number `device` with the sentences that its opening has reported.
    pub(super) fn new(device: u32, sentences: Vec<String>) -> Self {
        let (has_undecoded, has_large) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { device, sentences: Mutex::new(sentences), has_undecoded, has_large }
    }

    /// Returns the sentences since the last call.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.sentences.lock())
    }

    /// Reports that device decoding ends; `reason` follows the device in the sentence.
    pub(super) fn report_closed(&self, reason: &str) {
        self.add(format!("pictures are decoded on the host from now on, CUDA device {} {reason}", self.device));
    }

    /// Reports that only the cores decode from now on.
    pub(super) fn report_engines_abandoned(&self, rejected_min: usize, reason: &str) {
        self.add(format!(
            "the JPEG engines of CUDA device {} rejected the last {rejected_min} pictures or more, so only its cores \
             decode from now on: {reason}",
            self.device
        ));
    }

    /// Reports that groups are smaller from now on.
    pub(super) fn report_little_memory(&self, error: &Error) {
        self.add(format!(
            "CUDA device {} has little memory left for decoding, so fewer pictures are decoded at once from now on: \
             {error}",
            self.device
        ));
    }

    /// Reports, once, that the host decodes large pictures for which the device has no memory.
    pub(super) fn report_large_picture(&self, error: &Error) {
        if !self.has_large.swap(true, Ordering::Relaxed) {
            self.add(format!(
                "CUDA device {} has no memory for a large picture, so the host decodes pictures that do not fit: \
                 {error}",
                self.device
            ));
        }
    }

    /// Reports, once, that nvJPEG leaves out pictures without an error.
    pub(super) fn report_undecoded(&self) {
        if !self.has_undecoded.swap(true, Ordering::Relaxed) {
            self.add(format!(
                "CUDA device {} leaves pictures undecoded without an error: they are detected and decoded on the host",
                self.device
            ));
        }
    }

    fn add(&self, sentence: String) {
        self.sentences.lock().push(sentence);
    }
}
