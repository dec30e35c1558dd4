"""Pictures that are true: what is drawn lies where the layout says, in every frame."""

from xml.etree.ElementTree import Element

from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.case import Case
from kvzero.layout import Allocation, Axis, Layout, Run
from kvzero.observation import ByteSpan, CallObservation, Observation, WrongBytes
from kvzero.report.html.drawing import CELL, NARROW, WIDE, Frame
from kvzero.report.html.memory_svg import memory_figure
from kvzero.report.pictures import case_pictures
from kvzero.strategies import cases
from tests.report.example_reports import (
    LARGE,
    OVERLAID,
    PADDED,
    SMALL,
    case_of,
    observation_of,
)

FRAMES = {"wide": WIDE, "narrow": NARROW}


def drawn(case: Case, seen: Observation | None = None) -> list[Element]:
    chosen = case_pictures(case, seen)
    return [
        memory_figure(chosen, each, f"k{i}") for i, each in enumerate(chosen.pictures)
    ]


def boxes(figure: Element, frame: str) -> dict[str, list[tuple[float, float]]]:
    """Return where each title's boxes begin and how wide they are."""
    found: dict[str, list[tuple[float, float]]] = {}
    for svg in figure.iter("svg"):
        if svg.get("class") == frame:
            for rect in svg.iter("rect"):
                place = float(rect.get("x", "")), float(rect.get("width", ""))
                found.setdefault(rect.findtext("title", ""), []).append(place)
    return found


@settings(max_examples=25)
@given(st.data(), cases(max_bytes=2**12))
def test_memory_figure_draws_inside_its_frame(data: st.DataObject, case: Case) -> None:
    size = int(case.layout.allocation_sizes[0]) if case.layout.num_allocations else 0
    begin = data.draw(st.integers(-8, size + 8), "begin")
    span = ByteSpan(0 if size else None, begin, data.draw(st.integers(1, 64), "length"))
    call = CallObservation(touched=WrongBytes(span.length_bytes, (span,)))
    seen = Observation("fake", "footprint", "TTIR", "nowhere", (call,))
    for figure in drawn(case, seen):
        for svg in figure.iter("svg"):
            width, height = float(svg.get("width", "")), float(svg.get("height", ""))
            for rect in svg.iter("rect"):
                x, y, w, h = (
                    float(rect.get(n, "")) for n in ("x", "y", "width", "height")
                )
                assert x >= 0
                assert x + w <= width + 2  # a sliver is widened to be seen
                assert 0 <= y < y + h <= height


def at(frame: Frame, column: int) -> float:
    return frame.gutter + column * CELL


def test_memory_figure_puts_each_page_where_its_bytes_are() -> None:
    (figure,) = drawn(case_of(SMALL), observation_of(SMALL))
    found = boxes(figure, "wide")
    # 8 columns of guard come first; a column is a byte.
    assert found["block 0, segment 0: bytes 0 to 7"] == [(at(WIDE, 8), 8 * CELL)]
    assert found["block 1, segment 1: bytes 24 to 31"] == [(at(WIDE, 32), 8 * CELL)]
    assert found["missed 1: bytes 8 to 15"] == [(at(WIDE, 16), 8 * CELL)]
    assert found["touched 1: bytes -4 to 1"] == [(at(WIDE, 4), 6 * CELL)]
    listed = "call 1 lists these bytes: they must be zero after it"
    assert found[listed] == [(at(WIDE, 24), 8 * CELL), (at(WIDE, 32), 8 * CELL)]


def test_memory_figure_breaks_its_rows_for_a_phone() -> None:
    (figure,) = drawn(case_of(SMALL), observation_of(SMALL))
    found = boxes(figure, "narrow")
    assert found["block 0, segment 0: bytes 0 to 7"] == [(at(NARROW, 8), 8 * CELL)]
    assert found["block 0, segment 1: bytes 8 to 15"] == [(at(NARROW, 0), 8 * CELL)]


def test_memory_figure_has_long_rows_on_a_phone_where_a_column_is_no_byte() -> None:
    layout = Layout(4, (Allocation(2_000),), (Run(500, 500),))
    (figure,) = drawn(case_of(layout))
    titles = {"block 0, segment 0: bytes 0 to 499", "guard, outside the allocation"}
    wide, narrow = boxes(figure, "wide"), boxes(figure, "narrow")
    for title in titles:
        assert len(wide[title]) == len(narrow[title])


def test_memory_figure_shows_what_wrong_bytes_hold() -> None:
    (figure,) = drawn(case_of(SMALL), observation_of(SMALL))
    texts = [text.text for text in figure.iter("text")]
    for text in ("d0", "75", "!", "00", "X"):
        assert text in texts


def test_memory_figure_draws_padding_guards_and_pages_over_pages() -> None:
    padded = boxes(drawn(case_of(PADDED))[0], "wide")
    assert "padding of a tile" in padded
    assert "guard, outside the allocation" in padded
    (overlaid,) = drawn(case_of(OVERLAID))
    assert "over it" in [text.text for text in overlaid.iter("text")]
    pile = Layout(1, (Allocation(8),), (Run(8, 8, axes=(Axis(9, 0),)),))
    (piled,) = drawn(case_of(pile))
    assert "5 more pages over these" in [text.text for text in piled.iter("text")]


def test_memory_figure_shows_a_large_allocation_whole_and_its_wrong_bytes() -> None:
    figures = drawn(case_of(LARGE), observation_of(LARGE))
    captions = [figure.findtext("figcaption") for figure in figures]
    assert captions[0] == "allocation 0, whole: 17,179,869,184 B (16 GiB)"
    whole = boxes(figures[0], "wide")
    ((x, _),) = whole["touched 1: bytes -4 to 1"]
    assert x == WIDE.gutter
    blocks = "call 1 lists blocks here: their pages must be zero after it"
    ((listed, _),) = whole[blocks]
    assert listed >= at(WIDE, 63)
