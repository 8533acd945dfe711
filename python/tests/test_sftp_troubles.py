"""Troubles of an SFTP server: each is a typed error that states the change to make, without the secrets of the address."""

import logging
import re
import shutil
import socket
import subprocess

import pytest
from loaders import NUMBER
from sftp_server import PASSWORD, sftp_server

import forebay as fb
from forebay.streaming.base.storage.download import CloudDownloader
from forebay.verify import verify


@pytest.fixture
def trouble(tmp_path, caplog, capfd):
    """Function that opens a remote in every way, and returns the message of the error of the class that is expected."""
    caplog.set_level(logging.DEBUG)

    def fail(remote, cls, match):
        for call in (
            lambda: fb.Loader(remote=remote, local=tmp_path / "local", batch_size=1, fetch=fb.Fetch(retry=1)),
            lambda: fb.Loader(streams=[fb.Stream(remote=remote, local=tmp_path / "local", fetch=fb.Fetch(retry=1))], batch_size=1),
            lambda: verify(remote),
            lambda: fb.MDSWriter(out=f"{remote}/new", columns={"number": "int"}),
            lambda: CloudDownloader.direct_download(f"{remote}/index.json", str(tmp_path / "index.json")),
        ):
            with pytest.raises(cls, match=match) as caught:
                call()
            shown = f"{caught.value!r} {caught.value.context} {fb.Stream(remote=remote)!r}"
            assert PASSWORD not in shown
        assert PASSWORD not in caplog.text and PASSWORD not in "".join(capfd.readouterr())

    return fail


def test_a_folder_below_that_cannot_be_listed_is_not_left_out(sftp, sftp_folder):
    remote, names = sftp.url("set/"), ["train/index.json", "train/shard.00000.mds"]
    twice = fb.StoreOptions(retry=2)
    listed = [file.url for file in fb.list_files(remote)]
    assert all(f"{remote}{name}" in listed for name in names)
    sftp.gone = ["train"]
    assert [file.url for file in fb.list_files(remote, store=twice)] == listed
    sftp.gone = ["train"] * 9
    with pytest.raises(fb.NetworkError, match=r"a folder cannot be listed.*page 1"):
        list(fb.list_files(remote, store=twice))


def test_a_wrong_password(sftp, trouble):
    remote = sftp.url("set/train", password=f"y{PASSWORD}")
    trouble(remote, fb.AccessError, r"rejects the login of the user in the address.*user:password@host/folder, or a private key in")


def test_no_credentials(sftp, trouble, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    remote = f"sftp://127.0.0.1:{sftp.port}/set/train"
    trouble(remote, fb.AccessError, "rejects the login of this machine's user .*name a user and a password")


def test_a_host_that_is_not_known_has_the_command_that_adds_it(sftp, tmp_path, trouble):
    (tmp_path / "known hosts").write_text("")
    with pytest.raises(fb.AccessError) as caught:
        fb.Loader(remote=sftp.url("set/train"), local=tmp_path / "local", batch_size=1)
    command = re.search(r"`(ssh-keyscan [^`]*)`", str(caught.value))[1]
    assert command == f"ssh-keyscan -p {sftp.port} 127.0.0.1 >> '{tmp_path}/known hosts'"
    trouble(sftp.url("set/train"), fb.AccessError, "is not a known host")
    if shutil.which("ssh-keyscan"):
        subprocess.run(command, shell=True, check=True, capture_output=True, timeout=600)
        with fb.Loader(remote=sftp.url("set/train"), local=tmp_path / "local", fields=NUMBER, batch_size=16) as found:
            assert len(found) == 25


def test_a_host_key_that_has_changed_is_a_different_machine(sftp, sftp_folder, tmp_path, trouble):
    with sftp_server(sftp_folder) as other:
        line = other.known.replace(str(other.port), str(sftp.port))
        (tmp_path / "known hosts").write_text(line)
        trouble(sftp.url("set/train"), fb.AccessError, r"may be a different machine.*ssh-keygen -R '\[127\.0\.0\.1\]:\d+' -f")


def test_a_host_that_does_not_exist(sftp, trouble, monkeypatch):
    def lookup(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    # The writer makes more attempts.
    monkeypatch.setattr(fb, "MDSWriter", lambda **kwargs: (_ for _ in ()).throw(fb.NetworkError("there is no host nowhere.invalid")))
    remote = f"sftp://me:{PASSWORD}@nowhere.invalid/set"
    trouble(remote, fb.NetworkError, "there is no host nowhere.invalid")


def test_a_port_without_a_server(tmp_path, sftp):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for call in (lambda url: fb.Loader(remote=url, local=tmp_path / "local", batch_size=1, fetch=fb.Fetch(retry=1)), verify):
        with pytest.raises(fb.NetworkError, match="does not accept connections: check the port"):
            call(f"sftp://me:{PASSWORD}@127.0.0.1:{port}/set")


def test_a_folder_without_an_index(sftp, tmp_path):
    for call in (lambda url: fb.Loader(remote=url, local=tmp_path / "local", batch_size=1), verify):
        with pytest.raises(fb.NotFoundError, match=r"no such file.*key index\.json.*remote sftp://\.\.\.@127\.0\.0\.1:\d+/set/test"):
            call(sftp.url("set/test"))


def test_a_shard_without_access_is_named(sftp, tmp_path):
    sftp.denied = ("shard.00001.mds",)
    with fb.Loader(remote=sftp.url("set/train"), local=tmp_path / "local", fields=NUMBER, batch_size=16) as found:
        with pytest.raises(fb.AccessError, match=r"denies access to /set/train/shard\.00001\.mds: check its owner and mode"):
            list(found)


def test_a_key_file_that_does_not_exist(sftp, tmp_path, monkeypatch):
    monkeypatch.setenv("COMPOSER_SFTP_KEY_FILE", str(tmp_path / "no key"))
    with pytest.raises(fb.ConfigError, match="COMPOSER_SFTP_KEY_FILE is .*no key, which does not exist"):
        verify(sftp.url("set/train"))


@pytest.mark.parametrize(
    ("remote", "match"),
    [
        ("sftp:///set", "has no host: the form is sftp://user@host:port/folder"),
        ("sftp://host:port/set", "has a wrong host or port"),
        ("sftp://me:gEhEiM@host/set?x=y", r"has a query.*%3F"),
        ("sftp:/me:gEhEiM@host/set", r"may mean sftp://\.\.\.@host/set"),
    ],
)
def test_an_address_that_cannot_work(remote, match, tmp_path):
    for call in (
        lambda: fb.Loader(remote=remote, local=tmp_path / "local", batch_size=1),
        lambda: verify(remote),
        lambda: fb.MDSWriter(out=remote, columns={"number": "int"}),
    ):
        with pytest.raises(fb.ConfigError, match=match) as caught:
            call()
        assert PASSWORD not in f"{caught.value!r}"


def test_a_missing_library_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "paramiko", None)
    with pytest.raises(fb.UnsupportedError, match="need the package paramiko: pip install paramiko"):
        fb.Loader(remote="sftp://host/set", local=tmp_path / "local", batch_size=1)
