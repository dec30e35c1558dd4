"""A case is outside a contract exactly where one of its terms, read plainly, fails."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import ID_DTYPES, Arrival, Call, Case, Placement, id_runs
from kvzero.casefile import decode_case, encode_case
from kvzero.layout import Allocation, Layout, Run
from kvzero.memory import place
from kvzero.observation import CallObservation, Observation
from kvzero.properties import NotJudged, judge
from kvzero.properties.terms import outside_contract
from kvzero.subjects.protocol import Contract
from tests.properties.drawn import ARRIVALS, BLOCKS, calls


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw pages, strides and addresses of round numbers, and some that are not."""
    pages = draw(st.lists(st.sampled_from([8, 16, 16, 32, 12]), min_size=1, max_size=2))
    stride = draw(st.sampled_from([64, 64, 80, 72, 68]))
    first = draw(st.sampled_from([0, 16, 8, 4]))
    runs = tuple(Run(page, stride, first + 32 * i) for i, page in enumerate(pages))
    layout = Layout(BLOCKS, (Allocation(512),), runs)
    where = Placement(misalignments_bytes=(draw(st.sampled_from([0, 16, 8, 4])),))
    case = Case(layout, tuple(draw(st.lists(calls(), max_size=2))), placement=where)
    return decode_case(json.loads(json.dumps(encode_case(case))))


CONTRACTS = st.builds(
    Contract,
    alignment_bytes=st.sampled_from([1, 1, 2, 4, 8, 16]),
    arrivals=st.sampled_from([tuple(ARRIVALS), tuple(ARRIVALS), ("list", "device")]),
    id_dtypes=st.sampled_from([ID_DTYPES, ID_DTYPES, ("int64",)]),
    checks_ids=st.booleans(),
    one_page_size=st.booleans(),
    min_blocks=st.sampled_from([0, 0, BLOCKS, BLOCKS + 1]),
)


def fails_a_term(call: Call, contract: Contract) -> bool:
    """Return whether a contract does not speak of a call."""
    if call.arrival not in contract.arrivals:
        return True
    is_integer = call.dtype in ID_DTYPES
    legal = all(i in range(BLOCKS) for i in call.expand())
    if not legal or (not is_integer and call.expand()):
        return not contract.checks_ids
    has_dtype = is_integer and call.arrival != "list"
    return has_dtype and call.dtype not in contract.id_dtypes


def fails_a_term_of_layouts(case: Case, contract: Contract) -> bool:
    """Return whether a contract does not speak of a layout and where it lies."""
    pages = [run.page_bytes for run in case.layout.runs]
    (base,) = place(case).base_bytes.tolist()
    lengths = [*pages, *(run.stride_bytes for run in case.layout.runs)]
    lengths += [base + run.offset_bytes for run in case.layout.runs]
    return (
        contract.min_blocks > BLOCKS
        or (contract.one_page_size and len(set(pages)) > 1)
        or any(length % contract.alignment_bytes for length in lengths)
    )


@given(cases(), CONTRACTS)
def test_a_case_is_outside_where_a_term_fails(case: Case, contract: Contract) -> None:
    bad = [i for i, call in enumerate(case.calls) if fails_a_term(call, contract)]
    reason = outside_contract(case, contract)
    if bad:
        assert reason is not None
        assert re.findall(r"calls\[(\d)\]", reason) == [str(bad[0])]
    else:
        assert (reason is not None) == fails_a_term_of_layouts(case, contract)
    made = tuple(CallObservation() for _ in case.calls)
    seen = Observation("s", "footprint", "TTIR", "", made)
    results = judge(case, seen, contract)
    if reason is not None:
        assert all(result == NotJudged(result.property, reason) for result in results)


@given(st.sampled_from(ARRIVALS), st.sampled_from(ID_DTYPES), st.booleans())
def test_a_dtype_of_ids_is_a_term_unless_they_come_as_a_list(
    arrival: Arrival, dtype: str, is_allowed: bool
) -> None:
    allowed = tuple(d for d in ID_DTYPES if (d == dtype) == is_allowed)
    call = Call(id_runs([1]), arrival, "int64" if arrival == "list" else dtype)
    case = Case(Layout(2, (Allocation(64),), (Run(8, 32),)), (call,))
    reason = outside_contract(case, Contract(id_dtypes=allowed))
    is_outside = arrival != "list" and not is_allowed
    told = f"outside the contract: calls[0]: ids have dtype {dtype}"
    assert reason == (told if is_outside else None)


@given(cases())
def test_the_widest_contract_speaks_of_every_case(case: Case) -> None:
    assert outside_contract(case, Contract()) is None
    assert outside_contract(case, Contract(min_blocks=BLOCKS)) is None
