"""Pictures as samples of a model's input: decoded, resized, normalised as the user states."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from npudbg.layers.normalisation import declared, image_axis
from npudbg.session.errors import UserError
from npudbg.session.text import safe

if TYPE_CHECKING:
    import numpy.typing as npt

    from npudbg.layers.case import Preprocessing

_MOST_PIXELS = 1 << 26
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def picture(
    path: Path, name: str, like: npt.NDArray[Any], preprocessing: Mapping[str, Preprocessing]
) -> npt.NDArray[Any]:
    """Return a picture as a value of an input.

    It is decoded to 8 bits a channel (RGB), resized bilinearly, laid out as the input is,
    and ``(pixel * scale - mean) / std`` where the input is floating-point.

    Args:
        path: PNG, JPEG, BMP, PPM or WebP.
        name: The input.
        like: A value of it: shape (3 or 4 axes, one of 1, 3 or 4 channels) and type.
        preprocessing: What was stated, by input name (``""`` for every input).

    Raises:
        UserError: It is no picture, too large, or the input takes none.
    """
    import numpy as np

    where = f"--calib {safe(path)}"
    said = preprocessing.get(name) or preprocessing.get("")
    axis = image_axis(like.shape, None if said is None else said.layout)
    channels = like.shape[axis] if axis is not None else 0
    if axis is None or channels not in _MODES or like.ndim not in (3, 4):
        raise UserError(
            f"{where}: input {safe(name)} {list(like.shape)} is no picture's shape; give .npy or "
            ".npz files"
        )
    normalise = declared(said)
    if like.dtype.kind == "f" and normalise is None:
        raise UserError(
            f"{where}: input {safe(name)} takes {like.dtype.name}, so what the model expects of "
            "pixels has to be stated: --mean, --std, --scale (--scale 1 for raw pixels)"
        )
    if like.dtype.kind != "f" and like.dtype != np.uint8:
        raise UserError(f"{where}: input {safe(name)} takes {like.dtype.name}; give .npy files")
    last = axis == like.ndim - 1
    height, width = like.shape[-3:-1] if last else like.shape[-2:]
    pixels = _decoded(path, where, _MODES[channels], (width, height)).reshape(
        height, width, channels
    )
    values = pixels if normalise is None else normalise.once(pixels).astype(like.dtype)
    values = values if last else values.transpose(2, 0, 1)
    return np.ascontiguousarray(np.broadcast_to(values, like.shape))


def _decoded(path: Path, where: str, mode: str, size: tuple[int, int]) -> npt.NDArray[Any]:
    import numpy as np

    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise UserError(
            f"{where}: pictures are read by Pillow, which is not installed; "
            "pip install 'npudbg[images]', or give .npy files"
        ) from None
    try:
        with Image.open(path) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise UserError(
                    f"{where}: {image.width} x {image.height} pixels; expected at most "
                    f"{_MOST_PIXELS:,}"
                )
            plain = image.convert(mode)
            if plain.size != size:
                plain = plain.resize(size, Image.Resampling.BILINEAR)
            return np.asarray(plain)
    except (UnidentifiedImageError, Image.DecompressionBombError, SyntaxError, ValueError):
        raise UserError(f"{where}: not a picture that can be decoded") from None
    except OSError as error:
        raise UserError(f"{where}: {safe(error.strerror or error)}") from None
