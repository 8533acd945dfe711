"""The figures that matter, of all parts, and what others reach: rows for the top of the page."""

ANCHORS = (
    ("DALI's own bound on an H100, with 70 CPU threads", 19_000),
    ("torchvision's decoder on an A100, as it was announced", 8_000),
)
"""Pictures per second that others have published, decoded on the device. Their pictures are not these."""


def rows(report):
    """Rates of pictures with what they are to peers of the same pictures and to anchors, and of copies to bare ones. Rows that are
    not what they say are left out.
    """
    found = {part["name"]: part["found"] for part in report["parts"] if isinstance(part.get("found"), dict)}
    return [*_pictures(found), *_copies(found), *_training(found)]


def _pictures(found):
    rates = {}
    for name, part in found.items():
        kind, _, rest = name.partition(", ")
        pictures, _, who = rest.rpartition(": ")
        if kind == "loader":
            honest = [row for row in part.get("rows", []) if "fell_back" not in row]
            if honest:
                best = max(honest, key=lambda row: row["pictures_per_s"])
                rates.setdefault(pictures, {})[f"forebay, {who}"] = best["pictures_per_s"], best["cpus_busy"]
        elif kind == "peer" and "pictures_per_s" in part:
            rates.setdefault(pictures, {})[who] = part["pictures_per_s"], part["cpus_busy"]
        elif kind == "nvJPEG alone":
            best = max((rate.get("pictures_per_s", 0) for rate in part.get("rates", [])), default=0)
            if best:
                rates.setdefault(rest, {})["nvJPEG alone, best of its rows"] = best, None
    for pictures, by_whom in rates.items():
        ours = max((rate for who, (rate, _) in by_whom.items() if who.startswith("forebay")), default=None)
        for who, (rate, cpus) in by_whom.items():
            row = {"what": f"pictures/s, {pictures}", "who": who, "rate": rate}
            yield row | ({"cpus_busy": cpus} if cpus else {}) | ({"of forebay's best": rate / ours} if ours else {})
        for who, rate in ANCHORS if ours else ():
            yield {"what": f"pictures/s, {pictures}", "who": who, "rate": rate, "of forebay's best": rate / ours}


def _copies(found):
    bare = found.get("copies: bare", {}).get("rows", [])
    loader = found.get("copies: the loader", {})
    if bare:
        yield {"what": "copies to the device", "who": "bare", "bytes_per_s": bare[-1]["bytes_per_s"]}
    for row in loader.get("rows", []):
        if "fell_back" not in row:
            ratio = {"of bare": loader["loader_of_bare"]} if row["to"] == "the device" and "loader_of_bare" in loader else {}
            who = f"forebay, to {row['to']}"
            yield {"what": "copies to the device", "who": who, "bytes_per_s": row["bytes_per_s"], "cpus_busy": row["cpus_busy"], **ratio}


def _training(found):
    for name, part in found.items():
        model, _, who = name.partition(" in bf16: ")
        if who and "pictures_per_s" in part and "fell_back" not in part:
            row = {"what": f"pictures/s, {model} in bf16", "who": who, "rate": part["pictures_per_s"], "cpus_busy": part["cpus_busy"]}
            yield row | ({"of synthetic": part["of_synthetic"]} if "of_synthetic" in part else {})
