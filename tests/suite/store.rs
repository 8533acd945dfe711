//! The store against the object server: what it asks, what it makes of answers, what it costs.

#[path = "store/file.rs"]
mod file;
#[path = "store/http.rs"]
mod http;
#[path = "store/nginx.rs"]
mod nginx;
#[path = "store/rig.rs"]
mod rig;
#[path = "store/s3.rs"]
mod s3;
#[path = "store/wrap.rs"]
mod wrap;
