"""Cases and observations to judge, drawn at random: what an executor could tell.

Both have been through JSON, as those of a worker or a saved case have: no text in them
is the very object that a property compares it with.
"""

import json
from dataclasses import replace

from hypothesis import strategies as st

from kvzero.case import Arrival, Call, Case, id_runs
from kvzero.casefile import decode_case, encode_case
from kvzero.executors.transcript import from_json, to_json
from kvzero.layout import Run
from kvzero.limits import Fate, LaunchShape
from kvzero.observation import (
    WARMUP_CALL,
    ByteSpan,
    CallObservation,
    Death,
    Launch,
    Misstep,
    Observation,
    Queued,
    Raised,
    Replayed,
    Semantics,
    Writer,
    WrongBytes,
)
from kvzero.properties import PROPERTIES
from tests.properties.conftest import LAYOUT

BLOCKS = LAYOUT.num_blocks
RUNS = [
    LAYOUT.runs,
    (Run(128, 512), Run(272, 512, 100)),  # share 28 bytes
    (Run(9, 512, 3),),
    (),
]
ARRIVALS: list[Arrival] = ["list", "array", "tensor", "pinned", "device"]
SEMANTICS: list[Semantics] = ["TTIR", "machine", "interpreter"]
EXECUTORS = {"TTIR": "footprint", "machine": "device", "interpreter": "host"}
FATES: list[Fate] = ["runs", "skipped", "rejected"]
PLACES = st.sampled_from(["k.py:1", "k.py:2"])


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """Draw a call, of legal ids or of some that are none, of any arrival."""
    some = st.integers(0, BLOCKS - 1) | st.integers(-2, BLOCKS + 1)
    ids = draw(st.lists(draw(st.sampled_from([st.integers(0, 3), some])), max_size=11))
    arrival = draw(st.sampled_from([*ARRIVALS, "device", "device"]))
    dtype = draw(st.sampled_from(["int64", "int32", "float32"]))
    return Call(id_runs(ids), arrival, "int64" if arrival == "list" else dtype)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw one to three calls on a small packed layout."""
    layout = replace(LAYOUT, runs=draw(st.sampled_from(RUNS)))
    made = draw(st.lists(calls(), min_size=1, max_size=3))
    case = Case(layout, tuple(made), seed=draw(st.integers(0, 3)))
    return decode_case(json.loads(json.dumps(encode_case(case))))


WRITERS = st.builds(Writer, st.tuples(*[st.integers(0, 40)] * 3), PLACES)
SPANS = st.builds(
    ByteSpan,
    st.sampled_from([0, 0, 0, None]),
    st.integers(-5, 2053),
    st.integers(1, 5),
    st.binary(max_size=2),
    st.none() | WRITERS,
)
WRONG = st.just(WrongBytes()) | st.builds(
    WrongBytes, st.integers(1, 5000), st.lists(SPANS, max_size=3).map(tuple)
)
RAISED = st.none() | st.builds(
    Raised, st.sampled_from(["E", "F"]), st.sampled_from(["", "why", "why\nand more"])
)
MISSTEPS = st.builds(
    Misstep,
    st.sampled_from(
        ["false-promise", "undefined-value", "undefined-arithmetic", "race", "bad-load"]
    ),
    st.just("it did"),
    PLACES,
    st.tuples(*[st.integers(0, 9)] * 3),
    st.integers(1, 3),
)
SEEN_CALLS = st.builds(
    CallObservation,
    raised=RAISED,
    bytes_judged=st.sampled_from([True, True, True, False]),
    missed=WRONG,
    touched=WRONG,
    stored_bytes=st.integers(0, 2),
    missteps=st.lists(MISSTEPS, max_size=2).map(tuple),
    programs=st.sampled_from([0, 1, 4096, 4097]),
    again_bytes=st.none() | st.integers(0, 3) | st.integers(0, 5000),
    again_by=st.none() | WRITERS,
    host_waits=st.none() | st.integers(0, 2),
)
CALM_CALLS = st.builds(
    CallObservation, raised=RAISED, programs=st.integers(0, 1), host_waits=st.just(0)
)
GRIDS = st.tuples(*[st.sampled_from([1, 1, 2, 65_535, 65_536, 2**31])] * 3)


def launches(num_calls: int) -> st.SearchStrategy[Launch]:
    """Return launches of a case with so many calls, or of its warm-up."""
    return st.builds(
        Launch,
        st.integers(WARMUP_CALL, num_calls - 1),
        st.sampled_from(["zero", "fill"]),
        PLACES,
        st.builds(LaunchShape, GRIDS),
        st.sampled_from(FATES),
        variant=st.sampled_from(["a", "b", "c"]),
    )


@st.composite
def observations(draw: st.DrawFn, case: Case) -> Observation:
    """Draw what an executor might have seen of a case."""
    semantics = draw(st.sampled_from(SEMANTICS))
    total = len(case.calls)
    ends = draw(st.sampled_from(["well", "well", "well", "died", "unbuilt"]))
    finished = total if ends == "well" else draw(st.integers(0, total))
    is_calm = draw(st.booleans(), label="no wrong bytes")
    call = CALM_CALLS if is_calm else SEEN_CALLS
    seen = st.lists(call, min_size=finished, max_size=finished)
    index = st.integers(0, total - 1)
    queued = st.builds(Queued, WRONG, WRONG, RAISED, st.none() | index)
    replayed = st.builds(Replayed, index, st.just((2, 3)), WRONG, WRONG, RAISED)
    names = st.sampled_from(["*", *PROPERTIES])
    unseen = st.lists(st.tuples(names, st.sampled_from(["x", "y"])), max_size=2)
    made = Observation(
        "s",
        EXECUTORS[semantics],
        semantics,
        "cuda:90",
        tuple(draw(seen)),
        tuple(draw(st.lists(launches(finished), max_size=4))),
        draw(st.booleans()),
        draw(RAISED) if ends == "unbuilt" else None,
        Death("process-hung", "it hung") if ends == "died" else None,
        tuple(draw(unseen)) if draw(st.booleans()) else (),
        draw(st.none() | queued),
        draw(st.none() | replayed),
        draw(st.none() | st.integers(0, 2)),
    )
    return from_json(json.loads(json.dumps(to_json(made))))
