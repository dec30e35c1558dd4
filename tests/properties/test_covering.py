"""Bytes of views, holes of pages and ids named again, against sets of bytes."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from kvzero.case import Call, Case, id_runs
from kvzero.layout import Allocation, Layout, Run, View
from kvzero.pages import ELEMENT_BYTES
from kvzero.properties.bytes_are_stored_once import allowed_again_bytes
from kvzero.properties.covering import bytes_of
from kvzero.properties.terms import outside_contract
from kvzero.subjects.protocol import Contract
from tests.properties.drawn import cases
from tests.properties.plain import again_allowed


@st.composite
def views(draw: st.DrawFn) -> View:
    """Draw a view whose elements are apart: dimensions in any order, with gaps."""
    inner = draw(st.lists(st.integers(1, 4), max_size=3))
    sizes = [draw(st.integers(1, 3)), *inner]
    strides, step = [0] * len(sizes), 1
    for dim in draw(st.permutations(range(len(sizes)))):
        strides[dim] = step
        step = step * sizes[dim] + draw(st.sampled_from([0, 0, 1, 5]))
    for dim, size in enumerate(inner, 1):
        if size == 1:
            strides[dim] = draw(st.sampled_from([strides[dim], 0, -7, 2**40]))
    dtype = draw(st.sampled_from(["uint8", "int16", "float32", "int64"]))
    offset = draw(st.integers(0, 9))
    return View(tuple(sizes), tuple(strides), dtype, offset_bytes=offset)


@given(views())
def test_bytes_of_a_view_are_those_of_its_elements(view: View) -> None:
    item = ELEMENT_BYTES[view.dtype]
    own = {
        view.offset_bytes + item * sum(map(int.__mul__, at, view.strides)) + byte
        for at in product([0], *map(range, view.shape[1:]))
        for byte in range(item)
    }
    found = bytes_of(view)
    parts = list(zip(found.begin.tolist(), found.end.tolist()))
    assert {byte for begin, end in parts for byte in range(begin, end)} == own
    assert sum(end - begin for begin, end in parts) == len(own)


@given(st.integers(0, 9), st.integers(0, 3), st.booleans(), st.booleans())
def test_a_page_with_bytes_of_no_view_is_outside_some_contracts(
    view_bytes: int, gap: int, has_views: bool, may_write: bool
) -> None:
    size = view_bytes + 1
    views = (View((2, size), (size + 3, 1), "uint8"),) if has_views else ()
    layout = Layout(2, (Allocation(40),), (Run(size + gap, size + 3),), views=views)
    contract = Contract(writes_page_gaps=may_write)
    reason = outside_contract(Case(layout, (Call(id_runs([1])),)), contract)
    is_outside = has_views and gap > 0 and not may_write
    told = "outside the contract: a page has holes that are in no view"
    assert reason == (told if is_outside else None)


@given(cases(), st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_bytes_that_a_list_names_again_are_those_beyond_the_first(
    case: Case, ids: list[int]
) -> None:
    call = Call(id_runs(ids))
    assert allowed_again_bytes(Case(case.layout, (call,)), 0) == again_allowed(
        case, call
    )
