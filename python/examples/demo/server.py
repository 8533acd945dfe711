"""The embedded object server, as a process of its own."""

from __future__ import annotations

import re
import subprocess


class Server:
    """A running server; `url` is where the served folder is."""

    def __init__(self, process: subprocess.Popen, url: str) -> None:
        self._process = process
        self.url = url

    def stop(self) -> None:
        """Ends it: the server lives as long as its standard input."""
        self._process.stdin.close()
        self._process.wait()


def start(binary: str, folder: str) -> Server:
    """Serves `folder` on a free port of loopback and waits until it says where."""
    command = [binary, folder]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        found = re.search(r"http://[\w.:\[\]-]+(?:/[\w./-]*)?", line)
        if found:
            return Server(process, found[0].rstrip("/"))
    raise SystemExit(f"{binary} ended with status {process.wait()} before it printed its address")
