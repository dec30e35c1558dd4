"""After the warm-up no call launches a variant that would have to be compiled first.

Without a warm-up, the first call that launches takes its place: a server that serves
has paid for that one.
"""

from collections.abc import Iterator

from kvzero.case import Case
from kvzero.observation import WARMUP_CALL, Launch, Observation
from kvzero.properties.verdict import Result, Violation, settle
from kvzero.properties.wording import call_text, counted, launch_text

NAME = "warm_calls_compile_nothing"
WHAT = "compiled-in-a-call"


def warm_calls_compile_nothing(case: Case, observation: Observation) -> Result:
    """Return whether every launch of a warm call uses a variant launched before."""
    warm = _last_warm_call(observation)
    variants = {run.variant for run in observation.launches if run.call <= warm}
    served = [run for run in observation.launches if run.call > warm]
    violations = list(_violations(case, observation, variants, served))
    return settle(
        NAME, violations, None if served else "no warm call launched anything"
    )


def _last_warm_call(observation: Observation) -> int:
    """Return the index of the call that ends the warm-up."""
    if observation.has_warmup:
        return WARMUP_CALL
    return min(
        (run.call for run in observation.launches if not run.is_of_warmup),
        default=WARMUP_CALL,
    )


def _violations(
    case: Case, observation: Observation, variants: set[str], served: list[Launch]
) -> Iterator[Violation]:
    known = set(variants)
    for launch in served:
        if launch.variant in known:
            continue
        known.add(launch.variant)
        before = "its warm-up" if observation.has_warmup else "its first call"
        yield Violation(
            NAME,
            "fault",
            WHAT,
            f"{launch.kernel} was compiled in a call, but must be compiled in {before} "
            f"{call_text(case, launch.call)}",
            launch.place,
            (
                ("launch", launch_text(launch)),
                ("variant", launch.variant),
                ("before", f"{counted(len(variants), 'variant')} in {before}"),
            ),
            launch.call,
        )
