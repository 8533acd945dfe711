//! `forebay_loader_*`.

use crate::batch::{self, ForebayBatch};
use crate::handles::Handles;
use crate::status::{Failure, ForebayStatus, Out, guard, leak, text_at};
use forebay_loader::state::State;
use forebay_loader::stats::Snapshot;
use forebay_loader::{Error, Loader, LoaderConfig, Next};
use serde_json::{Map, Value, json};
use std::ffi::c_char;

/// A loader. All its functions may be called from any thread; free it with `forebay_loader_free`.
#[derive(Debug)]
pub struct ForebayLoader {
    _private: (),
}

static LOADERS: Handles<Loader> = Handles::new("loader", 1);

/// Opens a data set. `config` is a JSON object whose names, meanings and defaults are those of the Python `Loader`:
/// `{"streams": [{"remote": "s3://bucket/set", "local": "/cache"}], "batch_size": 256, "shuffle": true}`.
/// `device` is where batches go: NULL or "cpu", "cuda:0" for that CUDA device, "cuda" for the one of the world's local rank.
///
/// # Safety
///
/// `config` and `device` are null or end in a NUL; `loader` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_loader_new(
    config: *const c_char,
    device: *const c_char,
    loader: *mut *mut ForebayLoader,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(loader, "loader") }?;
        // SAFETY: by the contract above.
        let config = LoaderConfig::from_json(unsafe { text_at(config, "config") }?)?;
        let device = match device.is_null() {
            true => "cpu",
            // SAFETY: by the contract above.
            false => unsafe { text_at(device, "device") }?,
        };
        out.put(LOADERS.insert(open(config, device)?));
        Ok(ForebayStatus::Ok)
    })
}

fn open(config: LoaderConfig, device: &str) -> Result<Loader, Error> {
    let target = forebay_gpu::target_for(device, config.world.local_rank, &forebay_gpu::Libraries::default())?;
    Loader::with_target(config, target)
}

/// Ends the epoch under way and frees the loader. Batches that were handed out stay valid. NULL is fine, and so is a
/// handle that has been freed.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_loader_free(loader: *mut ForebayLoader) {
    guard(|| {
        LOADERS.remove(loader);
        Ok(ForebayStatus::Ok)
    });
}

/// Ends the epoch under way, if there is one, and begins the next, or the position that was loaded.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_loader_start_epoch(loader: *const ForebayLoader) -> ForebayStatus {
    guard(|| {
        LOADERS.get(loader)?.start_epoch()?;
        Ok(ForebayStatus::Ok)
    })
}

/// Waits for the next batch, which `forebay_batch_free` frees. At the epoch's end the answer is FOREBAY_STATUS_END and
/// `batch` receives NULL.
///
/// # Safety
///
/// `batch` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_loader_next(
    loader: *const ForebayLoader,
    batch: *mut *mut ForebayBatch,
) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(batch, "batch") }?;
        out.put(std::ptr::null_mut());
        match LOADERS.get(loader)?.next()? {
            Next::Batch(batch) => {
                out.put(batch::handle_of(batch)?);
                Ok(ForebayStatus::Ok)
            }
            Next::End => Ok(ForebayStatus::End),
            Next::Pending => Err(Failure::from(Error::internal("a wait without a limit ended early"))),
        }
    })
}

/// The position after the batches handed out so far, as JSON that `forebay_loader_load_state` takes.
///
/// # Safety
///
/// `state` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_loader_state(loader: *const ForebayLoader, state: *mut *mut c_char) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(state, "state") }?;
        out.put(leak(LOADERS.get(loader)?.state()?.to_json())?);
        Ok(ForebayStatus::Ok)
    })
}

/// Makes the next epoch resume `state`, and ends the epoch under way. With `strict`, arguments that would change the
/// order are refused with FOREBAY_STATUS_STATE.
///
/// # Safety
///
/// `state` is null or ends in a NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_loader_load_state(
    loader: *const ForebayLoader,
    state: *const c_char,
    strict: bool,
) -> ForebayStatus {
    guard(|| {
        let loader = LOADERS.get(loader)?;
        // SAFETY: by the contract above.
        let state = State::from_json(unsafe { text_at(state, "state") }?)?;
        loader.load_state(&state, strict)?;
        Ok(ForebayStatus::Ok)
    })
}

/// The figures so far as JSON: `elapsed` and, for each of `stages`, `busy`, `input` and `output` in seconds, `items` and
/// `bytes`; `counters` by name; `notes`.
///
/// # Safety
///
/// `stats` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_loader_stats(loader: *const ForebayLoader, stats: *mut *mut c_char) -> ForebayStatus {
    guard(|| {
        // SAFETY: by the contract above.
        let out = unsafe { Out::new(stats, "stats") }?;
        out.put(leak(figures(&LOADERS.get(loader)?.stats()?).to_string())?);
        Ok(ForebayStatus::Ok)
    })
}

fn figures(snapshot: &Snapshot) -> Value {
    let stage = |s: &forebay_loader::stats::StageSnapshot| {
        let seconds = [s.busy, s.input, s.output].map(|d| d.as_secs_f64());
        let [busy, input, output] = seconds;
        json!({"name": s.name, "busy": busy, "input": input, "output": output, "items": s.items, "bytes": s.bytes})
    };
    json!({
        "elapsed": snapshot.elapsed.as_secs_f64(),
        "stages": snapshot.stages.iter().map(stage).collect::<Vec<_>>(),
        "counters": snapshot.counters.iter().map(|(n, v)| ((*n).to_owned(), json!(v))).collect::<Map<_, _>>(),
        "notes": snapshot.notes,
    })
}
