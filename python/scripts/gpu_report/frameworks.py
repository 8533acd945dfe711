"""What batches on the device are to Python."""


class Torch:
    """torch's tensors."""

    framework = "torch"

    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise RuntimeError("torch sees no CUDA device")
        self.torch = torch

    def array(self, tensor):
        """A copy in host memory."""
        return tensor.cpu().numpy()

    def synchronize(self):
        """Waits for the device."""
        self.torch.cuda.synchronize()

    def describe(self):
        """The device and the versions."""
        torch = self.torch
        properties = torch.cuda.get_device_properties(0)
        return {
            "gpu": properties.name,
            "gpu_memory_bytes": properties.total_memory,
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
        }
