"""`forebay doctor` about the machine and the store."""

import contextlib
import functools
import http.server
import json
import threading
import time

import pytest
from doctor_sets import numbers

from forebay.__main__ import main


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Starts a web server of a folder, with a clock that is some seconds late; returns its URL."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with contextlib.ExitStack() as servers:

        def start(folder, late):
            class Handler(http.server.SimpleHTTPRequestHandler):
                def date_time_string(self, timestamp=None):
                    return super().date_time_string(time.time() - late if timestamp is None else timestamp)

                def log_message(self, *_):
                    pass

            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
            servers.callback(server.server_close)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            servers.callback(thread.join)
            servers.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


def records(capfd, *arguments):
    capfd.readouterr()
    code = main(["doctor", "--json", "--checks", "environment", *arguments])
    return code, [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_the_machine_is_described_without_data(capfd):
    code, found = records(capfd)
    assert code in (0, 1)
    facts = {record["fact"]: record["value"] for record in found if "fact" in record}
    assert {"CPUs", "memory", "io_uring", "locked memory", "open files", "cache", "CUDA"} <= facts.keys()
    assert "numpy" in facts["libraries"]


@pytest.mark.parametrize(("late", "is_found"), [(0, False), (3600, True), (-3600, True)])
def test_a_clock_that_differs_from_the_stores_is_an_error(late, is_found, serve, capfd, tmp_path):
    url = serve(numbers(tmp_path / "set"), late)
    code, found = records(capfd, url)
    facts = [record["value"] for record in found if record.get("fact") == "store"]
    assert len(facts) == 1 and facts[0].startswith(f"{url}: ") and facts[0].endswith(" ms for a small request")
    clocks = [record for record in found if "the clock of this machine" in record.get("message", "")]
    assert bool(clocks) == is_found
    assert not is_found or (code == 1 and clocks[0]["examples"][0]["name"] == url)


def test_a_url_is_fetched_and_checked(serve, capfd, tmp_path):
    url = serve(numbers(tmp_path / "set"), 0)
    capfd.readouterr()
    assert main(["doctor", "--skip", "environment", url]) == 0
    assert "64 samples in" in capfd.readouterr().out


@pytest.mark.parametrize(("end", "words"), [("2020-01-01T00:00:00+00:00", "has ended"), ("2999-01-01T00:00:00Z", None)])
def test_the_end_of_temporary_keys_is_a_finding_or_a_fact(end, words, serve, capfd, tmp_path, monkeypatch):
    values = {"ENDPOINT_URL": serve(tmp_path, 0), "ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "SESSION_TOKEN": "c"}
    for name, value in {**values, "CREDENTIAL_EXPIRATION": end}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    _, found = records(capfd, "s3://bucket/set")
    messages = [record["message"] for record in found if "the time of the credentials" in record.get("message", "")]
    assert messages == ([f"the time of the credentials {words}"] if words else [])
    assert words or any(record.get("fact") == "credentials" and record["value"].endswith(" hours are left") for record in found)
