"""Actions that torchvision's policies can draw, as the engine names them."""

import math

LEVEL_NAMES = (
    "AutoContrast", "Equalize", "Invert", "Rotate", "Posterize", "PosterizeIncreasing",
    "PosterizeOriginal", "Solarize", "SolarizeIncreasing", "SolarizeAdd", "Color", "ColorIncreasing",
    "Contrast", "ContrastIncreasing", "Brightness", "BrightnessIncreasing", "Sharpness", "SharpnessIncreasing",
    "ShearX", "ShearY", "TranslateX", "TranslateY", "TranslateXRel", "TranslateYRel",
    "Desaturate", "GaussianBlur", "GaussianBlurRand",
)
"""Operations of timm's policies, by their names there."""


def action_of(transform_id, magnitude):
    """Returns the action of one of torchvision's operations with its strength; None for `Identity`."""
    shear, translate = [0.0, 0.0], [0.0, 0.0]
    axis = 0 if transform_id.endswith("X") else 1
    if transform_id == "Identity":
        return None
    if transform_id.startswith("Shear"):
        shear[axis] = math.degrees(math.atan(magnitude))
        return ("affine", tuple(translate), tuple(shear), (0.0, 0.0))
    if transform_id.startswith("Translate"):
        translate[axis] = float(int(magnitude))
        return ("affine", tuple(translate), tuple(shear), None)
    return {
        "Rotate": ("rotate", magnitude),
        "Brightness": ("adjust_brightness", 1.0 + magnitude),
        "Color": ("adjust_saturation", 1.0 + magnitude),
        "Contrast": ("adjust_contrast", 1.0 + magnitude),
        "Sharpness": ("adjust_sharpness", 1.0 + magnitude),
        "Posterize": ("posterize", int(magnitude)),
        "Solarize": ("solarize", 255.0 * magnitude),
        "AutoContrast": ("autocontrast",),
        "Equalize": ("equalize",),
        "Invert": ("invert",),
    }[transform_id]


def drawn_action(step):
    """Returns a step in the same form."""
    action = step["action"]
    if action == "affine":
        center = None if step["center"] is None else tuple(step["center"])
        return (action, tuple(step["translate"]), tuple(step["shear"]), center)
    values = [step[name] for name in ("angle", "factor", "bits", "threshold") if name in step]
    return (action, *values)


def possible(space, bins, size, bin_of=None):
    """Returns the actions of each operation of a space, by its name."""
    height, width = size
    actions = {}
    for name, (magnitudes, signed) in space.items():
        strengths = magnitudes(bins, height, width)
        chosen = [0.0] if strengths is None else [float(strengths[place]) for place in (range(bins) if bin_of is None else [bin_of])]
        signs = (1, -1) if signed else (1,)
        actions[name] = {action_of(name, sign * strength) for strength in chosen for sign in signs}
    return actions


def rounded(action):
    """Returns an action with numbers that do not depend on the last bit of an arc tangent."""
    return tuple(
        tuple(round(x, 9) for x in part) if isinstance(part, tuple) else round(part, 12) if isinstance(part, float) else part
        for part in action
    )
