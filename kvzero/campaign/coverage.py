"""Which pairs of features cases had, and how near their launches came to a limit.

One feature is met by any case in some dozens; two together are what a fault needs, and
there are a few thousand pairs, so that what is kept for them stays small. The pairs are
the bits of one int: row ``i`` holds the features that were met together with feature
``i``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvzero.case import Case
from kvzero.limits import CUDA_MAX_YZ, HIP_MAX_WORK_ITEMS, HIP_WIDEST_WARP, INT32_MAX
from kvzero.observation import Launch
from kvzero.strategies.features import FEATURES, features

Json = Any  # a JSON document

LIMITED = {
    "x": INT32_MAX,
    "y": CUDA_MAX_YZ,
    "z": CUDA_MAX_YZ,
    "product": INT32_MAX,
    "work items": HIP_MAX_WORK_ITEMS,
}
"""The largest value of what limits are on."""
_INDEX = {name: index for index, name in enumerate(sorted(FEATURES))}
_COUNT = len(_INDEX)
_DIAGONAL = sum(1 << (index * (_COUNT + 1)) for index in range(_COUNT))


def pairs(names: Iterable[str]) -> int:
    """Return the pairs of some features, as bits."""
    present = [_INDEX[name] for name in names]
    row = sum(1 << index for index in present)
    return sum(row << (index * _COUNT) for index in present)


def nearness(launches: Iterable[Launch]) -> dict[str, int]:
    """Return how near launches came to each limit without crossing it.

    Returns:
        By limit, the bits of the largest value that it allows, such as 16 for a y of
        65,535 and 1 for a y of 1: one more is half as far.
    """
    nearest: dict[str, int] = {}
    for launch in launches:
        shape = launch.shape
        x, y, z = shape.grid
        items = x * shape.num_ctas * shape.num_warps * HIP_WIDEST_WARP
        values = {
            "x": x * shape.num_ctas,
            "y": y,
            "z": z,
            "product": shape.programs,
            "work items": items,
        }
        for name, value in values.items():
            if value <= LIMITED[name]:
                nearest[name] = max(nearest.get(name, 0), value.bit_length())
    return nearest


@dataclass
class Coverage:
    """What a campaign has met.

    Attributes:
        pairs: Pairs of features, as bits.
        nearest: How near launches came to each limit.
    """

    pairs: int = 0
    nearest: dict[str, int] = field(default_factory=dict)

    def add(self, met: "Coverage") -> bool:
        """Add what a case has met; return whether anything of it is new."""
        is_new = bool(met.pairs & ~self.pairs)
        self.pairs |= met.pairs
        for name, near in met.nearest.items():
            if near > self.nearest.get(name, 0):
                self.nearest[name] = near
                is_new = True
        return is_new

    @property
    def features(self) -> int:
        """Return how many features were met, of `total_features`."""
        return (self.pairs & _DIAGONAL).bit_count()

    @property
    def names(self) -> list[str]:
        """Return the features that were met, by name."""
        met = self.pairs
        return [name for name, i in _INDEX.items() if met >> i * (_COUNT + 1) & 1]

    @property
    def together(self) -> dict[str, frozenset[str]]:
        """Return by feature that was met those met with it, itself included."""
        rows = {name: self.pairs >> i * _COUNT for name, i in _INDEX.items()}
        return {
            name: frozenset(
                other for other, at in _INDEX.items() if rows[name] >> at & 1
            )
            for name in self.names
        }

    @property
    def num_pairs(self) -> int:
        """Return how many pairs of two features were met."""
        return (self.pairs.bit_count() - self.features) // 2

    def as_json(self) -> Json:
        """Return it as plain data."""
        return {"pairs": f"{self.pairs:x}", "nearest": dict(self.nearest)}


def coverage_from_json(value: Mapping[str, Any]) -> Coverage:  # Any: JSON
    """Return what `Coverage.as_json` told; pairs beyond the known are dropped."""
    known = (1 << _COUNT * _COUNT) - 1
    nearest = {str(name): int(near) for name, near in value["nearest"].items()}
    return Coverage(int(value["pairs"], 16) & known, nearest)


def total_features() -> int:
    """Return how many features there are."""
    return _COUNT


def coverage_of(case: Case, launches: Iterable[Launch]) -> Coverage:
    """Return what one case has met."""
    return Coverage(pairs(features(case)), nearness(launches))
