"""Colours that people can read: computed, in both schemes."""

from itertools import product

import pytest

from kvzero.report.html.style import DARK, LIGHT, SEGMENT_COLOURS, style_sheet

TEXTS = ("ink", "muted", "accent", "fault", "refusal", "cost", "good")
GROUNDS = ("page", "card", "soft")
SEGMENTS = tuple(f"segment-{index}" for index in range(SEGMENT_COLOURS))
PAIRS = (
    *product(TEXTS, GROUNDS),
    *product(("ink",), SEGMENTS),
    *product(("on-mark",), ("missed", "touched", "listed")),
)
SCHEMES = {"light": LIGHT, "dark": DARK}


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_computed_as_the_standard_says() -> None:  # sanity check
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_has_the_contrast_that_people_need(
    scheme: str, text: str, ground: str
) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("mark", ["missed", "touched", "listed", "accent", "muted"])
def test_marks_stand_out_from_what_is_behind_them(scheme: str, mark: str) -> None:
    colours = SCHEMES[scheme]
    assert contrast(colours[mark], colours["card"]) >= 3


def test_schemes_define_the_same_colours() -> None:
    assert list(LIGHT) == list(DARK)


def test_style_sheet_cannot_end_its_element() -> None:
    assert "<" not in style_sheet()
