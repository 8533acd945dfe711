"""Fields of a batch, one per output. Each is made from one column of the samples.

A field has a column, operations and a result type. It is a plain value: the engine checks it when the loader is made,
and decodes.

Shapes in the documentation describe a batch: N rows, H and W in pixels, C channels.

    base      types of fields and operations, checks of arguments, the engine's form of all fields
    checks    checks of arguments that several operations have
    objects   boxes, points and masks of objects, their labels, and the class of each pixel
    crops     operations of the decoder: crops, resizes, flips, normalisation (more are in `forebay.operations`)
    tokenize  token ids of text
    chat      token ids of conversations
    documents changes of the token ids of a document
    pictures  pictures, masks, and both with the same draws
    values    numbers, tokens, arrays, text, documents; rows that are padded, and their masks
"""

from . import crops
from .base import Field, ImageOp, paddings, specs
from .chat import Chat
from .crops import *  # noqa: F403
from .documents import FillInMiddle, MaskedLM
from .objects import BoxLabels, Boxes, ClassMap, KeyPoints, ObjectMasks
from .pictures import Image, Joint, Mask
from .tokenize import Tokenize
from .values import Array, AttentionMask, Bytes, Json, Length, Scalar, Text, Tokens

__all__ = [
    "Array",
    "AttentionMask",
    "BoxLabels",
    "Boxes",
    "Bytes",
    "Chat",
    "ClassMap",
    "Field",
    "FillInMiddle",
    "Image",
    "ImageOp",
    "Joint",
    "Json",
    "KeyPoints",
    "Length",
    "Mask",
    "MaskedLM",
    "ObjectMasks",
    "Scalar",
    "Text",
    "Tokenize",
    "Tokens",
]
# Type checkers read this sum, and no other form.
__all__ += crops.__all__
