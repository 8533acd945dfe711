//! Contents of objects for Python: lines of texts, files of tars.

use crate::own::{OPENED_ELSEWHERE, Own};
use crate::rows::Row;
use crate::{enter, error};
use forebay_loader::Result;
use forebay_loader::contents::{Ahead, Event, LineBatch, Packing, TarPart, Wanted};
use forebay_loader::delivery::RowMemory as _;
use forebay_loader::error::Error;
use forebay_loader::format::Compression;
use forebay_loader::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};
use std::collections::VecDeque;

/// Bytes of the lines that Python gets at once. They are in a cache of the CPU until it has used them, and their memory
/// is used for the next ones then.
const LINES_BYTES: usize = 128 << 10;

/// Bytes of a line from which Python may have no memory for it.
const LONG_LINE_BYTES: usize = 1 << 20;

/// Request as Python has it: the address, its bytes in a list, the offset in its content at which reading begins, and
/// the version that it must have.
type Request = (String, Option<u64>, u64, Option<String>, Option<String>);

/// Returns a request. `compression` is the name of one, "none", or "auto" for the compression of the address.
fn wanted((url, len, start, version, listed_tag): Request, compression: &str) -> Result<Wanted> {
    let packing = match compression {
        "auto" => Packing::ByName,
        "none" => Packing::Plain,
        name => Packing::Of(Compression::of_extension(name)?.map_or_else(|| Compression::parse(name), Ok)?),
    };
    Ok(Wanted { url, len, packing, start, version, listed_tag })
}

/// Lines of objects, in the order of their requests.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectLines(Own<Mutex<Lines>>);

struct Lines {
    ahead: Ahead<LineBatch>,
    version: Option<String>,
    /// Lines, and the number of those that were returned.
    batch: Option<(LineBatch, usize)>,
}

impl ObjectLines {
    pub(crate) fn new(ahead: Ahead<LineBatch>) -> Self {
        Self(Own::new(Mutex::new(Lines { ahead, version: None, batch: None }), OPENED_ELSEWHERE))
    }
}

impl Lines {
    /// Waits for lines; returns false at the end of the object.
    fn wait(&mut self) -> Result<Option<bool>> {
        if self.batch.as_ref().is_some_and(|(batch, returned)| *returned < batch.ends.len()) {
            return Ok(Some(true));
        }
        // Its memory is needed for the next lines.
        self.batch = None;
        Ok(match self.ahead.next(enter::SIGNALS_EVERY)? {
            None => None,
            Some(Event::Begin(version)) => {
                self.version = version;
                None
            }
            Some(Event::Item(batch)) => {
                self.batch = Some((batch, 0));
                Some(true)
            }
            Some(Event::End) => Some(false),
        })
    }

    /// Returns the next lines of the batch, without their ends, and the offset of the end of each.
    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<NextLines<'py>> {
        let Some((LineBatch { start, bytes, ends }, returned)) = &mut self.batch else {
            return Err(error::to_python(py, &Error::internal("no lines")));
        };
        let mut at = returned.checked_sub(1).map_or(0, |before| ends[before] as usize);
        let rest = &ends[*returned..];
        let count = rest.partition_point(|end| *end as usize - at <= LINES_BYTES).max(1);
        *returned += count;
        let mut offsets = Vec::with_capacity(count * size_of::<u64>());
        let line = |end: &u32| {
            let line = without_end(&bytes[at..*end as usize]);
            at = *end as usize;
            offsets.extend_from_slice(&(*start + at as u64).to_ne_bytes());
            if line.len() < LONG_LINE_BYTES {
                return Ok(PyBytes::new(py, line));
            }
            PyBytes::new_with(py, line.len(), |into| {
                into.copy_from_slice(line);
                Ok(())
            })
        };
        let lines = rest[..count].iter().map(line).collect::<PyResult<Vec<_>>>()?;
        Ok((PyList::new(py, lines)?, PyBytes::new(py, &offsets)))
    }
}

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Lines, and for each the offset of its end in the object, unpacked, as a native number of 64 bits.
type NextLines<'py> = (Bound<'py, PyList>, Bound<'py, PyBytes>);

#[pymethods]
impl ObjectLines {
    /// Requests an object.
    fn push(&self, py: Python<'_>, request: Request, compression: &str) -> PyResult<()> {
        enter::enter(py, || self.0.get()?.lock().ahead.push(wanted(request, compression)?))
    }

    /// Waits for the next lines of the first object that was requested. None at its end, after which the next one is
    /// the first.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<NextLines<'py>>> {
        let has_lines = enter::wait(py, || self.0.get()?.lock().wait())?;
        let lines = self.0.get().map_err(|e| error::to_python(py, &e))?;
        has_lines.then(|| lines.lock().take(py)).transpose()
    }

    /// Version of the object with the last returned lines.
    fn version(&self, py: Python<'_>) -> PyResult<Option<String>> {
        enter::enter(py, || Ok(self.0.get()?.lock().version.clone()))
    }
}

/// Regular files of tars, in the order of their requests.
#[pyclass(frozen, module = "forebay._forebay")]
pub(crate) struct ObjectTarFiles(Own<Mutex<TarFiles>>);

struct TarFiles {
    ahead: Ahead<Vec<TarPart>>,
    version: Option<String>,
    parts: VecDeque<TarPart>,
    /// File that is not whole.
    file: Option<File>,
}

struct File {
    name: Vec<u8>,
    end: u64,
    row: Row,
    filled: usize,
}

impl ObjectTarFiles {
    pub(crate) fn new(ahead: Ahead<Vec<TarPart>>) -> Self {
        let files = TarFiles { ahead, version: None, parts: VecDeque::new(), file: None };
        Self(Own::new(Mutex::new(files), OPENED_ELSEWHERE))
    }
}

impl TarFiles {
    /// Waits for a part; returns false at the end of the tar.
    fn wait(&mut self) -> Result<Option<bool>> {
        if !self.parts.is_empty() {
            return Ok(Some(true));
        }
        Ok(match self.ahead.next(enter::SIGNALS_EVERY)? {
            None => None,
            Some(Event::Begin(version)) => {
                self.version = version;
                None
            }
            Some(Event::Item(parts)) => {
                self.parts = parts.into();
                None
            }
            Some(Event::End) => Some(false),
        })
    }

    /// Continues with the next part. Returns a file once it is whole.
    fn advance(&mut self, py: Python<'_>) -> Result<Option<File>> {
        match self.parts.pop_front() {
            Some(TarPart::File { name, bytes, end, content }) => {
                let named = |e: Error| e.with("file", String::from_utf8_lossy(&name));
                let row = Row::new(py, usize::try_from(bytes).unwrap_or(usize::MAX)).map_err(named)?;
                let mut file = File { name, end, row, filled: 0 };
                for piece in &content {
                    file.add(piece)?;
                }
                self.file = Some(file);
            }
            Some(TarPart::More(piece)) => {
                self.file.as_mut().ok_or_else(|| Error::internal("more bytes of no file"))?.add(&piece)?;
            }
            None => {}
        }
        Ok(self.file.take_if(|file| file.is_whole()))
    }
}

impl File {
    fn add(&mut self, piece: &[u8]) -> Result<()> {
        let rest = &mut self.row.bytes_mut()[self.filled..];
        let into = rest.get_mut(..piece.len()).ok_or_else(|| Error::internal("more bytes than a file has"))?;
        for (to, from) in into.iter_mut().zip(piece) {
            to.write(*from);
        }
        self.filled += piece.len();
        Ok(())
    }

    fn is_whole(&mut self) -> bool {
        self.filled == self.row.bytes_mut().len()
    }
}

/// Name, content, and offset in the tar of the bytes after it.
type TarFile<'py> = (Bound<'py, PyString>, Py<PyBytes>, u64);

#[pymethods]
impl ObjectTarFiles {
    /// Requests a tar.
    fn push(&self, py: Python<'_>, request: Request, compression: &str) -> PyResult<()> {
        enter::enter(py, || self.0.get()?.lock().ahead.push(wanted(request, compression)?))
    }

    /// Waits for the next file of the first tar that was requested. None at its end, after which the next one is the
    /// first.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<TarFile<'py>>> {
        loop {
            if !enter::wait(py, || self.0.get()?.lock().wait())? {
                return Ok(None);
            }
            let files = self.0.get().map_err(|e| error::to_python(py, &e))?;
            let whole = files.lock().advance(py).map_err(|e| error::to_python(py, &e))?;
            if let Some(File { name, end, row, .. }) = whole {
                // As Python's tarfile decodes names.
                let name = PyBytes::new(py, &name);
                let name = PyString::from_encoded_object(&name, Some(c"utf-8"), Some(c"surrogateescape"))?;
                return Ok(Some((name, row.into_object(), end)));
            }
        }
    }

    /// Version of the tar with the last returned file.
    fn version(&self, py: Python<'_>) -> PyResult<Option<String>> {
        enter::enter(py, || Ok(self.0.get()?.lock().version.clone()))
    }
}
