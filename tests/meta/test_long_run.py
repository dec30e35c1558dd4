"""Batches of cases: what is held against a subject, and what adds up."""

from collections import Counter

from kvzero.case import Call, Case, IdRun
from kvzero.executors import executor_named
from kvzero.layout import Allocation, Axis, Layout, Run
from kvzero.subjects.registry import find_subject
from tests.meta.long_run import InsideLimits, Totals

TALL = Case(
    Layout(1, (Allocation(2**20),), (Run(4, 4, axes=(Axis(65_536, 8),)),)),
    (Call((IdRun(0),)),),
)
SMALL = Case(Layout(4, (Allocation(256),), (Run(20, 64),)), (Call((IdRun(1),)),))


def test_a_launch_beyond_a_limit_is_excused_where_asked() -> None:
    # sanity check
    subject, footprint = find_subject("masked-3d"), executor_named("footprint")
    strict = InsideLimits(subject, footprint)
    lenient = InsideLimits(subject, footprint, inside_limits=True)
    assert strict.failures(strict(TALL))
    assert (strict.outside, len(strict.failed) > 0) == (0, True)
    assert lenient.failures(lenient(TALL)) == ()
    assert lenient.failures(lenient(SMALL)) == ()
    assert (lenient.outside, lenient.failed) == (1, set())


def test_batches_add_up() -> None:
    # sanity check
    whole = Totals()
    for _ in range(2):
        whole.add(Totals(10, 1, 30, 20, Counter(holds=9), ["text"]))
    assert list(whole.lines()) == [
        "  judged holds: 18",
        "20 cases (2 beyond a limit), 60 launches (40 to the byte), 2 violations",
    ]
