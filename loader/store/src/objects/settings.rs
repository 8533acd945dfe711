//! Settings of stores in JSON, for all languages.

use crate::{Error, Result};
use crate::{S3Settings, StoreConfig};
use forebay_core::topology::Topology;
use serde::Deserialize;
use std::time::Duration;

/// Attempts of each request, of about 11 seconds in all, unless the caller has a different number.
const ATTEMPTS: u32 = 5;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Server of `s3://`.
    endpoint: Option<String>,
    /// Region of `s3://`.
    region: Option<String>,
    /// Profile of the AWS files.
    profile: Option<String>,
    /// Do not sign requests of `s3://`.
    unsigned: bool,
    /// The requester pays for requests of `s3://`.
    requester_pays: bool,
    /// Largest range of one request, and smallest part of an upload.
    part_bytes: Option<u64>,
    /// Total attempts of each request.
    attempts: u32,
    /// Most of them, as long as the server has accepted no connection; by default all.
    first_contact_attempts: Option<u32>,
    /// Longest time without progress.
    timeout_seconds: f64,
    /// Most requests in flight per fetch thread.
    requests: Option<usize>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            profile: None,
            unsigned: false,
            requester_pays: false,
            part_bytes: None,
            attempts: ATTEMPTS,
            first_contact_attempts: None,
            timeout_seconds: 60.0,
            requests: None,
        }
    }
}

/// Reads the settings of stores from JSON with the keys `endpoint`, `region`, `profile`, `unsigned`, `requester_pays`,
/// `part_bytes`, `attempts`, `first_contact_attempts`, `timeout_seconds` and `requests`; any of them may be missing.
/// The environment has the rest.
///
/// # Errors
///
/// `Config` for unknown keys, and for values out of their bounds.
pub fn settings_from_json(json: &str) -> Result<StoreConfig> {
    let settings: Settings =
        serde_json::from_str(json).map_err(|e| Error::config(format!("settings of stores: {e}")))?;
    let timeout = Duration::try_from_secs_f64(settings.timeout_seconds);
    let mut config = StoreConfig {
        fetch_threads: Topology::detect()?.fetch_threads_default(1),
        download_retry: settings.attempts,
        first_contact_retry: settings.first_contact_attempts.unwrap_or(settings.attempts),
        download_timeout: timeout.map_err(|_| Error::config("the timeout must be a number of seconds above 0"))?,
        ..StoreConfig::default()
    };
    // A writer of shards has several files in flight, and here one object may be all that is written: with fewer parts,
    // a latency of 50 ms would be most of the time of a fast link.
    config.upload_bytes = config.uploads_in_flight * config.upload_part_bytes;
    if let Some(bytes) = settings.part_bytes {
        let bytes =
            usize::try_from(bytes).map_err(|_| Error::config("the part size is beyond this machine's memory"))?;
        (config.part_bytes, config.upload_part_bytes) = (bytes, bytes);
        config.upload_bytes = config.upload_bytes.max(4 * bytes);
    }
    if let Some(requests) = settings.requests {
        (config.parts_in_flight, config.parts_in_flight_max) = (config.parts_in_flight.min(requests), requests);
    }
    let Settings { endpoint, region, profile, unsigned, requester_pays, .. } = settings;
    let flag = |is_set: bool, value: &str| is_set.then(|| value.to_owned());
    let own = [
        ("S3_ENDPOINT_URL", endpoint),
        ("AWS_REGION", region),
        ("AWS_PROFILE", profile),
        ("AWS_SKIP_SIGNATURE", flag(unsigned, "true")),
        ("AWS_REQUEST_PAYER", flag(requester_pays, "requester")),
    ];
    let own: Vec<(&str, String)> = own.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    if !own.is_empty() {
        config.s3 = Some(S3Settings::from_env_but(&own)?);
    }
    config.validate()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_settings_precede_the_environment() {
        let json =
            r#"{"endpoint": "http://127.0.0.1:9000", "region": "eu-north-1", "unsigned": true, "part_bytes": 5242880}"#;
        let config = settings_from_json(json).expect("valid");
        let s3 = config.s3.expect("own");
        assert_eq!(s3.endpoint.as_deref(), Some("http://127.0.0.1:9000"));
        assert_eq!((s3.region.as_deref(), s3.anonymous), (Some("eu-north-1"), true));
        assert_eq!((config.part_bytes, config.upload_part_bytes), (5 << 20, 5 << 20));
        assert!(settings_from_json("{}").expect("valid").s3.is_none(), "read when a bucket is opened");
    }

    #[test]
    fn one_object_may_have_as_many_parts_in_flight_as_there_are_requests() {
        for json in ["{}", r#"{"part_bytes": 5242880}"#] {
            let config = settings_from_json(json).expect("valid");
            assert!(config.upload_bytes >= config.uploads_in_flight * config.upload_part_bytes, "{json}");
        }
        let config = settings_from_json(r#"{"part_bytes": 1073741824}"#).expect("valid");
        assert_eq!(config.upload_bytes, 4 << 30, "of large parts, fewer");
    }

    #[test]
    fn wrong_settings_are_named() {
        for (json, hint) in [
            (r#"{"end_point": "x"}"#, "end_point"),
            (r#"{"attempts": 0}"#, "total number of attempts"),
            (r#"{"timeout_seconds": -1}"#, "timeout"),
            (r#"{"endpoint": "localhost"}"#, "endpoint"),
            (r#"{"part_bytes": 0}"#, "part_bytes"),
        ] {
            let error = settings_from_json(json).map(|_| ()).expect_err(json);
            assert!(error.to_string().contains(hint), "{json}: {error}");
        }
    }
}
