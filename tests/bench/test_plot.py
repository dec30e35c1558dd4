"""The picture, where matplotlib is installed, and one line where it is not."""

from pathlib import Path

import pytest

from kvzero.bench.plot import checked_path, write_plot
from kvzero.bench.records import EMPTY, MEMSET, Record, Report
from kvzero.errors import CaseError, EnvironmentMissingError
from tests.bench.made import ORIGIN

ROWS = [
    Record(name, "p", n, n * 10**6, 16, n * us, 1 / us)
    for n in (1, 16, 512)
    for name, us in ((MEMSET, 1.0), (EMPTY, 0.5), ("kvzero", 1.1), ("flat-1d", 9.0))
]


def test_a_plot_of_an_unknown_format_is_refused() -> None:
    with pytest.raises(CaseError, match=r"x\.gif, but must end in \.svg or \.png"):
        checked_path(Path("x.gif"))


def test_a_plot_without_matplotlib_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kvzero.bench.plot.find_spec", lambda _name: None)
    with pytest.raises(EnvironmentMissingError, match=r"pip install 'kvzero\[plot\]'"):
        checked_path(Path("x.svg"))


def test_a_plot_without_times_is_refused() -> None:
    with pytest.raises(CaseError, match="holds no times"):
        write_plot(Report(ORIGIN, [Record("kvzero", "p", 1, 1, 1)]), Path("x.svg"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plot.svg", "plot.png"])
def test_a_plot_is_drawn(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    write_plot(Report(ORIGIN, ROWS), path)
    assert path.stat().st_size > 1000
