//! Socket with reads and writes through the thread's io_uring, as a tokio stream.
//!
//! The ring owns a buffer until the kernel is done with it, while hyper and rustls lend theirs. So bytes pass through a
//! buffer of the adapter, one copy more than with readiness-based sockets. It exists to be measured against them, and
//! for kernels on which it is the faster one.

use std::future::Future;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_uring::net::TcpStream;

/// Bytes of the adapter's buffer: about one read from a socket on a fast network.
const BUFFER_BYTES: usize = 128 << 10;

type Operation<T> = Pin<Box<dyn Future<Output = (io::Result<T>, Vec<u8>)>>>;

pub(super) struct UringStream {
    stream: Rc<TcpStream>,
    /// Bytes of the last read, and how many of them have been consumed.
    received: Vec<u8>,
    consumed: usize,
    /// Kept across polls: the kernel writes into its buffer until it completes.
    reading: Option<Operation<usize>>,
    writing: Option<Operation<()>>,
}

impl UringStream {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = Rc::new(TcpStream::connect(address).await?);
        let _ = stream.set_nodelay(true);
        Ok(Self { stream, received: Vec::with_capacity(BUFFER_BYTES), consumed: 0, reading: None, writing: None })
    }

    fn poll_written(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writing) = &mut self.writing else { return Poll::Ready(Ok(())) };
        let (result, _) = ready!(writing.as_mut().poll(cx));
        self.writing = None;
        Poll::Ready(result)
    }
}

impl Drop for UringStream {
    /// A read in flight keeps the socket open until the peer sends or closes; the shutdown ends it now.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AsyncRead for UringStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.consumed == this.received.len() {
            let reading = this.reading.get_or_insert_with(|| {
                let (stream, mut buffer) = (this.stream.clone(), std::mem::take(&mut this.received));
                buffer.clear();
                this.consumed = 0;
                Box::pin(async move { stream.read(buffer).await })
            });
            let (result, buffer) = ready!(reading.as_mut().poll(cx));
            this.reading = None;
            this.received = buffer;
            if let Err(e) = result {
                this.received.clear();
                return Poll::Ready(Err(e));
            }
        }
        let rest = &this.received[this.consumed..];
        let n = rest.len().min(out.remaining());
        out.put_slice(&rest[..n]);
        this.consumed += n;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UringStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_written(cx))?;
        let n = bytes.len().min(BUFFER_BYTES);
        let (stream, buffer) = (self.stream.clone(), bytes[..n].to_vec());
        self.writing = Some(Box::pin(async move { stream.write_all(buffer).await }));
        // Starts the write; the next write or flush waits for its end.
        match self.poll_written(cx) {
            Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
            _ => Poll::Ready(Ok(n)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_written(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_written(cx))?;
        Poll::Ready(self.stream.shutdown(Shutdown::Write))
    }
}
