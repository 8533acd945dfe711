"""What forebay does on a machine with a GPU: correctness checks, then figures, into one JSON and one HTML page.

`make gpu-report` runs it. It needs a driver, torch with CUDA and the extension that was built beforehand (`make build`, on any
machine with as old a glibc), and nothing from a registry; nvJPEG's figures need nvJPEG, those of peers torchvision. A part that
cannot run says why, and the others go on. Each part runs in a process of its own, so one that crashes or hangs ends alone; nothing
that the parent does touches CUDA.

    report     the parts, one after the other, each with its outcome
    outcome    what becomes of a part
    isolated   a process for a part, with a limit
    checks     what must hold: batches on the device are the host's
    figures    copies, the loader, its peers, a training step
    nvjpeg     the decoder alone: engines, ordinary cores, both
    device     the driver by ctypes, for figures that need no framework
    frameworks what batches are to Python: torch's tensors
    data       photographs and shards to measure with
    page       JSON to HTML
"""
