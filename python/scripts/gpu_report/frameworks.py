"""What batches on the device are to Python."""

from .outcome import Skipped


class Torch:
    """torch's tensors, and the device `on` which peers and training run: "cuda", or "cpu" to see that they run at all. To make one
    leaves CUDA alone, so that processes can be forked afterwards.
    """

    framework = "torch"

    def __init__(self, on="cuda"):
        import torch

        self.torch, self.on = torch, on

    def array(self, tensor):
        """A copy in host memory."""
        return tensor.cpu().numpy()

    def synchronize(self):
        """Waits for the device."""
        if self.on == "cuda":
            self.torch.cuda.synchronize()

    def describe(self):
        """The device and the versions.

        Raises:
            Skipped: There is no device.
        """
        torch = self.torch
        if self.on == "cuda" and not torch.cuda.is_available():
            raise Skipped("torch sees no CUDA device")
        found = {"torch": torch.__version__, "cuda": torch.version.cuda}
        if self.on == "cuda":
            properties = torch.cuda.get_device_properties(0)
            found = {"gpu": properties.name, "gpu_memory_bytes": properties.total_memory, **found}
        return found
