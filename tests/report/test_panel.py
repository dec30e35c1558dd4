from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.properties.location import locate
from kvzero.report.panel import Mark, Window, draw, segment_letters
from kvzero.strategies import layouts


def track(lines: list[str], label: str) -> str:
    """Return the columns of a track, its rows joined."""
    return "".join(line[12:].ljust(64) for line in lines if line[2:12].strip() == label)


@settings(max_examples=30, deadline=None)  # thousands of segments take their time
@given(data=st.data(), layout=layouts(max_bytes=2**12))
def test_draw_shows_of_each_byte_whose_it_is(
    data: st.DataObject, layout: Layout
) -> None:
    allocation = data.draw(st.integers(0, layout.num_allocations - 1))
    size = int(layout.allocation_sizes[allocation])
    begin = data.draw(st.integers(-8, size), "begin")
    lines = draw(layout, Window(allocation, begin, 64))
    cells, over = track(lines, "segment"), "over it" in "".join(lines)
    letters = segment_letters(layout.table)
    for column, cell in enumerate(cells):
        place = locate(layout, allocation, begin + column)
        if not 0 <= begin + column < size:
            assert cell == ":"
        elif place.segment is None:
            assert cell == ("." if "padding" in place.owner else "-")
        else:
            assert cell.lower() in letters or (over and cell == " ")


@given(
    begin=st.integers(-100, 500), length=st.integers(1, 200), scale=st.integers(1, 40)
)
def test_draw_marks_exactly_the_columns_that_wrong_bytes_meet(
    begin: int, length: int, scale: int
) -> None:
    layout = Layout(4, (Allocation(400),), (Run(100, 100),))
    window = Window(0, 0, 64, scale)
    marks = [Mark("missed 1", "!", 0, begin, begin + length)]
    cells = track(draw(layout, window, marks=marks), "missed 1").ljust(64)
    wrong = range(begin, begin + length)
    for column in range(64):
        first = column * scale
        meets = max(first, wrong.start) < min(first + scale, wrong.stop)
        assert (cells[column] == "!") == meets


def test_draw_names_blocks_pages_padding_and_guards() -> None:
    layout = Layout(2, (Allocation(24),), (Run(4, 12), Run(3, 12, 6)), (Tile(12, 2),))
    assert draw(layout, Window(0, -2, 28)) == [
        "  byte      -2      6       14      22",
        "  block       |0          |1",
        "  segment   ::Aaaa..Bbb...Aaaa..Bbb...::",
    ]


def test_draw_puts_overlaid_pages_on_tracks_of_their_own() -> None:
    layout = Layout(1, (Allocation(12),), (Run(8, 12), Run(4, 12, 2), Run(4, 12, 8)))
    assert draw(layout, Window(0, 0, 12))[2:] == [
        "  segment   AaaaaaaaCccc",
        "  over it     Bbbb",
    ]


def test_draw_says_where_a_column_holds_several_pages() -> None:
    layout = Layout(4, (Allocation(16),), (Run(2, 4), Run(2, 4, 2)))
    assert draw(layout, Window(0, 0, 4, 4))[2] == "  segment   ####"


def test_segment_letters_go_by_page_and_stride_where_there_are_many() -> None:
    runs = (Run(8, 16, axes=(Axis(30, 32),)), Run(4, 16, 8, axes=(Axis(30, 32),)))
    letters = segment_letters(Layout(1, (Allocation(1024),), runs).table)
    assert letters == "a" * 30 + "b" * 30
