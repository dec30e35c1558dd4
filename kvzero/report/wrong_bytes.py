"""The wrong bytes of a case in words: where, whose, what they hold, who stored them.

The same words stand in the terminal's memory map and in a report's table.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kvzero.case import Case
from kvzero.observation import ByteSpan, Observation, WrongBytes
from kvzero.properties.location import locate


class Stretch(NamedTuple):
    """A stretch of wrong bytes in words.

    Attributes:
        where: Its first and last byte, or addresses.
        whose: What they belong to.
        now: What the first of them hold, in hex; empty where that is not seen.
        writer: The program that stored the first and its line; empty if unknown.
    """

    where: str
    whose: str
    now: str
    writer: str


class Stage(NamedTuple):
    """A moment at which all bytes were compared.

    Attributes:
        number: The number of a call, from 1; empty: it was after all of them.
        when: The same in words.
        missed: Bytes that had to be zero and were not.
        touched: Bytes that had to be left alone and were not.
        ids: Ids that were zeroed then, where they are no call's.
    """

    number: str
    when: str
    missed: WrongBytes
    touched: WrongBytes
    ids: tuple[int, ...] | None = None


def stages(observation: Observation | None) -> Iterator[Stage]:
    """Yield the moments at which an executor compared bytes, in order."""
    if observation is None:
        return
    for index, seen in enumerate(observation.calls):
        number = f"{index + 1}"
        yield Stage(number, f"call {number}", seen.missed, seen.touched)
    queued, replayed = observation.queued, observation.replayed
    if queued is not None:
        yield Stage("", "calls queued", queued.missed, queued.touched)
    if replayed is not None:
        missed, touched = replayed.missed, replayed.touched
        yield Stage("", "graph replayed", missed, touched, replayed.ids)


class Wrong(NamedTuple):
    """All wrong bytes of one moment and class.

    Attributes:
        when: The moment.
        label: ``"missed"`` or ``"touched"``.
        total: How many.
        stretches: The first of them.
        untold: Bytes that no stretch tells.
    """

    when: str
    label: str
    total: int
    stretches: tuple[Stretch, ...]
    untold: int


def wrong_bytes(case: Case, observation: Observation | None) -> Iterator[Wrong]:
    """Yield the wrong bytes of each moment."""
    for stage in stages(observation):
        for label, wrong in (("missed", stage.missed), ("touched", stage.touched)):
            if wrong.count:
                yield _wrong(case, stage.when, label, wrong)


def _wrong(case: Case, when: str, label: str, wrong: WrongBytes) -> Wrong:
    told = sum(span.length_bytes for span in wrong.spans)
    stretches = tuple(_stretch(case, span) for span in wrong.spans)
    return Wrong(when, label, wrong.count, stretches, wrong.count - told)


def _stretch(case: Case, span: ByteSpan) -> Stretch:
    last = span.offset_bytes + span.length_bytes - 1
    now = span.seen.hex(" ")
    writer = ""
    if span.writer is not None:
        program = ", ".join(map(str, span.writer.program))
        writer = f"program ({program}) at {span.writer.place}"
    if span.allocation is None:
        where = f"addresses {span.offset_bytes:#x} to {last:#x}"
        return Stretch(where, "outside the case", now, writer)
    where = f"bytes {span.offset_bytes:,} to {last:,} of allocation {span.allocation}"
    return Stretch(where, _whose(case, span, last), now, writer)


def _whose(case: Case, span: ByteSpan, last: int) -> str:
    """Return whose bytes a stretch is."""
    first = locate(case.layout, span.allocation, span.offset_bytes)
    end = locate(case.layout, span.allocation, last)
    page = "" if first.segment is None else f" in segment {first.segment}"
    if (first.owner, first.segment) == (end.owner, end.segment):
        return f"{first.owner}{page}, bytes {first.byte:,} to {end.byte:,}"
    end_page = "" if end.segment is None else f" in segment {end.segment}"
    return f"from {first}{page}, to {end}{end_page}"
