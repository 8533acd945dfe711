"""Tables for the top of the page: the most important figures of all parts, and published figures of peers. Invalid
rows are left out.
"""

ANCHORS = (
    ("DALI's own bound on an H100, with 70 CPU threads", 19_000),
    ("torchvision's decoder on an A100, as announced", 8_000),
)
"""Published rates of device decoding in pictures per second, with different pictures."""


def tables(report):
    """Returns lists of rows: rates of pictures, with the ratio of the loader's best rate to peers and published rates;
    copies, with the ratio to bare ones; training steps.
    """
    found = {part["name"]: part["found"] for part in report["parts"] if isinstance(part.get("found"), dict)}
    return [list(_pictures(found)), list(_copies(found)), list(_training(found))]


def _rates(found):
    """Collects rates and busy CPUs by pictures and by decoder."""
    rates = {}
    for name, part in found.items():
        kind, _, rest = name.partition(", ")
        pictures, _, decoder = rest.rpartition(": ")
        if kind == "loader":
            honest = [row for row in part.get("rows", []) if "fell_back" not in row]
            if honest:
                best = max(honest, key=lambda row: row["pictures_per_s"])
                rates.setdefault(pictures, {})[f"forebay, {decoder}"] = best["pictures_per_s"], best["cpus_busy"]
        elif kind == "peer" and "pictures_per_s" in part:
            rates.setdefault(pictures, {})[decoder] = part["pictures_per_s"], part["cpus_busy"]
        elif kind == "nvJPEG alone":
            best = max((rate.get("pictures_per_s", 0) for rate in part.get("rates", [])), default=0)
            if best:
                rates.setdefault(rest, {})["nvJPEG alone, its best row"] = best, ""
    return rates


def _pictures(found):
    for pictures, by_decoder in _rates(found).items():
        ours = max((rate for decoder, (rate, _) in by_decoder.items() if decoder.startswith("forebay")), default=None)
        anchors = {decoder: (rate, "") for decoder, rate in ANCHORS} if ours else {}
        for decoder, (rate, cpus) in {**by_decoder, **anchors}.items():
            row = {"pictures": pictures, "decoder": decoder, "pictures_per_s": rate, "cpus_busy": cpus}
            yield row | ({"forebay's best / this": ours / rate} if ours else {})


def _copies(found):
    bare = found.get("copies: bare", {}).get("rows", [])
    loader = found.get("copies: the loader", {})
    if bare:
        yield {"copies": "bare", "bytes_per_s": bare[-1]["bytes_per_s"], "best_bytes_per_s": bare[-1]["best_bytes_per_s"]}
    for row in loader.get("rows", []):
        if "fell_back" not in row:
            rates = {name: row[name] for name in ("bytes_per_s", "best_bytes_per_s", "cpus_busy")}
            names = ("loader_of_bare", "loader_of_bare_best", "loader_of_bound") if row["to"] == "the device" else ()
            yield {"copies": f"forebay, to {row['to']}"} | rates | {name: loader[name] for name in names if name in loader}
    for row in found.get("copies: rows from disk", {}).get("rows", []):
        if "fell_back" not in row:
            decoder = f"forebay, from disk to {row['to']}"
            yield {"copies": decoder, "bytes_per_s": row["bytes_per_s"], "cpus_busy": row["cpus_busy"]}


def _training(found):
    names = ("pictures_per_s", "of_synthetic", "share_waiting_for_data", "cpus_busy")
    for name, part in found.items():
        if " in bf16: " in name and "pictures_per_s" in part and "fell_back" not in part:
            yield {"training": name} | {name: part[name] for name in names if name in part}
