"""What a report says, as plain data: the runs of one command and what they found.

Every form of a report (HTML, JUnit, JSON, GitHub) is made of these facts alone, so none
of them knows how cases were drawn, by how many workers, or on how many machines.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kvzero.case import Case
from kvzero.observation import Observation
from kvzero.properties.verdict import Violation
from kvzero.report.text import failure_text


@dataclass(frozen=True)
class ReportedFinding:
    """One distinct violation, and the smallest case that shows it.

    Attributes:
        violation: The violation.
        case: The case.
        observation: What was seen of it.
        count: Cases that broke the property so.
        is_failure: It makes the run fail; else it is a cost that is only told.
        flaky: It did not show again.
        file: Where the case is saved, if it is.
        replay: The command that runs it again, if there is one.
    """

    violation: Violation
    case: Case
    observation: Observation
    count: int = 1
    is_failure: bool = True
    flaky: bool = False
    file: str | None = None
    replay: str | None = None

    @property
    def kind_word(self) -> str:
        """Return kind and short word, such as ``"fault: cuda-y"``."""
        return f"{self.violation.kind}: {self.violation.what}"

    @property
    def text(self) -> str:
        """Return the located explanation."""
        return failure_text(self.violation, self.observation, self.replay)


class KnownLine(NamedTuple):
    """A known finding in words.

    Attributes:
        property: The property that it breaks.
        text: What is known, how often it showed, and why it is tolerated.
        is_stale: It no longer fails, which is an error.
    """

    property: str
    text: str
    is_stale: bool = False


class Unjudged(NamedTuple):
    """A property that was not judged in some cases, and why."""

    property: str
    reason: str
    cases: int


class JudgedBy(NamedTuple):
    """What judged some cases."""

    executor: str
    semantics: str
    versions: str
    cases: int


class Sample(NamedTuple):
    """What had been done at a moment of a run."""

    seconds: float
    cases: int
    launches: int


@dataclass(frozen=True)
class Speed:
    """How fast launches were checked, and who spent the time.

    Attributes:
        per_second: Launches checked a second, end to end.
        per_second_of_checking: The same with drawing excluded.
        checking_seconds: Time of running and judging.
        drawing_seconds: Time of drawing cases.
    """

    per_second: float
    per_second_of_checking: float
    checking_seconds: float
    drawing_seconds: float


class Nearness(NamedTuple):
    """How near launches came to a limit without crossing it, in powers of two.

    Attributes:
        limit: What is limited.
        bits: Bits of the largest value that a launch had.
        most_bits: Bits of the largest value that is allowed.
    """

    limit: str
    bits: int
    most_bits: int


@dataclass(frozen=True)
class FeatureCoverage:
    """Which features the cases of a run had, alone and in pairs.

    Attributes:
        groups: Names of all features by their group, each feature in one group.
        together: Of each feature that was met, those that some case had with it, itself
            included.
        nearest: How near launches came to the limits.
    """

    groups: Mapping[str, tuple[str, ...]]
    together: Mapping[str, frozenset[str]]
    nearest: tuple[Nearness, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return all features, group after group."""
        return tuple(name for group in self.groups.values() for name in group)

    @property
    def pairs(self) -> int:
        """Return how many pairs of two features were met."""
        return sum(len(others) - 1 for others in self.together.values()) // 2


@dataclass(frozen=True)
class SubjectRun:
    """One subject's run.

    Attributes:
        subject: Its name.
        executor: The executor that was asked for.
        verdict: The verdict in words.
        exit_code: The exit code of this run alone.
        seconds: Wall-clock time.
        cases: Cases that were judged.
        launches: Launches that they made.
        programs: Programs of those launches.
        judged: How often each property was judged.
        not_judged: What was not judged, and why.
        findings: What is broken, faults first.
        known: Known findings.
        judged_by: What judged the cases.
        seed: Seed of a fuzzing run.
        workers: Processes that shared it.
        largest: The largest launch, in words.
        coverage: What its cases had in them, where that was counted.
        samples: How it went on, in order of time.
        speed: How fast it was.
        notes: What a reader of the verdict must know besides.
    """

    subject: str
    executor: str
    verdict: str
    exit_code: int
    seconds: float = 0.0
    cases: int = 0
    launches: int = 0
    programs: int = 0
    judged: Mapping[str, int] = field(default_factory=dict)
    not_judged: tuple[Unjudged, ...] = ()
    findings: tuple[ReportedFinding, ...] = ()
    known: tuple[KnownLine, ...] = ()
    judged_by: tuple[JudgedBy, ...] = ()
    seed: int | None = None
    workers: int = 1
    largest: str = ""
    coverage: FeatureCoverage | None = None
    samples: tuple[Sample, ...] = ()
    speed: Speed | None = None
    notes: tuple[str, ...] = ()


class KillRow(NamedTuple):
    """One fault of the kill matrix.

    Attributes:
        fault: Its name.
        area: What it is a fault of.
        kind: What kind of it.
        breaks: The property that must catch it, and in which way.
        verdict: ``"killed"``, ``"SURVIVED"`` or why it was not judged.
        is_killed: Every seed caught it; None: not judged here.
        cases: Cases that were drawn.
        seconds: Time for finding and shrinking.
        runs: Runs of the shrunk case.
        blocks: Blocks of the shrunk case.
    """

    fault: str
    area: str
    kind: str
    breaks: str
    verdict: str
    is_killed: bool | None
    cases: int
    seconds: float
    runs: int | None
    blocks: int | None


@dataclass(frozen=True)
class KillMatrix:
    """The kill matrix: whether the harness catches what it must."""

    rows: tuple[KillRow, ...]
    seeds: tuple[int, ...]
    seconds: float


@dataclass(frozen=True)
class Report:
    """All that one command has to tell.

    Attributes:
        verb: The verb that ran, such as ``"fuzz"``.
        command: The whole command, to paste.
        exit_code: The command's exit code.
        finished: When it ended, ISO 8601 with the time zone.
        machine: Versions and hardware, by name.
        runs: One entry a subject.
        matrix: The kill matrix, if it was run.
        documents: What ``--json`` says of the runs, or of the matrix.
    """

    verb: str
    command: str
    exit_code: int
    finished: str
    machine: Mapping[str, str] = field(default_factory=dict)
    runs: tuple[SubjectRun, ...] = ()
    matrix: KillMatrix | None = None
    documents: tuple[Mapping[str, Any], ...] = ()  # Any: JSON documents
