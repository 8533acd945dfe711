"""Checks and measurements of forebay on a machine with a GPU, written into one JSON and one HTML file.

`make gpu-report` runs it. It needs a driver, torch with CUDA and the built extension (`make build`, on any machine with
a glibc as old), and nothing from a registry. Figures of nvJPEG need nvJPEG, figures of peers torchvision. A part that
cannot run is skipped with a reason. Each part runs in a separate process: a crash or a hang does not affect the remaining
parts, and intermediate results are kept. The parent never uses CUDA.

    parts         list of parts, the most important first
    scale         amount of work, and time limits
    report        runs the parts in order within the time limit
    outcome       outcome of a part
    isolated      process of a part, with a time limit

    checks        checks that batches on the device equal the host's
    compare       differences of samples
    decoding      checks of device decoding
    sharing       checks of delivered batches: capsules, streams, graphs, frameworks

    copies        figures of copies, bare and the loader's
    loading       figures of the loader's pictures
    peers         figures of torchvision and of a DataLoader
    training      figures of a training step
    nvjpeg        figures of the decoder alone: engines, ordinary cores, both
    rates         rates, counters and notes

    setting       shared state of the parts, and their loaders
    data          photographs and shards
    rows          rows that need no decoding, from the page cache or from disk
    surroundings  the machine, its driver, libraries and limits
    device        the driver by ctypes, for figures that need no framework
    frameworks    Python framework of batches: torch
    summary       most important figures, and published figures of peers
    page          JSON to HTML
"""
