"""An empty torchvision for vLLM's MiniMax M3 modules, which import it and use it for pictures alone.

It has to come after transformers has looked for the real one, and before anything of ``vllm.models.minimax_m3``.
"""

import enum
import importlib.machinery
import sys
import types

import transformers.image_processing_utils
import transformers.image_utils
import transformers.utils

transformers.utils.is_torchvision_available()


class InterpolationMode(enum.Enum):
    """Names that are looked up at import."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


def module(name: str, **values: object) -> types.ModuleType:
    """An importable, empty package."""
    made = types.ModuleType(name)
    made.__spec__ = importlib.machinery.ModuleSpec(name, None)
    made.__path__ = []
    made.__dict__.update(values)
    sys.modules[name] = made
    return made


def install() -> None:
    """Nothing where there is a torchvision already."""
    if "torchvision" in sys.modules:
        return
    functional = module("torchvision.transforms.v2.functional", InterpolationMode=InterpolationMode)
    v2 = module("torchvision.transforms.v2", functional=functional)
    plain = module("torchvision.transforms.functional", InterpolationMode=InterpolationMode)
    transforms = module("torchvision.transforms", InterpolationMode=InterpolationMode, v2=v2, functional=plain)
    module("torchvision", __version__="0.0.0", transforms=transforms, io=module("torchvision.io"))


install()
