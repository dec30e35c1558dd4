"""A small packed case, and observations of it, for the tests of properties."""

from collections.abc import Callable

import pytest

from kvzero.case import Call, Case, id_runs
from kvzero.layout import Allocation, Layout, Run, Tile
from kvzero.observation import CallObservation, Launch, Observation, Semantics

LAYOUT = Layout(
    4,
    (Allocation(2048),),
    (Run(128, 512), Run(272, 512, 128)),
    (Tile(512, 4),),
)

Observe = Callable[..., Observation]


@pytest.fixture
def case() -> Case:
    """Return two legal calls on pages of 128 and 272 bytes in blocks of 512."""
    return Case(LAYOUT, (Call(id_runs([1, 2])), Call(id_runs([3]))))


@pytest.fixture
def bad_case() -> Case:
    """Return a call with id 4 of 4, a refused dtype, and a bad id on the device."""
    calls = (
        Call(id_runs([1, 4])),
        Call(id_runs([1]), "array", "float32"),
        Call(id_runs([1, -1]), "device"),
    )
    return Case(LAYOUT, calls)


@pytest.fixture
def observe() -> Observe:
    """Return what builds an observation of calls and launches."""

    def build(
        *calls: CallObservation,
        launches: tuple[Launch, ...] = (),
        semantics: Semantics = "TTIR",
        has_warmup: bool = False,
    ) -> Observation:
        return Observation(
            "subject",
            "footprint" if semantics == "TTIR" else "device",
            semantics,
            "cuda:90",
            calls,
            launches,
            has_warmup,
        )

    return build
