"""Data sets that are written to an SFTP server: the files of a folder, whole or not at all."""

import threading

import pytest
from loaders import alone
from sftp_server import COUNT, write_numbers

import forebay as fb


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def finish_exchanges():
    """Waits for uploads that the engine has given up."""
    for thread in threading.enumerate():
        if thread.name == "forebay-exchange":
            thread.join(600)


@pytest.mark.parametrize("lacks_replace", [False, True])
def test_the_files_equal_the_files_in_a_folder(sftp, sftp_folder, tmp_path, lacks_replace):
    sftp.lacks_replace = lacks_replace
    write_numbers(sftp.url("new/set"), compression="zstd")
    write_numbers(tmp_path / "expected", compression="zstd")
    assert files(sftp_folder / "new/set") == files(tmp_path / "expected")
    with fb.Loader(remote=sftp.url("new/set"), local=tmp_path / "local", batch_size=COUNT) as found:
        assert sorted(next(iter(found))["number"].tolist()) == list(range(COUNT))


def test_a_folder_that_is_not_empty_is_refused_or_emptied(sftp, sftp_folder, tmp_path):
    before = files(sftp_folder)
    with pytest.raises(fb.ConfigError, match=r"Directory is not empty.*exist_ok"):
        write_numbers(sftp.url("set"))
    with pytest.raises(fb.ConfigError, match="a whole bucket, container or volume is not emptied"):
        write_numbers(sftp.url(""), exist_ok=True)
    assert files(sftp_folder) == before
    (sftp_folder / "other").mkdir()
    (sftp_folder / "other/.forebay-0.tmp").write_bytes(b"of a writer that was killed")
    write_numbers(sftp.url("other"))
    (sftp_folder / "set/train/rest").mkdir()
    (sftp_folder / "set/train/rest/of.tmp").write_bytes(b"an older writer")
    write_numbers(sftp.url("set"), exist_ok=True)
    write_numbers(tmp_path / "expected")
    assert files(sftp_folder / "set") == files(tmp_path / "expected")


def test_a_file_is_uploaded_again_after_its_connection_was_lost(sftp, sftp_folder, tmp_path):
    columns = {"data": "bytes"}

    def write(out):
        with fb.MDSWriter(out=out, columns=columns, size_limit=1 << 21) as writer:
            for number in range(6):
                writer.write({"data": bytes([number]) * (1 << 20)})

    sftp.cut_after = 3 << 20
    write(sftp.url("new"))
    assert sftp.cut_after is None
    write(tmp_path / "expected")
    assert files(sftp_folder / "new") == files(tmp_path / "expected")


def test_a_full_disk_leaves_no_index(sftp, sftp_folder):
    writer = fb.MDSWriter(out=sftp.url("new"), columns={"data": "bytes"}, size_limit=1 << 21)
    sftp.is_full = True
    with pytest.raises(fb.FullError, match=r"its disk or the user's quota may be full"), writer:
        for number in range(60):
            writer.write({"data": bytes([number]) * (1 << 20)})
    finish_exchanges()
    assert files(sftp_folder / "new") == {}


def test_an_exception_in_the_block_leaves_no_index(sftp, sftp_folder):
    with pytest.raises(KeyError), fb.MDSWriter(out=sftp.url("new"), columns={"data": "bytes"}, size_limit=1 << 9) as writer:
        for number in range(60):
            writer.write({"data": bytes([number]) * 100})
        raise KeyError
    finish_exchanges()
    assert all(name.endswith(".mds") for name in files(sftp_folder / "new"))


def test_uploads_that_are_given_up_at_the_end_of_a_process_remove_their_files(sftp, sftp_folder):
    code = f"""
        import forebay as fb
        from forebay.remotes import service

        # The removals may take longer than the five seconds of a process, when much else runs here.
        service._CLEAN_UP_S = 600
        writer = fb.MDSWriter(out={sftp.url("new")!r}, columns={{"data": "bytes"}}, size_limit=1 << 21)
        for number in range(20):
            writer.write({{"data": bytes([number]) * (1 << 20)}})
        raise KeyError
    """
    assert "KeyError" in alone(code).stderr
    assert all(name.endswith(".mds") for name in files(sftp_folder / "new"))


def test_a_folder_without_access_is_named(sftp):
    sftp.denied = ("closed",)
    with pytest.raises(fb.AccessError, match=r"denies access to /closed"):
        write_numbers(sftp.url("closed"))
