//! Heads of HTTP/1.1 messages, as lines of text.

use std::io;
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Longest head.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Head of a request or a response: its lines without their ends, and without the empty line.
#[derive(Clone, Debug)]
pub(super) struct Message {
    lines: Vec<String>,
}

impl Message {
    /// Creates a response without headers.
    pub(super) fn response(status: u16) -> Self {
        Self { lines: vec![format!("HTTP/1.1 {status} Scripted")] }
    }

    /// Reads a head from `stream`; `None` if it ends before the first byte. `spare` has bytes that were read before,
    /// and afterwards those after the head.
    pub(super) async fn read(
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
        spare: &mut Vec<u8>,
    ) -> io::Result<Option<Self>> {
        let mut searched = 0;
        loop {
            if let Some(at) = spare[searched..].windows(4).position(|w| w == b"\r\n\r\n").map(|at| searched + at) {
                let head: Vec<u8> = spare.drain(..at + 4).collect();
                let text = String::from_utf8(head).map_err(io::Error::other)?;
                return Ok(Some(Self { lines: text.trim_end().split("\r\n").map(str::to_owned).collect() }));
            }
            searched = spare.len().saturating_sub(3);
            if spare.len() > HEAD_BYTES_MAX {
                return Err(io::Error::other("a head is too long"));
            }
            if stream.read_buf(spare).await? == 0 {
                let is_between = spare.is_empty();
                return if is_between { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
        }
    }

    /// Returns the second word of the first line: the target of a request, the status of a response.
    pub(super) fn second_word(&self) -> &str {
        self.lines[0].split(' ').nth(1).unwrap_or_default()
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.lines[1..].iter().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.parse().ok()
    }

    /// Adds a header, instead of one with the same name.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self = self.without(name);
        self.lines.push(format!("{name}: {}", value.to_string()));
        self
    }

    #[must_use]
    pub(super) fn without(mut self, name: &str) -> Self {
        let is_other = |line: &String| line.split_once(':').is_none_or(|(found, _)| !found.eq_ignore_ascii_case(name));
        let mut lines = self.lines.drain(..);
        let first = lines.next().into_iter();
        let lines = first.chain(lines.filter(is_other)).collect();
        Self { lines }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        format!("{}\r\n\r\n", self.lines.join("\r\n")).into_bytes()
    }
}
