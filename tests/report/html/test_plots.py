from hypothesis import given
from hypothesis import strategies as st

from kvzero.report.facts import Sample
from kvzero.report.html.plots import bar, launches_over_time, rates, round_up


@given(st.floats(0.001, 1e12))
def test_round_up_gives_a_round_number_that_is_large_enough(value: float) -> None:
    found = round_up(value)
    assert found >= value
    assert str(int(found)).rstrip("0") in ("1", "2", "5")
    assert found <= max(10 * value, 1)


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_bar_fills_at_most_its_cell(value: float, most: float) -> None:
    svg = bar(min(value, most), most)[0]
    assert 0 <= float(svg[1].get("width", "")) <= float(svg[0].get("width", ""))


def test_rates_are_launches_a_second_between_samples() -> None:
    samples = [Sample(0, 0, 0), Sample(2, 3, 10), Sample(2, 3, 10), Sample(4, 5, 110)]
    assert rates(samples) == [(2, 5.0), (4, 50.0)]


def test_launches_over_time_is_drawn_for_a_desktop_and_for_a_phone() -> None:
    plots = launches_over_time([Sample(0, 0, 0), Sample(2, 3, 10)], "key")
    assert [plot.get("class") for plot in plots] == ["wide", "narrow"]
    assert plots[0].findtext("desc") == "10 launches in 2 s; between 5 and 5 a second."
