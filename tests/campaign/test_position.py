from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.campaign.position import STAGES, Position, position_from_json
from kvzero.errors import CaseError

counts = st.integers(0, 200)
positions = st.builds(
    Position,
    st.sampled_from(STAGES),
    counts,
    counts,
    st.lists(counts, unique=True).map(tuple),
    counts,
    st.lists(st.text(max_size=4)).map(tuple),
)


@given(positions)
def test_positions_travel_as_plain_data(position: Position) -> None:
    assert position_from_json(position.as_json()) == position


@given(positions, st.data())
def test_without_skips_the_case_that_was_begun(
    position: Position, data: st.DataObject
) -> None:
    run = [place for place in range(600) if place >= position.case]
    run = [place for place in run if place not in position.skip]
    begun = data.draw(st.integers(0, 50), label="begun")
    skipped = position.without(begun).skip
    assert set(skipped) - set(position.skip) == {run[begun]}


@given(positions, counts)
def test_the_next_batch_counts_what_was_drawn(position: Position, cases: int) -> None:
    if position.stage == "done":
        return
    after = position.after_batch(cases)
    assert (after.case, after.skip) == (0, ())
    drawn = cases if position.stage == "batches" else 0
    assert after.behind == position.drawn + drawn


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {**Position().as_json(), "stage": "elsewhere"},
        {**Position().as_json(), "case": -1},
        {**Position().as_json(), "skip": ["x"]},
    ],
)
def test_what_is_no_position_is_refused(value: Any) -> None:
    with pytest.raises(CaseError, match="but must be a place in a row"):
        position_from_json(value)
