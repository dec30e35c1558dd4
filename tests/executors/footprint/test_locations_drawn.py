"""Aliases of source locations, however deep they lead."""

from hypothesis import example, given
from hypothesis import strategies as st

from kvzero.executors.footprint.locations import UNKNOWN_PLACE, Locations


@given(depth=st.integers(1, 80), names_itself=st.booleans())
@example(depth=64, names_itself=False)
@example(depth=65, names_itself=False)
def test_aliases_of_aliases_are_followed_to_a_depth(
    depth: int, names_itself: bool
) -> None:
    last = "#loc0" if names_itself else '"/k/a.py":3:1'
    lines = [f"#loc{i} = loc(#loc{i + 1})" for i in range(depth - 1)]
    lines.append(f"#loc{depth - 1} = loc({last})")
    found = Locations("\n".join(lines)).place("#loc0")
    is_found = not names_itself and depth <= 64
    assert found == ("a.py:3" if is_found else UNKNOWN_PLACE)
