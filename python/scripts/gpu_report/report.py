"""The parts, one after the other, each with its outcome."""

import datetime
import time

from . import outcome

GRACE_SECONDS = 45
"""After the time is over, for the part that is running then. With the 8 minutes of the default that is within the ten that a
machine is often lent for, start included.
"""


class Report:
    """Runs parts, as long as there is time, and hands what they found to `keep` before and after each. With `isolated` each runs in
    a fork of this process, which must never touch CUDA itself, and within a limit; else a part that crashes or hangs is the last.
    Of the minutes `spent_seconds` are over.
    """

    def __init__(self, minutes, keep, wanted=lambda name: True, isolated=False, spent_seconds=0.0):
        self.parts, self.machine, self._wanted, self._isolated = [], {}, wanted, isolated
        # Once: what is returned and what was written last are the same.
        self._begun = datetime.datetime.now(datetime.timezone.utc)
        self._minutes, self._end, self._keep = minutes, time.monotonic() + 60 * minutes - spent_seconds, keep

    def is_over(self):
        """Whether the time is."""
        return time.monotonic() >= self._end

    def describe(self, name, part, limit_seconds=60, may_be_late=False):
        """Runs `part`, wanted or not, and takes what it found as the machine's. Returns its entry, which is kept if it failed."""
        entry = self._run(name, part, limit_seconds, may_be_late)
        self.machine.update(entry.get("found", {}))
        if entry["outcome"] == "passed":
            self.parts.remove(entry)
        self._keep(self.document())
        return entry

    def run(self, name, part, limit_seconds=60, is_needed=False):
        """Runs `part`, if it is wanted, or needed by others; a failure is kept and told, and ends nothing else. Returns what it
        found, or None if it did not pass.
        """
        if not is_needed and not self._wanted(name):
            return None
        entry = self._run(name, part, limit_seconds)
        return entry["found"] if entry["outcome"] == "passed" else None

    def _run(self, name, part, limit_seconds, may_be_late=False):
        begun = time.perf_counter()
        entry = {"name": name, "outcome": "running", "why": "the process ended here", "seconds": 0.0}
        # Whoever reads the files of a process that was ended sees which part it was.
        self.parts.append(entry)
        self._keep(self.document())
        del entry["why"]
        entry.update(self._outcome(part, limit_seconds, may_be_late))
        entry["seconds"] = time.perf_counter() - begun
        print(f"{entry['outcome']:8} {name} ({entry['seconds']:.1f} s) {entry.get('why', '')}", flush=True)
        self._keep(self.document())
        return entry

    def _outcome(self, part, limit_seconds, may_be_late):
        if self.is_over() and not may_be_late:
            return {"outcome": "skipped", "why": f"the {self._minutes:g} minutes were over: raise --minutes"}
        if not self._isolated:
            return outcome.here(part)
        left_seconds = round(self._end + GRACE_SECONDS - time.monotonic())
        return outcome.apart(part, max(1, min(limit_seconds, left_seconds)))

    def document(self):
        """What goes into the JSON."""
        return {"date": self._begun.isoformat(timespec="seconds"), "machine": self.machine, "parts": self.parts}


def has_failed(document):
    """Whether a part has."""
    return any(part["outcome"] == "failed" for part in document["parts"])
