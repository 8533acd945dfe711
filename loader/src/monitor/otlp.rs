//! Figures for a collector of OpenTelemetry: OTLP over HTTP, with JSON.
//!
//! The environment has the settings, by the names of OpenTelemetry's own libraries. A collector that cannot be reached
//! costs one warning; the sums are complete in the next request.

use super::exchange::exchange;
use super::registry::Registry;
use crate::error::{Error, Result};
use crate::stats::{Snapshot, StageSnapshot, WaitsSnapshot};
use crate::store::Tls;
use crate::sync::Arc;
use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Uri, header};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;

/// Collector on this machine.
const DEFAULT: &str = "http://localhost:4318";
/// Interval of exports, as OpenTelemetry's libraries have it.
const INTERVAL: Duration = Duration::from_secs(60);
/// Longest time of an export.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer that is read.
const ANSWER_MAX: usize = 1 << 20;
/// Sums since the start of a loader.
const CUMULATIVE: u32 = 2;

/// Collector, and the attributes of this process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Settings {
    url: Uri,
    headers: Vec<(String, String)>,
    attributes: Vec<(String, String)>,
    interval: Duration,
    /// File of certificates that the collector may have, in addition to the system's.
    ca_file: Option<PathBuf>,
}

impl Settings {
    /// Reads the environment.
    ///
    /// # Errors
    ///
    /// `Config` with the variable that is wrong.
    pub(super) fn from_environment() -> Result<Self> {
        Self::read(|name| std::env::var(name).ok().filter(|value| !value.trim().is_empty()))
    }

    fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let of_metrics = variable("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
        let url = of_metrics.unwrap_or_else(|| {
            let base = variable("OTEL_EXPORTER_OTLP_ENDPOINT").unwrap_or_else(|| DEFAULT.to_owned());
            format!("{}/v1/metrics", base.trim_end_matches('/'))
        });
        let wrong =
            |name: &str, value: &str, form: &str| Error::config(format!("{name} must be {form}, not {value:?}"));
        let form = "the http:// or https:// address of a collector, such as http://localhost:4318";
        let parsed: Uri = url.parse().map_err(|_| wrong("OTEL_EXPORTER_OTLP_ENDPOINT", &url, form))?;
        if !matches!(parsed.scheme_str(), Some("http" | "https")) || parsed.host().is_none() {
            return Err(wrong("OTEL_EXPORTER_OTLP_ENDPOINT", &url, form));
        }
        let pairs = |name: &str| match variable(name) {
            None => Ok(Vec::new()),
            Some(text) => pairs(&text).ok_or_else(|| wrong(name, &text, "a list such as name=value,name=value")),
        };
        let mut attributes = pairs("OTEL_RESOURCE_ATTRIBUTES")?;
        if let Some(name) = variable("OTEL_SERVICE_NAME") {
            attributes.retain(|(key, _)| key != "service.name");
            attributes.push(("service.name".to_owned(), name));
        } else if !attributes.iter().any(|(key, _)| key == "service.name") {
            attributes.push(("service.name".to_owned(), "forebay".to_owned()));
        }
        attributes.push(("process.pid".to_owned(), std::process::id().to_string()));
        let interval = match variable("OTEL_METRIC_EXPORT_INTERVAL") {
            None => INTERVAL,
            Some(text) => match text.parse() {
                Ok(milliseconds) if milliseconds > 0 => Duration::from_millis(milliseconds),
                _ => return Err(wrong("OTEL_METRIC_EXPORT_INTERVAL", &text, "a positive number of milliseconds")),
            },
        };
        let ca_file = variable("OTEL_EXPORTER_OTLP_CERTIFICATE").map(PathBuf::from);
        Ok(Self { url: parsed, headers: pairs("OTEL_EXPORTER_OTLP_HEADERS")?, attributes, interval, ca_file })
    }
}

/// Reads `name=value,name=value`.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned())).filter(|(name, _)| !name.is_empty())
    };
    text.split(',').filter(|text| !text.trim().is_empty()).map(pair).collect()
}

/// Sends the figures at each interval until it is dropped.
pub(super) async fn export(registry: Arc<Registry>, settings: Settings) {
    let mut has_warned = false;
    let tls = Tls::new(settings.ca_file.clone());
    loop {
        tokio::time::sleep(settings.interval).await;
        let body = document(&registry, &settings.attributes, SystemTime::now()).to_string();
        let sent = match tokio::time::timeout(TIMEOUT, send(&settings, &tls, body)).await {
            Ok(sent) => sent,
            Err(_) => Err("it does not answer".to_owned()),
        };
        match sent {
            Ok(()) => has_warned = false,
            Err(_) if has_warned => {}
            Err(reason) => {
                has_warned = true;
                log::warn!("the collector at {} has not taken the figures: {reason}", settings.url);
            }
        }
    }
}

async fn send(settings: &Settings, tls: &Tls, body: String) -> Result<(), String> {
    let text = |e: &dyn std::fmt::Display| e.to_string();
    let host = settings.url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_encrypted = settings.url.scheme_str() == Some("https");
    let port = settings.url.port_u16().unwrap_or(if is_encrypted { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await.map_err(|e| text(&e))?;
    let authority = settings.url.authority().map_or("", |authority| authority.as_str());
    let path = settings.url.path_and_query().map_or("/", |path| path.as_str());
    let mut request = Request::post(path).header(header::HOST, authority);
    for (name, value) in &settings.headers {
        request = request.header(name, value);
    }
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Full::new(Bytes::from(body)));
    let request = request.map_err(|e| text(&e))?;
    let answer = if is_encrypted {
        exchange(tls.connect(host, stream).await.map_err(|e| text(&e))?, request, ANSWER_MAX).await
    } else {
        exchange(stream, request, ANSWER_MAX).await
    };
    let (status, _) = answer.map_err(|e| text(&e))?;
    if status.is_success() { Ok(()) } else { Err(format!("it answers {status}")) }
}

/// Labels and value of a data point.
type Point = (Vec<(&'static str, String)>, Map<String, Value>);

/// Figures of all loaders as OTLP has them.
fn document(registry: &Registry, attributes: &[(String, String)], now: SystemTime) -> Value {
    let loaders = registry.ranked_figures();
    let points = |value: &dyn Fn(&Snapshot) -> Vec<Point>| -> Vec<Value> {
        let of_loader = |(rank, number, figures): &(u32, usize, Snapshot)| {
            let times = (nanoseconds(now.checked_sub(figures.elapsed).unwrap_or(UNIX_EPOCH)), nanoseconds(now));
            let own = [("forebay.rank", rank.to_string()), ("forebay.loader", number.to_string())];
            let point = |(labels, mut point): Point| {
                let labels = labels.into_iter().chain(own.clone()).map(|(key, value)| attribute(key, &value));
                point.insert("attributes".to_owned(), labels.collect());
                point.insert("startTimeUnixNano".to_owned(), times.0.to_string().into());
                point.insert("timeUnixNano".to_owned(), times.1.to_string().into());
                Value::Object(point)
            };
            value(figures).into_iter().map(point).collect::<Vec<_>>()
        };
        loaders.iter().flat_map(of_loader).collect()
    };
    let sum = |name: &str, unit: &str, points: Vec<Value>| {
        json!({"name": name, "unit": unit, "sum": {
            "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points,
        }})
    };
    let of_stages = |value: fn(&StageSnapshot) -> Value, key: &'static str| {
        move |figures: &Snapshot| {
            let point =
                |stage: &StageSnapshot| (vec![("forebay.stage", stage.name.to_owned())], number(key, value(stage)));
            figures.stages.iter().map(point).collect()
        }
    };
    let times = |figures: &Snapshot| {
        let of_stage = |stage: &StageSnapshot| {
            let name = stage.name;
            let spent = [("busy", stage.busy), ("input", stage.input), ("output", stage.output)];
            spent.map(|(kind, time)| {
                let labels = vec![("forebay.stage", name.to_owned()), ("forebay.spent", kind.to_owned())];
                (labels, number("asDouble", time.as_secs_f64().into()))
            })
        };
        figures.stages.iter().flat_map(of_stage).collect()
    };
    let mut metrics = vec![
        sum("forebay.stage.time", "s", points(&times)),
        sum("forebay.stage.items", "{item}", points(&of_stages(|stage| stage.items.to_string().into(), "asInt"))),
        sum("forebay.stage.io", "By", points(&of_stages(|stage| stage.bytes.to_string().into(), "asInt"))),
        json!({"name": "forebay.batch.wait", "unit": "s", "histogram": {
            "aggregationTemporality": CUMULATIVE,
            "dataPoints": points(&|figures| vec![(Vec::new(), histogram(&figures.waits))]),
        }}),
    ];
    for name in Snapshot::counter_names(loaders.iter().map(|(_, _, figures)| figures)) {
        let unit = if name.ends_with("_bytes") { "By" } else { "1" };
        let of_counter = |figures: &Snapshot| {
            let own = figures.counters.iter().filter(|(counter, _)| *counter == name);
            own.map(|(_, value)| (Vec::new(), number("asInt", value.to_string().into()))).collect()
        };
        metrics.push(sum(&format!("forebay.{name}"), unit, points(&of_counter)));
    }
    let resource: Vec<_> = attributes.iter().map(|(key, value)| attribute(key, value)).collect();
    json!({"resourceMetrics": [{
        "resource": {"attributes": resource},
        "scopeMetrics": [{"scope": {"name": "forebay", "version": env!("CARGO_PKG_VERSION")}, "metrics": metrics}],
    }]})
}

fn nanoseconds(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn number(key: &str, value: Value) -> Map<String, Value> {
    Map::from_iter([(key.to_owned(), value)])
}

/// Histogram as OTLP has it: counts between bounds, not up to them. Integers of 64 bits are texts in its JSON.
fn histogram(waits: &WaitsSnapshot) -> Map<String, Value> {
    let (bounds, counts): (Vec<f64>, Vec<u64>) = waits.cumulative().unzip();
    let total = waits.count();
    let before = std::iter::once(0).chain(counts.iter().copied());
    let between = counts.iter().copied().chain([total]).zip(before).map(|(now, before)| (now - before).to_string());
    Map::from_iter([
        ("count".to_owned(), total.to_string().into()),
        ("sum".to_owned(), waits.sum.as_secs_f64().into()),
        ("bucketCounts".to_owned(), between.collect()),
        ("explicitBounds".to_owned(), bounds.into()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn read(variables: &[(&str, &str)]) -> Result<Settings> {
        let variables: HashMap<_, _> = variables.iter().copied().collect();
        Settings::read(|name| variables.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_variables_of_opentelemetry_decide() {
        let settings = read(&[]).expect("defaults");
        assert_eq!(settings.url, "http://localhost:4318/v1/metrics");
        assert_eq!(settings.interval, Duration::from_secs(60));
        let settings = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc, x=1"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=b"),
            ("OTEL_SERVICE_NAME", "train"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "250"),
        ]);
        let settings = settings.expect("settings");
        assert_eq!(settings.url, "http://collector:4318/v1/metrics");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(settings.headers, [pair("authorization", "Basic abc"), pair("x", "1")]);
        assert_eq!(settings.attributes[..2], [pair("team", "b"), pair("service.name", "train")]);
        assert_eq!(settings.interval, Duration::from_millis(250));
        let settings = read(&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://c:1/otlp")]).expect("an address");
        assert_eq!(settings.url, "http://c:1/otlp");
    }

    #[test]
    fn a_wrong_variable_is_named() {
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "grpc://collector"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "abc"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "0"),
        ] {
            let error = read(&[(name, value)]).expect_err(value).to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn counts_of_a_histogram_are_between_its_bounds() {
        let stats = crate::stats::Stats::new(false);
        for milliseconds in [1, 1, 300_000] {
            stats.waits().batch(Duration::from_millis(milliseconds));
        }
        let point = histogram(&stats.snapshot().waits);
        let counts: Vec<u64> = point["bucketCounts"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|count| count.as_str().expect("text").parse().expect("a number"))
            .collect();
        assert_eq!(counts.len(), point["explicitBounds"].as_array().expect("a list").len() + 1);
        assert_eq!((counts.iter().sum::<u64>(), counts.last()), (3, Some(&1)));
        assert_eq!(point["count"], "3");
    }
}
