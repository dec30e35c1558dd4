"""Reports to draw: of everything that can be told, with texts that mean harm."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kvzero.case import Call, Case, IdRun
from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.limits import LaunchShape
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Launch,
    Observation,
    Writer,
    WrongBytes,
)
from kvzero.properties.registry import PROPERTIES
from kvzero.properties.verdict import Kind, Violation
from kvzero.report.facts import (
    FeatureCoverage,
    JudgedBy,
    KillMatrix,
    KillRow,
    KnownLine,
    Nearness,
    Report,
    ReportedFinding,
    Sample,
    Speed,
    SubjectRun,
    Unjudged,
)

HOSTILE = (
    "<script>alert(1)</script>",
    "</style><script>alert(1)</script>",
    "</pre></details><h1>",
    "<!-- ",
    "]]>",
    "\"><img src=x onerror='alert(1)'>",
    "' onload=alert(1) x='",
    "&lt;b&gt; &amp; &#60;",
    "\u202egnp.exe\u2066",
    "\x00\x07\x1b[31m\x7f",
    "\ud800 lone",
    "::error file=x::y",
    "%0A::set-output name=a::b",
    "a|b `c` ```` <b>\n| x |",
    "\r\n\u2028\u2029",
    "\ufffe\uffff",
    "é 中 😀",
)
SMALL = Layout(2, (Allocation(32),), (Run(8, 16), Run(8, 16, 8)))
PADDED = Layout(3, (Allocation(72, 2),), (Run(16, 24),), (Tile(24, 3),))
OVERLAID = Layout(2, (Allocation(64),), (Run(24, 32), Run(16, 32, 8)))
LARGE = Layout(
    4096, (Allocation(2**34),), (Run(2**20, 2**22, 0, 0, (Axis(4, 2**20),)),)
)
EMPTY = Layout(0, (), ())
LAYOUTS = (SMALL, PADDED, OVERLAID, LARGE, EMPTY)


def hostile_texts() -> SearchStrategy[str]:
    """Return texts that try to be something else; they shrink to plain ones."""
    parts = st.sampled_from(("plain", *HOSTILE)) | st.text(max_size=6)
    return st.lists(parts, min_size=1, max_size=3).map(" ".join)


def case_of(layout: Layout) -> Case:
    """Return a case with one good call, if the layout has a block, and an empty one."""
    ids = (IdRun(layout.num_blocks - 1),) if layout.num_blocks else ()
    return Case(layout, (Call(ids), Call(())))


def observation_of(
    layout: Layout, subject: str = "fake", place: str = "kernel.py:7"
) -> Observation:
    """Return an observation with bytes missed, touched, in guards and elsewhere."""
    writer = Writer((1, 0, 2), place)
    inside = layout.num_allocations > 0
    missed = (ByteSpan(0, 8, 8, b"\xd0\x75"),) if inside else ()
    touched: tuple[ByteSpan, ...] = (ByteSpan(None, 2**40, 3),)
    if inside:
        touched = (ByteSpan(0, -4, 6, b"\0\0\0", writer), *touched)
    call = CallObservation(
        missed=WrongBytes(8 + 100 * inside, missed), touched=WrongBytes(9, touched)
    )
    launch = Launch(0, "zero", place, LaunchShape((2, 1, 3)), "rejected", "cuda-y")
    warmup = Launch(-1, "zero", place, LaunchShape((1, 1, 1)))
    return Observation(
        subject,
        "footprint",
        "TTIR",
        "cuda:90, triton 3.7.1",
        (call, CallObservation()),
        (warmup, *[launch] * 12),
    )


def finding_of(
    layout: Layout, text: str = "plain", kind: Kind = "fault"
) -> ReportedFinding:
    """Return a finding with a text wherever one can stand."""
    violation = Violation(
        "listed_pages_are_zero", kind, text, text, text, (("where", text),), 0
    )
    return ReportedFinding(
        violation,
        case_of(layout),
        observation_of(layout, text, text),
        count=3,
        is_failure=kind != "cost",
        file=text,
        replay=f"kvzero replay {text}",
    )


def run_of(subject: str = "fake", **changes: object) -> SubjectRun:
    """Return a run in which all was well, but for some changes."""
    fields: dict[str, object] = {
        "executor": "footprint",
        "verdict": "no fault found",
        "exit_code": 0,
        "seconds": 2.5,
        "cases": 10,
        "launches": 20,
        "programs": 400,
        "judged": {"listed_pages_are_zero": 10, "promises_hold": 4},
        "not_judged": (Unjudged("promises_hold", "no launch", 6),),
    }
    return SubjectRun(subject, **(fields | changes))  # type: ignore[arg-type]  # fields by name


def report_of(*runs: SubjectRun, **changes: object) -> Report:
    """Return a report of some runs."""
    fields: dict[str, object] = {
        "verb": "fuzz",
        "command": "kvzero fuzz",
        "exit_code": max((run.exit_code for run in runs), default=0),
        "finished": "2026-11-30T12:34:56+00:00",
        "machine": {"kvzero": "0.1.0", "GPU": "none"},
        "runs": runs,
    }
    return Report(**(fields | changes))  # type: ignore[arg-type]  # fields by name


def coverage_example(text: str = "odd page") -> FeatureCoverage:
    """Return coverage of three features, two of them met."""
    met = frozenset({text, "two ids"})
    return FeatureCoverage(
        {"layout": (text, "views"), "calls": ("two ids",)},
        {text: met, "two ids": met},
        (Nearness("y", 16, 16), Nearness("product", 0, 31)),
    )


@st.composite
def reports(draw: st.DrawFn) -> Report:
    """Return reports of anything; they shrink to no run and plain texts."""
    text = draw(hostile_texts())
    layouts = draw(st.lists(st.sampled_from(LAYOUTS), max_size=2))
    kinds: SearchStrategy[Kind] = st.sampled_from(("fault", "refusal", "cost"))
    findings = tuple(finding_of(layout, text, draw(kinds)) for layout in layouts)
    samples = (Sample(0, 0, 0), Sample(1, 2, 30), Sample(2.5, 9, 70))
    run = run_of(
        text,
        verdict=text,
        exit_code=draw(st.sampled_from((0, 1, 5, 130))),
        executor=text,
        findings=findings,
        not_judged=(Unjudged(text, text, 1), Unjudged("promises_hold", text, 2)),
        judged=draw(st.sampled_from(({}, {text: 3}, dict.fromkeys(PROPERTIES, 2)))),
        known=(KnownLine(text, text, draw(st.booleans())),),
        judged_by=(JudgedBy(text, "TTIR", text, 4),),
        seed=draw(st.none() | st.just(7)),
        workers=draw(st.integers(1, 3)),
        largest=text,
        coverage=draw(st.none() | st.builds(coverage_example, st.just(text))),
        samples=samples[: draw(st.integers(0, 3))],
        speed=draw(st.none() | st.just(Speed(10.0, 12.0, 2.0, 0.5))),
        notes=(text,),
    )
    verdicts = ((True, "killed"), (False, "SURVIVED"), (None, "needs a GPU"))
    rows = tuple(
        KillRow(text, text, text, text, word, killed, 5, 0.5, 1, None)
        for killed, word in verdicts[: draw(st.integers(0, 3))]
    )
    matrix = draw(st.none() | st.just(KillMatrix(rows, (0, 1), 3.0)))
    return report_of(
        *[run] * draw(st.integers(0, 2)),
        verb=text,
        command=text,
        machine={text: text},
        matrix=matrix,
    )
