"""A folder behind FUSE that gives files a new inode at each look-up, as s3fs and gcsfuse do after they were forgotten.

It speaks the kernel's protocol itself, in a separate process. `mounted` needs the rights of an administrator.
"""

import contextlib
import ctypes
import errno
import itertools
import multiprocessing
import os
import stat
import struct

LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR, DESTROY, BATCH_FORGET = (
    1, 2, 3, 14, 15, 17, 18, 26, 27, 28, 29, 38, 42,
)  # fmt: skip
NO_REPLY = (FORGET, BATCH_FORGET)
ROOT = 1


class Mirror:
    """Answers for the files of a folder, which are read alone."""

    def __init__(self, folder):
        self.paths = {ROOT: folder}
        self.numbers = itertools.count(ROOT + 1)

    def attributes(self, node):
        found = os.stat(self.paths[node])
        times = [found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns]
        return struct.pack(
            "<QQQQQQIIIIIIIIII", node, found.st_size, found.st_blocks, *(time // 10**9 for time in times),
            *(time % 10**9 for time in times), found.st_mode, 1, 0, 0, 0, 4096, 0,
        )  # fmt: skip

    def answer(self, operation, node, body):
        if operation == INIT:
            return struct.pack("<IIIIHHII", 7, 31, 1 << 17, 0, 16, 16, 1 << 17, 1) + bytes(36)
        if operation == LOOKUP:
            path = os.path.join(self.paths[node], body.rstrip(b"\0").decode())
            os.stat(path)
            number = next(self.numbers)
            self.paths[number] = path
            # Valid for no time, so that each use of the name is a look-up.
            return struct.pack("<QQQQII", number, 0, 0, 0, 0, 0) + self.attributes(number)
        if operation == GETATTR:
            return struct.pack("<QII", 0, 0, 0) + self.attributes(node)
        if operation in (OPEN, OPENDIR):
            return struct.pack("<QII", 0, 0, 0)
        if operation == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            with open(self.paths[node], "rb") as file:
                return os.pread(file.fileno(), size, offset)
        if operation == READDIR:
            return self.names(node, *struct.unpack_from("<QQI", body)[1:])
        if operation == STATFS:
            return struct.pack("<QQQQQIIII", 1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19, 4096, 255, 4096, 0) + bytes(24)
        if operation in (RELEASE, RELEASEDIR):
            return b""
        raise OSError(errno.ENOSYS, "not supported")

    def names(self, node, offset, size):
        out = b""
        for place, name in enumerate(sorted(os.listdir(self.paths[node]))[offset:], offset + 1):
            kind = stat.S_IFMT(os.stat(os.path.join(self.paths[node], name)).st_mode) >> 12
            encoded = name.encode()
            entry = struct.pack("<QQII", 1 << 40, place, len(encoded), kind) + encoded
            entry += bytes(-len(entry) % 8)
            if len(out) + len(entry) > size:
                break
            out += entry
        return out


def serve(device, folder):
    mirror = Mirror(folder)
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError:
            return
        _, operation, unique, node = struct.unpack_from("<IIQQ", request)
        try:
            failure, answer = 0, b"" if operation in NO_REPLY else mirror.answer(operation, node, request[40:])
        except OSError as error:
            failure, answer = -(error.errno or errno.EIO), b""
        if operation not in NO_REPLY:
            os.write(device, struct.pack("<IiQ", 16 + len(answer), failure, unique) + answer)
        if operation == DESTROY:
            return


@contextlib.contextmanager
def mounted(folder, place):
    """Mounts `folder` at `place`.

    Raises:
        OSError: FUSE is not there, or needs more rights.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs(place)
    device = os.open("/dev/fuse", os.O_RDWR)
    try:
        options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
        if libc.mount(b"forebay", os.fsencode(place), b"fuse", 6, options):
            raise OSError(ctypes.get_errno(), "mount")
        server = multiprocessing.get_context("fork").Process(target=serve, args=(device, str(folder)), daemon=True)
        server.start()
    finally:
        os.close(device)
    try:
        yield place
    finally:
        # Detached: a test that failed may have files open.
        libc.umount2(os.fsencode(place), 2)
        server.join(10)
        server.kill()
