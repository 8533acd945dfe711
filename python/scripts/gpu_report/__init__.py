"""What forebay does on a machine with a GPU: correctness checks, then figures, into one JSON and one HTML page.

`make gpu-report` runs it. It needs a driver, torch with CUDA and the extension that was built beforehand (`make build`, on any
machine with as old a glibc), and nothing from a registry; nvJPEG's figures need nvJPEG, those of peers torchvision. A part that
cannot run says why, and the others go on. Each part runs in a process of its own, so one that crashes or hangs ends alone, and what
it had found is kept; nothing that the parent does touches CUDA.

    parts         which parts there are, what matters most first
    scale         how much is done, and how long each may take
    report        runs them, one after the other, as long as there is time
    outcome       what becomes of a part
    isolated      a process for a part, with a limit

    checks        what must hold: batches on the device are the host's
    compare       how samples differ, and which differ most
    decoding      checks of pictures that the device decodes
    sharing       checks of what consumers are handed: capsules, streams, graphs, other frameworks

    copies        figures of copies, bare and the loader's
    loading       figures of the loader's pictures
    peers         figures of torchvision and of a DataLoader
    training      figures of a training step
    nvjpeg        figures of the decoder alone: engines, ordinary cores, both
    rates         how fast something goes, and what it says of itself

    setting       what parts share, and loaders as they make them
    data          photographs and shards to check and measure with
    rows          rows that need no decoding, out of the page cache or past it
    surroundings  the machine, its driver, libraries and limits
    device        the driver by ctypes, for figures that need no framework
    frameworks    what batches are to Python: torch's tensors
    summary       the figures that matter, and what others reach
    page          JSON to HTML
"""
