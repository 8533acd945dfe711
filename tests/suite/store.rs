//! The store against the object server: requests, interpretation of responses, costs.

#[path = "store/azure.rs"]
mod azure;
#[path = "store/conditional.rs"]
mod conditional;
#[path = "store/dbfs.rs"]
mod dbfs;
#[path = "store/encoding.rs"]
mod encoding;
#[path = "store/file.rs"]
mod file;
#[path = "store/gcs.rs"]
mod gcs;
#[path = "store/hedge.rs"]
mod hedge;
#[path = "store/hf.rs"]
mod hf;
#[path = "store/http.rs"]
mod http;
#[path = "store/listings.rs"]
mod listings;
#[path = "store/nginx.rs"]
mod nginx;
#[path = "store/objects.rs"]
mod objects;
#[path = "store/oci.rs"]
mod oci;
#[path = "store/proxy.rs"]
mod proxy;
#[path = "store/rig.rs"]
mod rig;
#[path = "store/s3.rs"]
mod s3;
#[path = "store/secrets.rs"]
mod secrets;
#[path = "store/stores.rs"]
mod stores;
#[path = "store/targets.rs"]
mod targets;
#[path = "store/troubles.rs"]
mod troubles;
#[path = "store/versions.rs"]
mod versions;
#[path = "store/write.rs"]
mod write;
#[path = "store/write_faults.rs"]
mod write_faults;
#[path = "store/write_rejections.rs"]
mod write_rejections;
