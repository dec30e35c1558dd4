"""Every launch is inside every row of `kvzero.limits`, whatever machine recorded it."""

from collections.abc import Iterator

from kvzero.case import Case
from kvzero.limits import LIMITS, LaunchLimit, broken_limits
from kvzero.observation import Launch, Observation
from kvzero.properties.verdict import Kind, Result, Violation, settle
from kvzero.properties.wording import call_text, counted, launch_text

NAME = "launches_fit_the_platform"

_MEETS = {
    "skipped": "the launcher skips it without an error",
    "rejected": "it is rejected",
    "cost": "it has been seen to run all the same",
}


def launches_fit_the_platform(case: Case, observation: Observation) -> Result:
    """Return whether no launch is beyond a limit: one violation a row and kernel."""
    launches = observation.launches
    beyond = tuple(launch for launch in launches if broken_limits(launch.shape))
    violations = [*_beyond_rows(case, beyond), *_failed_otherwise(case, launches)]
    return settle(NAME, violations, None if launches else "no launch was recorded")


def _beyond_rows(case: Case, launches: tuple[Launch, ...]) -> Iterator[Violation]:
    for limit in LIMITS:
        worst: dict[tuple[str, str], Launch] = {}
        for launch in launches:
            key = launch.kernel, launch.place
            if not limit.breaks(launch.shape):
                continue
            if key not in worst or _larger(launch, worst[key]):
                worst[key] = launch
        for launch in worst.values():
            yield _beyond(case, launch, limit)


def _larger(launch: Launch, other: Launch) -> bool:
    return launch.shape.programs > other.shape.programs


def _beyond(case: Case, launch: Launch, limit: LaunchLimit) -> Violation:
    grid = ", ".join(f"{n:,}" for n in launch.shape.grid)
    headline = (
        f"grid ({grid}) of {launch.kernel}, but must fit {limit.name} "
        f"({limit.rule}): {_MEETS[limit.effect]}"
    )
    kind: Kind = "cost" if limit.effect == "cost" else "fault"
    return _violation(case, launch, kind, limit.name, headline, limit.source)


def _failed_otherwise(case: Case, launches: tuple[Launch, ...]) -> Iterator[Violation]:
    """Yield launches that did not run although no row of the table says why."""
    for launch in launches:
        if launch.fate != "runs" and not broken_limits(launch.shape):
            headline = f"{launch.kernel} was {launch.fate}, but must run"
            what = f"launch-{launch.fate}"
            yield _violation(case, launch, "fault", what, headline, "seen in this run")


def _violation(
    case: Case, launch: Launch, kind: Kind, what: str, headline: str, source: str
) -> Violation:
    call = None if launch.is_of_warmup else launch.call
    made = "[warm-up]" if call is None else call_text(case, call)
    shape = launch.shape
    details = (
        (
            "launch",
            f"{launch_text(launch)}: {shape.programs:,} programs, "
            f"{counted(shape.num_warps, 'warp')}, {counted(shape.num_ctas, 'CTA')}",
        ),
        ("known by", source),
    )
    return Violation(
        NAME,
        kind,
        what,
        f"{headline} {made}",
        launch.place,
        details,
        call,
    )
