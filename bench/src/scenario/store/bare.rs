//! The limit of the engine's HTTP library: a client that sends ranged requests and copies the bodies, and does nothing
//! else. It has as many connections as the engine may have parts in flight, on one thread, and requests parts of the
//! same size.

use super::work::Work;
use crate::machine::own_cpu_seconds;
use crate::scenario::s3_clients::Took;
use forebay_loader::store::StoreConfig;
use forebay_loader::{Error, ErrorKind, Result};
use forebay_tests::server::TEST_CA;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Uri, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::net::TcpStream;

/// Path of an object, and the first and the last byte to request.
type ObjectRange = (String, u64, u64);

/// Fetches every object over `connections` connections.
pub(super) fn fetch(work: &Work<'_>, connections: usize) -> Result<Took> {
    let config = StoreConfig::default();
    let parts = Rc::new(RefCell::new(parts(work, config.part_bytes as u64)));
    let uri: Uri = work.url.parse().map_err(|e| failed(&e))?;
    let tls = if uri.scheme_str() == Some("https") { Some(trusting_the_test_server()?) } else { None };
    let (cpu, start) = (own_cpu_seconds(), Instant::now());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| failed(&e))?;
    tokio::task::LocalSet::new()
        .block_on(&runtime, async {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..connections {
                tasks.spawn_local(drain(uri.clone(), tls.clone(), parts.clone(), config.part_bytes));
            }
            while let Some(ended) = tasks.join_next().await {
                ended.map_err(|e| failed(&e))??;
            }
            Ok(())
        })
        .map(|()| Took { seconds: start.elapsed().as_secs_f64(), cpu_seconds: own_cpu_seconds() - cpu })
}

/// Returns all parts, the first one last.
fn parts(work: &Work<'_>, part_bytes: u64) -> Vec<ObjectRange> {
    let mut parts = Vec::new();
    for object in work.objects {
        let starts = (0..object.bytes).step_by(part_bytes as usize);
        parts.extend(
            starts.map(|start| (format!("/{}", object.key), start, (start + part_bytes).min(object.bytes) - 1)),
        );
    }
    parts.reverse();
    parts
}

/// Requests parts over one connection until none is left.
async fn drain(
    uri: Uri,
    tls: Option<tokio_rustls::TlsConnector>,
    parts: Rc<RefCell<Vec<ObjectRange>>>,
    part_bytes: usize,
) -> Result<()> {
    let authority = uri.authority().ok_or_else(|| Error::internal("a server without an address"))?;
    let stream = TcpStream::connect(authority.as_str()).await.map_err(|e| failed(&e))?;
    stream.set_nodelay(true).map_err(|e| failed(&e))?;
    let mut sender = match tls {
        None => connect(stream).await?,
        Some(tls) => {
            let name = ServerName::try_from(authority.host().to_owned()).map_err(|e| failed(&e))?;
            connect(tls.connect(name, stream).await.map_err(|e| failed(&e))?).await?
        }
    };
    let mut memory = vec![0; part_bytes];
    while let Some((path, first, last)) = next(&parts) {
        let request = Request::get(path).header(header::HOST, authority.as_str());
        let request = request.header(header::RANGE, format!("bytes={first}-{last}")).body(Empty::new());
        let request = request.map_err(|e| failed(&e))?;
        let mut response = sender.send_request(request).await.map_err(|e| failed(&e))?;
        let mut filled = 0;
        while let Some(frame) = response.frame().await {
            if let Ok(data) = frame.map_err(|e| failed(&e))?.into_data() {
                let end = filled + data.len();
                let to = memory.get_mut(filled..end).ok_or_else(|| Error::internal("a body longer than its part"))?;
                to.copy_from_slice(&data);
                filled = end;
            }
        }
        if filled as u64 != last + 1 - first {
            return Err(Error::new(ErrorKind::Network, "the server sent less than a part"));
        }
    }
    Ok(())
}

fn next(parts: &RefCell<Vec<ObjectRange>>) -> Option<ObjectRange> {
    parts.borrow_mut().pop()
}

/// Starts HTTP over `stream`; its background half ends with the sender.
async fn connect(
    stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + 'static,
) -> Result<SendRequest<Empty<Bytes>>> {
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|e| failed(&e))?;
    drop(tokio::task::spawn_local(connection));
    Ok(sender)
}

fn trusting_the_test_server() -> Result<tokio_rustls::TlsConnector> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(TEST_CA.as_bytes()) {
        roots.add(certificate.map_err(|e| failed(&e))?).map_err(|e| failed(&e))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.map_err(|e| failed(&e))?.with_root_certificates(roots).with_no_client_auth();
    Ok(Arc::new(config).into())
}

fn failed(why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Network, format!("the bare client failed: {why}"))
}
