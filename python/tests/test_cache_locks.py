"""Cache folders without locks between processes: of a different user, and on file systems that have none."""

import errno
import os
import shutil
import subprocess
import sys
import tempfile

import pytest

import forebay as fb

SAMPLES = 60

NO_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
static int refused(void) { errno = atoi(getenv("NO_LOCKS")); return -1; }
static int is_lock(int cmd) { return cmd == F_SETLK || cmd == F_SETLKW || cmd == F_GETLK || cmd == F_OFD_SETLK ||
                                     cmd == F_OFD_SETLKW || cmd == F_OFD_GETLK; }
int flock(int fd, int operation) { return refused(); }
#define LOCKLESS(name)                                                                    \\
    int name(int fd, int cmd, ...) {                                                      \\
        va_list rest; va_start(rest, cmd); void *p = va_arg(rest, void *); va_end(rest);  \\
        if (is_lock(cmd)) return refused();                                               \\
        static int (*real)(int, int, ...);                                                \\
        if (!real) real = dlsym(RTLD_NEXT, "fcntl");                                      \\
        return real(fd, cmd, p);                                                          \\
    }
LOCKLESS(fcntl)
LOCKLESS(fcntl64)
"""

EPOCHS = """
import logging, os, sys
logging.basicConfig(level=logging.WARNING)
import forebay as fb
remote, local, limit, user = sys.argv[1:]
import numpy
# Modules are imported with the first use of their names, and the user may have no right to read them.
fields, make = {"n": fb.Scalar("n")}, fb.Loader
os.setuid(int(user))
with make(remote=remote, local=local, batch_size=4, framework="numpy", fields=fields, cache_limit=limit or None) as loader:
    print("sum", sum(int(batch["n"].sum()) for _ in range(2) for batch in loader))
"""

TOTAL = f"sum {2 * sum(range(SAMPLES))}"


def write(folder, **options):
    with fb.MDSWriter(out=folder, columns={"n": "int"}, size_limit=120, **options) as writer:
        for number in range(SAMPLES):
            writer.write({"n": number})
    return folder


def start(remote, local, limit="", user=None, **environment):
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment
    arguments = [sys.executable, "-c", EPOCHS, remote, local, limit, str(os.geteuid() if user is None else user)]
    return subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def lockless(tmp_path_factory):
    """Library under which no lock on a file works."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("lockless")
    (folder / "lockless.c").write_text(NO_LOCKS)
    library = str(folder / "lockless.so")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, str(folder / "lockless.c"), "-ldl"], check=True)
    return library


ERRORS = [errno.ENOLCK, errno.EINVAL, errno.EOPNOTSUPP]


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_without_locks_a_folder_has_one_warning(tmp_path, lockless, code):
    remote = write(str(tmp_path / "remote"), compression="zstd")
    out, err = start(remote, str(tmp_path / "local"), LD_PRELOAD=lockless, NO_LOCKS=str(code)).communicate()
    assert out.strip() == TOTAL, err
    assert len(err.splitlines()) == 1 and "no locks on" in err, err


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_a_limit_without_locks_is_refused(tmp_path, lockless, code):
    remote = write(str(tmp_path / "remote"))
    processes = [start(remote, str(tmp_path / "local"), "100kb", LD_PRELOAD=lockless, NO_LOCKS=str(code)) for _ in range(2)]
    for process in processes:
        _, err = process.communicate()
        assert "ConfigError: `cache_limit` needs locks, which the file system of the cache folder does not have" in err


@pytest.fixture
def of_users():
    """Folder that all users can read."""
    if os.geteuid() != 0:
        pytest.skip("only root can become a different user")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        yield folder


def shared(folder, mode):
    os.makedirs(folder)
    os.chmod(folder, mode)
    return folder


def test_two_users_with_a_limit_in_a_folder_with_the_sticky_bit(of_users):
    remote, local = write(f"{of_users}/remote"), shared(f"{of_users}/local", 0o1777)
    first, second = (start(remote, local, "100kb", user).communicate() for user in (40_001, 40_002))
    assert first[0].strip() == TOTAL, first[1]
    # The shards of the first one are there, and its index.
    assert "AccessError: `cache_limit` needs locks and the right to remove shards" in second[1]
    assert start(remote, local, "", 40_002).communicate()[0].strip() == TOTAL


def test_two_users_with_a_limit_in_a_folder_in_which_both_may_remove_files(of_users):
    remote, local = write(f"{of_users}/remote"), shared(f"{of_users}/local", 0o777)
    # The folder, its index and four shards, in blocks of the disk.
    limit = str(8 * 4096)
    processes = [start(remote, local, limit, user) for user in (40_001, 40_002)]
    for process in processes:
        out, err = process.communicate()
        assert out.strip() == TOTAL, err
