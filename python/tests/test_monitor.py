"""Figures of a running job: `forebay top`, the port for Prometheus, and a collector of OpenTelemetry."""

import contextlib
import http.server
import json
import os
import queue
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from loaders import ordered
from range_server import serving

import forebay as fb

# Prints a line in an epoch, and stays there until it reads a line.
JOB = """
import os, sys, forebay as fb
engine = fb.Engine(metrics=sys.argv[2] or None, monitor=sys.argv[3] == "yes")
with fb.Loader(local=sys.argv[1], batch_size=4, framework="numpy", engine=engine, fields={"x": fb.Bytes("x")}) as loader:
    for number, batch in enumerate(loader):
        if number == 2:
            if "RUN" in os.environ:
                loader.save_run(os.environ["RUN"])
            print("in the epoch", flush=True)
            sys.stdin.readline()
            break
print("left", flush=True)
sys.stdin.readline()
"""


def connected(family, address):
    """Waits until a server accepts connections: the thread of a job opens its socket and port while the epoch begins."""
    end = time.monotonic() + 60
    while True:
        with contextlib.suppress(ConnectionRefusedError, FileNotFoundError), socket.socket(family) as client:
            return client.connect(address)
        assert time.monotonic() < end, f"nothing listens at {address}"


@contextlib.contextmanager
def job(folder, runtime, metrics="", monitor="yes", *, is_seen=True, **environment):
    """Process with a loader in an epoch, which has its socket if it `is_seen`."""
    env = os.environ | {"XDG_RUNTIME_DIR": str(runtime)} | environment
    command = [sys.executable, "-c", JOB, str(folder), metrics, monitor]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "in the epoch\n"
            if is_seen:
                connected(socket.AF_UNIX, str(runtime / "forebay" / f"{process.pid}.sock"))
            yield process
        finally:
            process.kill()


def top(runtime, *arguments):
    """Exit code and output of `forebay top`."""
    env = os.environ | {"XDG_RUNTIME_DIR": str(runtime)}
    command = [sys.executable, "-m", "forebay", "top", *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def numbers_set(tmp_path):
    folder = tmp_path / "set"
    with fb.MDSWriter(out=folder, columns={"x": "bytes"}) as writer:
        for number in range(64):
            writer.write({"x": bytes([number])})
    return folder


def free_port():
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        return server.server_port


@pytest.mark.slow
def test_a_running_job_is_seen_and_a_killed_one_is_forgotten(numbers_set, tmp_path):
    with job(numbers_set, tmp_path) as process:
        code, text = top(tmp_path, "--once", "--json")
        assert code == 0, text
        (record,) = map(json.loads, text.splitlines())
        assert (record["pid"], record["rank"], record["world_size"], record["batches"]) == (process.pid, 0, 1, 3)
        assert record["source"] == str(numbers_set)
        assert 0 < record["wait_p50_s"] <= record["wait_p99_s"]
        code, text = top(tmp_path, "--once", str(process.pid))
        assert code == 0 and f"{process.pid}" in text and "limited by" in text
        assert max(map(len, text.splitlines())) <= 80 + len(str(numbers_set))
        own = tmp_path / "forebay" / f"{process.pid}.sock"
        assert own.is_socket() and (own.parent.stat().st_mode & 0o777) == 0o700
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert top(tmp_path, "--once") == (1, "no process of this user has a loader in an epoch\n")
        code, text = top(tmp_path, "--once", str(process.pid))
        assert code == 2 and "has no open loader" in text
        with job(numbers_set, tmp_path) as second:
            assert [path.name for path in own.parent.iterdir()] == [f"{second.pid}.sock"]


@pytest.mark.slow
def test_the_file_of_a_run_names_its_processes_and_has_figures_for_the_time_after_it(numbers_set, tmp_path):
    run = tmp_path / "run.json"
    ranks = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    other = ranks | {"RANK": "1", "LOCAL_RANK": "1"}
    with (
        job(numbers_set, tmp_path, RUN=str(run), **ranks) as first,
        job(numbers_set, tmp_path, **other) as second,
        job(numbers_set, tmp_path) as alone,
    ):
        code, text = top(tmp_path, "--once", "--json")
        assert code == 0 and {record["pid"] for record in map(json.loads, text.splitlines())} >= {alone.pid}
        code, text = top(tmp_path, "--once", "--json", str(run))
        records = [record for record in map(json.loads, text.splitlines()) if "world_size" in record]
        assert code == 0 and [(record["pid"], record["rank"]) for record in records] == [(first.pid, 0), (second.pid, 1)]
        assert all(record["limit"] and record["bottleneck"] for record in records)
    code, text = top(tmp_path, "--json", str(run))
    (record,) = map(json.loads, text.splitlines())
    assert code == 0 and (record["pid"], record["batches"], record["world_size"]) == (first.pid, 3, 2)
    assert "the run has ended" in top(tmp_path, str(run))[1]
    document = json.loads(run.read_text())
    document["process"]["host"] = "elsewhere"
    run.write_text(json.dumps(document))
    code, text = top(tmp_path, str(run))
    assert code == 2 and "the run is on elsewhere" in text
    del document["process"]
    run.write_text(json.dumps(document))
    assert "an earlier version wrote it" in top(tmp_path, str(run))[1]
    run.write_text("{}")
    assert "is not the file of a run" in top(tmp_path, str(run))[1]


@pytest.mark.slow
def test_sockets_of_processes_that_live_elsewhere_stay(numbers_set, tmp_path):
    folder = tmp_path / "forebay"
    folder.mkdir(mode=0o700)
    for name in ("4000000001.sock", "4000000002.sock"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / name))
        listener.listen()
        if name == "4000000001.sock":
            listener.close()
    with job(numbers_set, tmp_path) as process:
        assert sorted(path.name for path in folder.iterdir()) == sorted([f"{process.pid}.sock", "4000000002.sock"])
    listener.close()


@pytest.mark.slow
def test_a_job_that_is_not_to_be_seen_has_no_socket(numbers_set, tmp_path):
    with job(numbers_set, tmp_path, monitor="no", is_seen=False):
        assert not (tmp_path / "forebay").exists()


@pytest.mark.slow
def test_a_job_runs_where_no_socket_can_be_made(numbers_set, tmp_path):
    taken = tmp_path / "a file"
    taken.write_text("")
    with job(numbers_set, taken, is_seen=False) as process:
        process.communicate("\n\n")
        assert process.returncode == 0


@pytest.mark.slow
def test_a_loader_that_is_closed_has_no_socket(numbers_set, tmp_path):
    with job(numbers_set, tmp_path) as process:
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "left\n"
        assert list((tmp_path / "forebay").iterdir()) == []


@pytest.mark.slow
def test_prometheus_gets_every_metric_with_its_help_and_type(numbers_set, tmp_path):
    port = free_port()
    with job(numbers_set, tmp_path, f"prometheus://127.0.0.1:{port}"):
        connected(socket.AF_INET, ("127.0.0.1", port))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
            lines = answer.read().decode().splitlines()
        described = [line.split()[2] for line in lines if line.startswith("# TYPE ")]
        assert described == [line.split()[2] for line in lines if line.startswith("# HELP ")]
        assert len(set(described)) == len(described)
        for line in lines:
            if not line.startswith("#"):
                name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} ([-+.e\d]+)", line).groups()
                assert re.sub(r"_(bucket|sum|count)$", "", name) in described
                assert 'rank="0",loader="0"' in labels and float(value) >= 0
        buckets = [float(line.split()[-1]) for line in lines if "_bucket{" in line]
        assert buckets == sorted(buckets) and buckets[-1] == 3
        code, text = top(tmp_path, "--once", "--json", f"127.0.0.1:{port}")
        assert code == 0 and json.loads(text)["batches"] == 3


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.put((self.path, dict(self.headers), json.loads(body)))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *arguments):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_collector_gets_the_figures(numbers_set, tmp_path, scheme):
    certificates = Path(__file__).parents[2] / "tests" / "data" / "tls"
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)) as server:
        if scheme == "https":
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates / "server.pem", certificates / "server.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
        server.received = queue.Queue()
        settings = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"{scheme}://127.0.0.1:{server.server_port}",
            "OTEL_EXPORTER_OTLP_CERTIFICATE": str(certificates / "ca.pem"),
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20abc",
            "OTEL_METRIC_EXPORT_INTERVAL": "20",
            "OTEL_SERVICE_NAME": "train",
        }
        with job(numbers_set, tmp_path, "otlp", **settings):
            # The first of them may be from before the third batch.
            while True:
                path, headers, document = server.received.get(timeout=60)
                (resource,) = document["resourceMetrics"]
                metrics = {metric["name"]: metric for metric in resource["scopeMetrics"][0]["metrics"]}
                (waits,) = metrics["forebay.batch.wait"]["histogram"]["dataPoints"]
                if waits["count"] == "3":
                    break
    assert path == "/v1/metrics" and headers["authorization"] == "Bearer abc"
    assert {"key": "service.name", "value": {"stringValue": "train"}} in resource["resource"]["attributes"]
    assert sum(map(int, waits["bucketCounts"])) == 3
    assert len(waits["bucketCounts"]) == len(waits["explicitBounds"]) + 1
    assert int(waits["startTimeUnixNano"]) < int(waits["timeUnixNano"])
    (items,) = [
        point["asInt"]
        for point in metrics["forebay.stage.items"]["sum"]["dataPoints"]
        if {"key": "forebay.stage", "value": {"stringValue": "next"}} in point["attributes"]
    ]
    assert items == "3"


@pytest.mark.parametrize("value", ["9400", "prometheus://", "statsd://:1", "prometheus://:x"])
def test_a_wrong_address_is_an_error_with_the_right_forms(numbers_set, value):
    with pytest.raises(fb.ConfigError, match=r"prometheus://:PORT"):
        fb.Loader(local=numbers_set, batch_size=4, engine=fb.Engine(metrics=value))


def test_the_dashboard_asks_for_metrics_that_exist(pictures):
    with ordered(pictures) as loader:
        list(loader)
        names = set(re.findall(r"# TYPE (\w+)", loader.prometheus()))
    help_page = (Path(__file__).parents[1] / "docs" / "metrics.md").read_text()
    names |= {f"forebay_{counter}_total" for counter in re.findall(r"\| `(\w+)` \|", help_page)}
    dashboard = (Path(__file__).parents[1] / "docs" / "grafana.json").read_text()
    asked = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"forebay_\w+", dashboard)}
    assert asked and asked <= names, asked - names
