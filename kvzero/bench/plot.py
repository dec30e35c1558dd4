"""A picture of a report: how near to memset each subject comes, by bytes cleared."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from kvzero.bench.records import MEMSET, YARDSTICKS, Report
from kvzero.errors import CaseError, EnvironmentMissingError

FORMATS = (".svg", ".png")
MARKERS = "osv^DPX*"


def checked_path(path: Path) -> Path:
    """Return where a plot may be written.

    Raises:
        CaseError: The name does not tell a format that is known.
        EnvironmentMissingError: matplotlib is missing.
    """
    if path.suffix not in FORMATS:
        raise CaseError(f"--plot {path}, but must end in {' or '.join(FORMATS)}")
    if find_spec("matplotlib") is None:
        raise EnvironmentMissingError(
            f"--plot {path} needs matplotlib, but it is missing: pip install "
            f"'kvzero[plot]'"
        )
    return path


def write_plot(report: Report, path: Path) -> None:
    """Draw each row's bandwidth and ratio to memset over the bytes that it clears.

    Raises:
        CaseError: The report holds no times.
    """
    if not any(record.time_us for record in report.records):
        raise CaseError(f"{path}: the report holds no times, but a plot must show some")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 9), layout="constrained")
    speed, ratio = figure.subplots(2, 1, sharex=True)
    named = dict.fromkeys(record.subject for record in report.records)
    yardstick = sorted(_points(report, MEMSET, "tb_per_s"))
    speed.plot(*zip(*yardstick), color="0.4", linewidth=1.2, label=MEMSET)
    ratio.axhline(1.0, color="0.4", linewidth=1.2)
    # The first subject is drawn last, over the others.
    for index, subject in reversed([*enumerate(_subjects(named))]):
        style = {"marker": MARKERS[index % len(MARKERS)], "color": f"C{index}"}
        for axes, value in ((speed, "tb_per_s"), (ratio, "ratio_to_memset")):
            points = _points(report, subject, value)
            if points:
                axes.scatter(*zip(*points), s=22, alpha=0.6, label=subject, **style)
    speed.set(xscale="log", yscale="log", ylabel="TB/s")
    ratio.set(xscale="log", ylabel="time of memset / time", xlabel="bytes cleared")
    speed.set_title(f"{report.origin.gpu}: {report.origin.command}", fontsize="medium")
    speed.legend(fontsize="small", loc="lower right")
    figure.savefig(path)


def _subjects(names: Iterable[str]) -> list[str]:
    """Return the names of subjects, without those of yardsticks."""
    return [name for name in names if name not in YARDSTICKS]


def _points(report: Report, subject: str, value: str) -> list[tuple[int, float]]:
    """Return one subject's bytes with a number that was measured."""
    return [
        (record.bytes, getattr(record, value))
        for record in report.records
        if record.subject == subject and getattr(record, value) is not None
    ]
