//! Bodies of responses.

use super::client::Exchange;
use super::pool::{ConnectionPool, Origin, Sender};
use crate::context::ThreadContext;
use crate::failure::Failure;
use crate::source::Body;
use crate::{Error, ErrorKind};
use async_trait::async_trait;
use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use std::rc::Rc;

/// Body of a response. Its connection returns to the pool when all bytes have been read, if the request's are all sent.
pub(crate) struct HttpBody {
    pool: Rc<ConnectionPool>,
    incoming: Incoming,
    frame: Bytes,
    connection: Option<(Sender, Origin)>,
    has_sent_all: bool,
}

impl HttpBody {
    pub(crate) fn new(context: &ThreadContext, exchange: Exchange) -> Self {
        let has_sent_all = exchange.has_sent_all();
        Self {
            pool: context.connections.clone(),
            incoming: exchange.response.into_body(),
            frame: Bytes::new(),
            connection: Some((exchange.sender, exchange.origin)),
            has_sent_all,
        }
    }

    /// Returns the connection to the pool after the last byte. Dropping an unread body closes it.
    fn release_connection(&mut self) {
        if let Some((sender, origin)) = self.connection.take().filter(|_| self.has_sent_all) {
            self.pool.put(origin, sender);
        }
    }
}

#[async_trait(?Send)]
impl Body for HttpBody {
    async fn read(&mut self, out: &mut [u8]) -> Result<usize, Failure> {
        while self.frame.is_empty() {
            match self.incoming.frame().await {
                // Frames of trailers carry no bytes.
                Some(Ok(frame)) => self.frame = frame.into_data().unwrap_or_default(),
                Some(Err(e)) => {
                    let why = Error::new(ErrorKind::Network, "the connection broke in the middle of the body");
                    return Err(Failure::transient(why.caused_by(e)));
                }
                None => {
                    self.release_connection();
                    return Ok(0);
                }
            }
        }
        let n = out.len().min(self.frame.len());
        self.frame.copy_to_slice(&mut out[..n]);
        if self.frame.is_empty() && self.incoming.is_end_stream() {
            self.release_connection();
        }
        Ok(n)
    }
}
