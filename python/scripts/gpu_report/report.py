"""Sequential run of the parts with their outcomes."""

import datetime
import time

from . import outcome

GRACE_SECONDS = 45
"""Extra time of the running part after the time limit. With the default of 8 minutes, the run with its start takes less
than ten.
"""


class Report:
    """Runner of parts within a time limit. Passes the results to `keep` before and after each part. With `isolated`
    each part runs in a fork of this process, which must not use CUDA, and within a limit; else a crash or a hang ends
    the run. `spent_seconds` of the minutes have passed already.
    """

    def __init__(self, minutes, keep, wanted=lambda name: True, isolated=False, spent_seconds=0.0):
        self.parts, self.machine, self._wanted, self._isolated = [], {}, wanted, isolated
        # Made once, so that the returned and the last written document are the same.
        self._begun = datetime.datetime.now(datetime.timezone.utc)
        self._minutes, self._end, self._keep = minutes, time.monotonic() + 60 * minutes - spent_seconds, keep

    def is_over(self):
        """Returns true if the time limit is reached."""
        return time.monotonic() >= self._end

    def describe(self, name, part, limit_seconds=60, may_be_late=False):
        """Runs `part` in any case and stores its results as the machine's. Returns its entry, which is kept if it
        failed."""
        entry = self._run(name, part, limit_seconds, may_be_late)
        self.machine.update(entry.get("found", {}))
        if entry["outcome"] == "passed":
            self.parts.remove(entry)
        self._keep(self.document())
        return entry

    def run(self, name, part, limit_seconds=60, is_needed=False):
        """Runs `part` if it is wanted or a later part needs it. A failure is recorded and printed, and later parts continue.
        Returns its results, or None if it did not pass.
        """
        if not is_needed and not self._wanted(name):
            return None
        entry = self._run(name, part, limit_seconds)
        return entry["found"] if entry["outcome"] == "passed" else None

    def _run(self, name, part, limit_seconds, may_be_late=False):
        begun = time.perf_counter()
        entry = {"name": name, "outcome": "running", "why": "the process ended here", "seconds": 0.0}
        # The files of a process that was killed then show the running part.
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
        """Returns the document of the JSON file."""
        return {"date": self._begun.isoformat(timespec="seconds"), "machine": self.machine, "parts": self.parts}


def has_failed(document):
    """Returns true if a part has failed."""
    return any(part["outcome"] == "failed" for part in document["parts"])
