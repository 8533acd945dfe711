"""Augmentation: operations on the pixels of a picture after its first crop and resize.

Names, arguments and distributions are the same as in `torchvision.transforms.v2`, and the pixels are the ones that it gives for
pictures of Pillow. The engine draws and applies them in its decode threads.
"""

from . import by_chance, colour, compose, corrupt, elastic, erase, framing, geometric, hsv, levels, linear, mix, partners, policies
from .by_chance import *  # noqa: F403
from .colour import *  # noqa: F403
from .compose import *  # noqa: F403
from .corrupt import *  # noqa: F403
from .drawn import drawn
from .elastic import *  # noqa: F403
from .erase import *  # noqa: F403
from .framing import *  # noqa: F403
from .from_albumentations import from_albumentations
from .from_timm import from_timm
from .from_torchvision import from_torchvision
from .geometric import *  # noqa: F403
from .hsv import *  # noqa: F403
from .levels import *  # noqa: F403
from .linear import *  # noqa: F403
from .mix import *  # noqa: F403
from .partners import *  # noqa: F403
from .policies import *  # noqa: F403

__all__ = ["drawn", "from_albumentations", "from_timm", "from_torchvision"]
# Type checkers read these sums, and no other form.
__all__ += by_chance.__all__
__all__ += colour.__all__
__all__ += compose.__all__
__all__ += corrupt.__all__
__all__ += elastic.__all__
__all__ += erase.__all__
__all__ += framing.__all__
__all__ += geometric.__all__
__all__ += hsv.__all__
__all__ += levels.__all__
__all__ += linear.__all__
__all__ += mix.__all__
__all__ += partners.__all__
__all__ += policies.__all__
