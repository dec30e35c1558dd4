"""Every other byte is as it was: other blocks, padding, guards, foreign memory."""

from collections.abc import Iterator

from kvzero.case import Call, Case
from kvzero.observation import Observation
from kvzero.properties.bad_ids_are_refused import must_raise
from kvzero.properties.bytes_seen import byte_violations
from kvzero.properties.verdict import Result, Violation, settle

NAME = "unlisted_bytes_are_untouched"
WHAT = "unlisted-byte-stored"


def unlisted_bytes_are_untouched(case: Case, observation: Observation) -> Result:
    """Return whether no call stored a byte that it had no right to."""
    return settle(NAME, _violations(case, observation), _not_judged(case, observation))


def _violations(case: Case, observation: Observation) -> Iterator[Violation]:
    for index, call in enumerate(observation.calls):
        if call.touched.count:
            yield from byte_violations(NAME, WHAT, case, index, call.touched)


def _not_judged(case: Case, observation: Observation) -> str | None:
    if not observation.calls:
        return "no call finished"
    if not all(call.bytes_judged for call in observation.calls):
        return "a call's bytes were not all seen"
    if observation.semantics == "machine":
        return None
    num_blocks = case.layout.num_blocks
    for index, seen in enumerate(observation.calls):
        if seen.raised is not None and is_unseen(case.calls[index], num_blocks):
            return (
                f"calls[{index}] was refused for an id on the device, which lies in "
                f"host memory here: only a GPU shows what the kernel makes of it"
            )
    return None


def is_unseen(call: Call, num_blocks: int) -> bool:
    """Return whether a call has a bad id that on a GPU its host does not see.

    Without a GPU the host does see it, and may refuse a call that a GPU would run.
    """
    return call.must_be_refused(num_blocks) and not must_raise(call, num_blocks)
