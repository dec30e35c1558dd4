"""Comparisons of affine lanes, solved for the lane.

``base + step * lane < bound`` holds in an interval of lanes. Both sides must be known
not to have wrapped, and the lanes may differ along one dimension only; otherwise the
caller writes the lanes out.
"""

from typing import Any

import numpy as np

from kvzero.executors.footprint.arithmetic import COMPARISONS
from kvzero.executors.footprint.domain import Scalar
from kvzero.executors.footprint.values import (
    Affine,
    Box,
    Tensor,
    fits_in,
    splat,
    where,
)

_SIGNED = {"ult": "slt", "ule": "sle", "ugt": "sgt", "uge": "sge"}
_MIRRORED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle", "eq": "eq"}
_SAFE = 2**62
"""Differences of numbers below it stay inside 64 bits."""


def compared(predicate: str, x: Affine, y: Affine) -> Tensor | None:
    """Return a mask as a splat or a box, or None where it is neither.

    Args:
        predicate: Such as ``"slt"``.
        x: Left lanes.
        y: Right lanes.
    """
    if x.is_splat and y.is_splat:
        return splat(COMPARISONS[predicate](x.base, y.base), x.shape)
    if x.base.dtype == bool or not (x.has_plain_steps and y.has_plain_steps):
        return None
    span, other = x.span(), y.span()
    if not (fits_in(x.base.dtype, span) and fits_in(y.base.dtype, other)):
        return None
    spans = (*span, *other)
    if max(spans) >= _SAFE or min(spans) <= -_SAFE:
        return None
    if predicate in _SIGNED:
        if min(spans) < 0:
            return None
        predicate = _SIGNED[predicate]
    steps = [a - b for a, b in zip(x.steps, y.steps)]
    varying = [dim for dim, step in enumerate(steps) if step]
    if not varying:
        return splat(COMPARISONS[predicate](x.base, y.base), x.shape)
    if len(varying) > 1 or predicate not in _MIRRORED:
        return None
    distance = y.base.astype(np.int64) - x.base.astype(np.int64)
    return _solved(predicate, steps[varying[0]], distance, varying[0], x.shape)


def _solved(
    predicate: str, step: int, distance: Scalar, dim: int, shape: tuple[int, ...]
) -> Box:
    """Return where ``step * lane`` compares so with a distance."""
    if step < 0:
        predicate, step, distance = _MIRRORED[predicate], -step, -distance
    size = shape[dim]
    low: Any = 0
    high: Any = size
    if predicate == "slt":
        high = _clipped(_ceiling(distance, step), size)
    elif predicate == "sle":
        high = _clipped(_floor(distance, step) + 1, size)
    elif predicate == "sgt":
        low = _clipped(_floor(distance, step) + 1, size)
    elif predicate == "sge":
        low = _clipped(_ceiling(distance, step), size)
    else:
        lane = _floor(distance, step)
        is_lane = (lane * step == distance) & (lane >= 0) & (lane < size)
        low = where(is_lane, lane, np.int64(0))
        high = where(is_lane, lane + 1, np.int64(0))
    lows: list[Any] = [0] * len(shape)
    highs: list[Any] = list(shape)
    lows[dim], highs[dim] = low, high
    return Box(tuple(lows), tuple(highs), shape)


def _floor(distance: Scalar, step: int) -> Scalar:
    return distance if step == 1 else distance // np.int64(step)


def _ceiling(distance: Scalar, step: int) -> Scalar:
    return distance if step == 1 else -(-distance // np.int64(step))


def _clipped(lane: Scalar, size: int) -> Scalar:
    if not isinstance(lane, np.ndarray):
        return np.int64(min(max(int(lane), 0), size))
    return np.minimum(np.maximum(lane, np.int64(0)), np.int64(size))
