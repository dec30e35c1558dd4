from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvzero.report.visible import one_line, visible


@given(st.text())
def test_visible_text_holds_no_character_that_is_not_seen(text: str) -> None:
    kinds = {category(c) for c in visible(text) if c not in "\n\t"}
    assert not kinds & {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert "\n" not in one_line(text)


@given(st.text())
def test_visible_text_is_stable(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain <b> é 中 😀", "plain <b> é 中 😀"),
        ("a\u202eb", "a\\u202eb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("\ud800", "\\ud800"),
        ("\U000e0001", "\\U000e0001"),
        ("a\nb\tc\r", "a\nb\tc\\x0d"),
    ],
)
def test_visible_text_spells_out_what_is_hidden(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_spells_out_line_ends() -> None:
    assert one_line("a\nb") == "a\\x0ab"
