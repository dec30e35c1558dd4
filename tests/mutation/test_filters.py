"""What is no mutant is left out by rule, and nothing else is."""

import pytest

from tests.mutation.filters import places, rule_against

SOURCE = '''\
Sizes = int | None
WIDE = 1 << 4
FLAGS = LOW | HIGH


def page(size: int | None, *, step: int = 3) -> int | str:
    """Say 1 + 1."""
    if size > 7:
        raise ValueError(f"size={size + 1}", 2)
    kept: int | None = size * 2
    return kept + step
'''

CASES = [
    ("Sizes = int | None", "Sizes = int & None", "annotation"),
    ("WIDE = 1 << 4", "WIDE = 1 >> 4", None),
    ("LOW | HIGH", "LOW & HIGH", None),
    ("size: int | None", "size: int & None", "annotation"),
    ("*, step", "+, step", "no Python"),
    ("step: int = 3", "step: int = 4", None),
    ("-> int | str", "-> int & str", "annotation"),
    ("size > 7", "size < 7", None),
    ("size + 1}", "size - 1}", "words"),
    (", 2)", ", 3)", "words"),
    ("kept: int | None", "kept: int & None", "annotation"),
    ("size * 2", "size / 2", None),
    ("size * 2", "size  * 2", "no change"),
]


@pytest.mark.parametrize(("before", "after", "rule"), CASES)
def test_a_mutant_is_left_out_by_its_place_or_its_text(
    before: str, after: str, rule: str | None
) -> None:
    at = SOURCE.index(before)
    first = next(i for i, (a, b) in enumerate(zip(before, after)) if a != b)
    row = SOURCE.count("\n", 0, at + first)
    column = at + first - (SOURCE.rfind("\n", 0, at + first) + 1)
    begin, end = (row + 1, column), (row + 1, column + 1)
    mutated = SOURCE.replace(before, after)
    assert rule_against(SOURCE, mutated, places(SOURCE), begin, end) == rule
