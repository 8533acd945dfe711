"""Connections to stores, which follow the environment."""

import re
from pathlib import Path

import pytest
from bucket_server import bucket_server

import forebay as fb
from forebay.files import stores

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def lead(monkeypatch):
    """Function that sets the variables of a bucket."""

    def lead(bucket, machine="key"):
        for name, value in bucket.environment(machine).items():
            monkeypatch.setenv(name, value)

    return lead


def read():
    with fb.open("s3://bucket/name") as file:
        return file.read()


def test_a_new_endpoint_or_key_in_the_environment_counts_from_the_next_call_on(lead):
    with bucket_server() as first, bucket_server() as second:
        first.objects["name"], second.objects["name"] = b"first", b"second"
        for options in (None, fb.StoreOptions(region="us-east-1")):
            for bucket, machine, expected in [(first, "a", b"first"), (second, "a", b"second"), (second, "b", b"second")]:
                lead(bucket, machine)
                with fb.open("s3://bucket/name", store=options) as file:
                    assert file.read() == expected
                assert bucket.seen[-1].machine == machine
        lead(first)
        files = fb.list_files("s3://bucket/")
        assert len(files) == 1 and read() == b"first"


def test_unchanged_settings_have_one_connection_and_the_number_is_bounded(lead, monkeypatch):
    with bucket_server() as bucket:
        bucket.objects["name"] = b"text"
        lead(bucket)
        monkeypatch.setenv("UNRELATED", "1")
        opened = stores.opened(None)
        monkeypatch.setenv("UNRELATED", "2")
        assert stores.opened(None) is opened
        file = fb.open("s3://bucket/name")
        for number in range(3 * stores._OPENED_MAX):
            lead(bucket, f"machine-{number}")
            assert read() == b"text"
        assert len(stores._opened) == stores._OPENED_MAX
        assert stores.opened(None) is stores.opened(None) is not opened
        # A file in use keeps its connection.
        assert file.read() == b"text"


def test_every_variable_of_a_store_on_the_page_makes_a_new_connection():
    page = (DOCS / "environment.md").read_text()
    sections = page[page.index("## S3") : page.index("## `forebay.streaming`")].split("\n## ")
    found = {name for section in sections for name in re.findall(r"`(\w+)`", section)}
    names = {name for name in found if re.fullmatch(r"[A-Z0-9]+(_[A-Z0-9]+)+|[a-z]+_proxy", name)}
    assert len(names) > 60
    assert [name for name in sorted(names) if not stores._VARIABLES.fullmatch(name)] == []


def test_every_slash_of_a_key_counts(lead):
    with bucket_server() as bucket:
        lead(bucket)
        keys = ["/a", "a", "a//b", "a//b//c", "a/b"]
        for key in keys:
            with fb.open(f"s3://bucket/{key}", "wb") as file:
                file.write(key.encode())
        assert bucket.objects == {key: key.encode() for key in keys}
        files = fb.list_files("s3://bucket/")
        assert [file.url for file in files] == [f"s3://bucket/{key}" for key in keys]
        assert [data.decode() for _, data in fb.load_files(files)] == keys
        assert [file.url for file in fb.list_files("s3://bucket/a//")] == ["s3://bucket/a//b", "s3://bucket/a//b//c"]
        level = fb.list_files("s3://bucket/a//", recursive=False)
        assert [file.url for file in level] == ["s3://bucket/a//b", "s3://bucket/a//b/"]
        fb.remove_files(["s3://bucket/a//b", "s3://bucket//a"])
        assert list(bucket.objects) == ["a", "a//b//c", "a/b"]
        assert bucket.rejected == []


def test_a_file_that_changed_after_it_was_listed_is_stale_after_one_request(lead):
    with bucket_server() as bucket:
        lead(bucket)
        bucket.objects["name"] = b"text"
        files = fb.list_files("s3://bucket/")
        assert len(files) == 1
        bucket.objects["name"] = b"a longer text"
        for call in (lambda: list(fb.load_files(files)), lambda: fb.load_files(files)[0]):
            bucket.seen.clear()
            with pytest.raises(fb.StaleError, match="name is not as it was listed: .* 13 bytes, and 4 .*: list the files again"):
                call()
            assert len(bucket.seen) == 1
