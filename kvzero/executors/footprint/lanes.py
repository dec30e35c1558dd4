"""Comparisons of affine lanes, solved for the lane.

``base + step * lane < bound`` holds in an interval of lanes. Both sides must be known
not to have wrapped, and the lanes may differ along one dimension only; otherwise the
caller writes the lanes out.
"""

from typing import Any

import numpy as np

from kvzero.executors.footprint.arithmetic import MIRRORED, comparison_of
from kvzero.executors.footprint.domain import Scalar
from kvzero.executors.footprint.values import (
    Affine,
    Box,
    Tensor,
    splat,
    where,
)

_SIGNED = {"ult": "slt", "ule": "sle", "ugt": "sgt", "uge": "sge"}
_SAFE = 2**62
"""Differences of numbers below it stay inside 64 bits."""
_WIDEST = 8
"""Bytes of the widest type; those of all others do, too."""
_WITH_HIGH = ("slt", "sle")
_WITH_CEILING = ("slt", "sge")


def compared(predicate: str, x: Affine, y: Affine) -> Tensor | None:
    """Return a mask as a splat or a box, or None where it is neither.

    Args:
        predicate: Such as ``"slt"``.
        x: Left lanes.
        y: Right lanes.
    """
    if x.is_splat and y.is_splat:
        return _by_program(predicate, x, y)
    if not (x.has_plain_steps and y.has_plain_steps and _are_exact(predicate, x, y)):
        return None
    predicate = _SIGNED.get(predicate, predicate)
    steps = x.steps
    if not y.is_splat:
        steps = tuple(a - b for a, b in zip(x.steps, y.steps))
    varying = [dim for dim, step in enumerate(steps) if step]
    if not varying:
        return _by_program(predicate, x, y)
    if len(varying) > 1 or predicate not in ("eq", *MIRRORED):
        return None
    distance = _distance(x.base, y.base)
    return _solved(predicate, steps[varying[0]], distance, varying[0], x.shape)


def _by_program(predicate: str, x: Affine, y: Affine) -> Affine:
    """Return a comparison that comes out alike in all lanes of a program."""
    bits = 1 if x.base.dtype == bool else x.base.dtype.itemsize * 8
    return splat(comparison_of(predicate, bits)(x.base, y.base), x.shape)


def _are_exact(predicate: str, x: Affine, y: Affine) -> bool:
    """Return whether lanes compare as signed numbers, and so do their differences."""
    if x.base.dtype == bool or not (x.fits() and y.fits()):
        return False
    is_narrow = x.base.dtype.itemsize != _WIDEST
    if is_narrow and predicate not in _SIGNED:
        return True
    spans = (*x.span(), *y.span())
    if predicate in _SIGNED and min(spans) < 0:
        return False
    return is_narrow or (max(spans) < _SAFE and min(spans) > -_SAFE)


def _distance(x: Scalar, y: Scalar) -> Scalar:
    """Return how far the bases of left lanes lie below those of right ones."""
    right = y.astype(np.int64) if isinstance(y, np.ndarray) else int(y)
    if isinstance(x, np.ndarray):
        return right - x.astype(np.int64)
    return right - int(x) if x else right


def _solved(
    predicate: str, step: int, distance: Scalar, dim: int, shape: tuple[int, ...]
) -> Box:
    """Return where ``step * lane`` compares so with a distance."""
    if step < 0:
        predicate, step = MIRRORED.get(predicate, predicate), -step
        distance = -distance
    size = shape[dim]
    low: Any = 0
    high: Any = size
    if predicate in MIRRORED:
        is_next = predicate in _WITH_CEILING
        end = _ceiling(distance, step) if is_next else _floor(distance, step) + 1
        if predicate in _WITH_HIGH:
            high = _clipped(end, size)
        else:
            low = _clipped(end, size)
    else:
        lane = _floor(distance, step)
        is_lane = (lane * step == distance) & (lane >= 0) & (lane < size)
        low = where(is_lane, lane, 0)
        high = where(is_lane, lane + 1, 0)
    lows: list[Any] = [0] * len(shape)
    highs: list[Any] = list(shape)
    lows[dim], highs[dim] = low, high
    return Box(tuple(lows), tuple(highs), shape)


def _floor(distance: Scalar, step: int) -> Scalar:
    return distance if step == 1 else distance // step


def _ceiling(distance: Scalar, step: int) -> Scalar:
    return distance if step == 1 else -(-distance // step)


def _clipped(lane: Scalar, size: int) -> Scalar:
    if not isinstance(lane, np.ndarray):
        return min(max(lane, 0), size)
    return np.minimum(np.maximum(lane, 0), size)
