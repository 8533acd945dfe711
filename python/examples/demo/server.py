"""Embedded object server in a separate process."""

from __future__ import annotations

import re
import subprocess


class Server:
    """Running server; `url` is the address of the served folder."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self.url = url

    def stop(self) -> None:
        """Ends the server by closing its standard input."""
        self._process.communicate()


def start(binary: str, folder: str) -> Server:
    """Serves `folder` on a free port of loopback; waits until the server prints its address."""
    command = [binary, folder]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in process.stdout or ():
        found = re.search(r"http://[\w.:\[\]-]+(?:/[\w./-]*)?", line)
        if found:
            return Server(process, found[0].rstrip("/"))
    raise SystemExit(f"{binary} ended with status {process.wait()} before it printed its address")
