//! Parts of the object server's answers.

use super::body::ObjectBody;
use super::state::ServerState;
use forebay_loader::sync::Arc;
use http::header;
use http::{Response, StatusCode};

pub(super) type Answer = Response<ObjectBody>;

pub(super) fn problem(state: &Arc<ServerState>, status: StatusCode, code: &str, why: &str) -> Answer {
    let xml = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{}</Code><Message>{}</Message></Error>",
        escape(code),
        escape(why)
    );
    let builder = Response::builder().status(status).header(header::CONTENT_TYPE, "application/xml");
    build(state, builder, ObjectBody::text(state, xml))
}

pub(super) fn empty(state: &Arc<ServerState>, status: StatusCode) -> Answer {
    build(state, Response::builder().status(status), ObjectBody::text(state, ""))
}

pub(super) fn build(state: &Arc<ServerState>, builder: http::response::Builder, body: ObjectBody) -> Answer {
    builder.body(body).unwrap_or_else(|e| {
        log::error!("an answer cannot be built: {e}");
        Response::new(ObjectBody::text(state, ""))
    })
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
