"""Python frameworks of batches on the device."""

import contextlib

from .outcome import Skipped


class Torch:
    """torch's tensors, and the device `on` which peers and training run: "cuda", or "cpu" to check that they run. The
    constructor does not use CUDA, so that processes can be forked afterwards.
    """

    framework = "torch"

    def __init__(self, on="cuda"):
        import torch

        self.torch, self.on = torch, on

    def array(self, tensor):
        """Returns a copy in host memory, with types of numpy."""
        if tensor.dtype is self.torch.bfloat16:
            tensor = tensor.float()
        return tensor.cpu().numpy().copy() if self.on == "cpu" else tensor.cpu().numpy()

    def take(self, tensor, versioned):
        """Returns a copy of a tensor with `__dlpack__`, by a capsule of either kind."""
        more = {"max_version": (1, 0)} if versioned else {}
        if self.on == "cuda":
            # 1 is DLPack's number of the default stream.
            more["stream"] = self.torch.cuda.current_stream().cuda_stream or 1
        return self.array(self.torch.from_dlpack(tensor.__dlpack__(**more)))

    def synchronize(self):
        """Waits for the device."""
        if self.on == "cuda":
            self.torch.cuda.synchronize()

    def stream(self):
        return self.torch.cuda.Stream() if self.on == "cuda" else None

    def on_stream(self, stream):
        """Queues torch's work inside on `stream`."""
        return self.torch.cuda.stream(stream) if stream else contextlib.nullcontext()

    def delay(self):
        """Keeps the current stream busy for some milliseconds."""
        if self.on == "cuda":
            self.torch.cuda._sleep(10_000_000)

    def capture(self, work, meanwhile, mode):
        """Captures `work` as a graph on a separate stream, calls `meanwhile` before the end, and returns the replay
        function."""
        if self.on != "cuda":
            meanwhile()
            return work
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph, capture_error_mode=mode):
            work()
            meanwhile()
        return graph.replay

    def describe(self):
        """Returns the device and the versions.

        Raises:
            Skipped: There is no device.
        """
        torch = self.torch
        if self.on == "cuda" and not torch.cuda.is_available():
            raise Skipped("torch sees no CUDA device")
        found = {"torch": torch.__version__, "cuda": torch.version.cuda}
        if self.on == "cuda":
            properties = torch.cuda.get_device_properties(0)
            capability = f"{properties.major}.{properties.minor}"
            device = {"gpu": properties.name, "gpu_memory_bytes": properties.total_memory, "compute_capability": capability}
            found = {**device, "gpus": torch.cuda.device_count(), "sms": properties.multi_processor_count, **found}
        return found
