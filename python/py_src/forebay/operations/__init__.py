"""Augmentation: operations on the pixels of a picture after its first crop and resize.

Names, arguments and distributions are the same as in `torchvision.transforms.v2`, and the pixels are the ones that it gives for
pictures of Pillow. The engine draws and applies them in its decode threads.
"""

from . import compose, framing, geometric, mix, pixels, policies, row
from .compose import *  # noqa: F403
from .framing import *  # noqa: F403
from .from_albumentations import from_albumentations
from .from_timm import from_timm
from .from_torchvision import from_torchvision
from .geometric import *  # noqa: F403
from .mix import *  # noqa: F403
from .pixels import *  # noqa: F403
from .policies import *  # noqa: F403
from .row import *  # noqa: F403

__all__ = ["from_albumentations", "from_timm", "from_torchvision"]
# Type checkers read these sums, and no other form.
__all__ += compose.__all__
__all__ += framing.__all__
__all__ += geometric.__all__
__all__ += mix.__all__
__all__ += pixels.__all__
__all__ += policies.__all__
__all__ += row.__all__
