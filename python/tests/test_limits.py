"""Figures from which the limit of a loader's rate is found, and `forebay bench`."""

import http.server
import json

import pytest
from loaders import NUMBER, numbers, ordered
from range_server import serving

import forebay as fb
from forebay.__main__ import main


class Busy(http.server.SimpleHTTPRequestHandler):
    """Refuses the first request for each shard as one too many."""

    def do_GET(self):
        if "shard" in self.path and self.path not in self.server.refused:
            self.server.refused.add(self.path)
            self.send_response(429)
            self.send_header("content-length", "0")
            self.send_header("retry-after", "0")
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def busy_server(pictures):
    with serving(http.server.ThreadingHTTPServer(("127.0.0.1", 0), lambda *a: Busy(*a, directory=str(pictures)))) as server:
        server.refused = set()
        yield server


def test_requests_that_a_store_refuses_and_waits_for_shards_are_counted(busy_server, tmp_path):
    url = f"http://127.0.0.1:{busy_server.server_port}"
    with fb.Loader(remote=url, local=tmp_path / "local", batch_size=16, fields=NUMBER, framework="numpy") as loader:
        numbers(loader)
        counters = loader.stats()["counters"]
    assert counters["store_throttled"] == len(busy_server.refused) > 0
    assert counters["store_retries"] >= counters["store_throttled"]
    assert counters["wait_shards_us"] > 0


def test_the_numbers_of_threads_are_known(pictures):
    with ordered(pictures, threads=1) as loader:
        numbers(loader)
        threads = loader.stats()["threads"]
    assert threads["decode"] == 1 <= threads["usable"]


def test_the_time_of_a_mapped_function_on_cpus_is_a_part_of_its_time(pictures):
    def double(sample, rng):
        return {"number": sample["number"] * sum(2 for _ in range(1000))}

    with ordered(pictures, map=fb.Map(double, workers=2), framework="numpy") as loader:
        numbers(loader)
        stats = loader.stats()
    assert 0 < stats["counters"]["map_cpu_us"] <= 1e6 * stats["stages"]["map"]["busy_s"]
    assert stats["counters"]["map_cpu_delay_us"] >= 0


def test_the_opening_of_shards_is_a_part_of_the_time_of_reading_where_lengths_are_needed_first(tmp_path):
    # Rows of bytes are in the memory of Python's objects, which is allocated before the samples are read.
    with fb.MDSWriter(out=tmp_path, columns={"x": "bytes"}, size_limit=1000) as writer:
        for number in range(64):
            writer.write({"x": bytes(900 + number)})
    with fb.Loader(local=tmp_path, batch_size=8, fields={"x": fb.Bytes("x")}, framework="numpy") as loader:
        assert sum(len(batch["x"]) for batch in loader) == 64
        stats = loader.stats()
    assert 0 < stats["counters"]["shards_opening_us"] <= 1e6 * stats["stages"]["read"]["busy_s"]


def test_bench_has_the_rates_of_reading_decoding_and_loading_and_the_limit(pictures, capfd):
    assert main(["bench", str(pictures), "--size", "8", "--batch-size", "16", "--json"]) == 0
    records = {record["part"]: record for record in map(json.loads, capfd.readouterr().out.splitlines())}
    assert list(records) == ["disk", "decoding", "loader", "limit"]
    assert all(records[part]["samples_per_s"] > 0 and records[part]["bytes_per_s"] > 0 for part in ("disk", "decoding", "loader"))
    assert records["limit"]["limit"] and records["limit"]["what"]
    assert main(["bench", str(pictures), "--size", "8", "--samples", "16", "--batch-size", "16"]) == 0
    shown = capfd.readouterr().out
    assert "limited by" in shown and "16 samples in" in shown
    assert max(map(len, shown.split("limited by")[0].splitlines())) <= 80


def test_bench_of_a_store_reads_it_and_needs_a_data_set(busy_server, tmp_path, capfd):
    url = f"http://127.0.0.1:{busy_server.server_port}"
    assert main(["bench", url, "--local", str(tmp_path / "local"), "--size", "8", "--batch-size", "16", "--json"]) == 0
    assert json.loads(capfd.readouterr().out.splitlines()[0])["part"] == "store"
    assert main(["bench", str(tmp_path / "none")]) == 2
    assert main(["bench", url, "--seconds", "-1"]) == 2
