"""Wrong bytes as violations: shared by the two properties of bytes."""

from collections.abc import Iterator

import numpy as np

from kvzero.case import Case
from kvzero.observation import ByteSpan, WrongBytes
from kvzero.oracle import zeroed_blocks
from kvzero.poison import poison_at
from kvzero.properties.location import Location, locate
from kvzero.properties.verdict import Violation
from kvzero.properties.wording import arrival_text, call_text, written_by

SHOWN_BYTES = 3


def byte_violations(
    name: str, what: str, case: Case, index: int, wrong: WrongBytes, unstored: str = ""
) -> Iterator[Violation]:
    """Yield one violation for each place that stored wrong bytes in one call.

    Args:
        name: Name of the property.
        what: Kind of the violation.
        case: The case.
        index: Index of the call.
        wrong: The wrong bytes of one class.
        unstored: Place of those that nobody stored.
    """
    by_place: dict[str, list[ByteSpan]] = {}
    for span in wrong.spans:
        place = span.writer.place if span.writer else unstored
        by_place.setdefault(place, []).append(span)
    if wrong.count and not by_place:
        by_place[unstored] = []
    for place, spans in by_place.items():
        state = _state(case, index, spans[0], what) if spans else "bytes are wrong"
        yield Violation(
            name,
            "fault",
            what,
            f"{state} {call_text(case, index)}",
            place,
            _details(case, index, spans, wrong.count),
            index,
        )


def _state(case: Case, index: int, span: ByteSpan, what: str) -> str:
    """Return what one byte is and should be."""
    where = locate(case.layout, span.allocation, span.offset_bytes)
    missed = what == "listed-byte-not-zero"
    expected = 0 if missed else _value_before(case, index, span)
    if span.seen and expected is not None and span.seen[0] != expected:
        return f"{where} = 0x{span.seen[0]:02x}, but should be 0x{expected:02x}"
    if missed:
        return f"{where} was not stored, but should be 0x00"
    return f"{where} was stored, but must stay untouched"


def _value_before(case: Case, index: int, span: ByteSpan) -> int | None:
    """Return the value that a byte should have kept, None outside the case's memory."""
    if span.allocation is None:
        return None
    where = locate(case.layout, span.allocation, span.offset_bytes)
    if where.segment is not None:
        block = int(where.owner.removeprefix("block "))
        for call in case.calls[:index]:
            if block in zeroed_blocks(call, case.layout.num_blocks):
                return 0
    offsets = np.array([span.offset_bytes])
    return int(poison_at(case.seed, span.allocation, offsets)[0])


def _details(
    case: Case, index: int, spans: list[ByteSpan], count: int
) -> tuple[tuple[str, str], ...]:
    details = []
    if spans:
        details.append(("where", _where(case, spans, count)))
        writer = spans[0].writer
        if writer is not None:
            details.append(("written", written_by(writer)))
    if case.calls[index].arrival != "list":
        details.append(("ids", arrival_text(case.calls[index])))
    return tuple(details)


def _where(case: Case, spans: list[ByteSpan], count: int) -> str:
    """Return the segment and the first wrong bytes."""
    offsets = [
        (span.allocation, span.offset_bytes + i)
        for span in spans
        for i in range(min(span.length_bytes, SHOWN_BYTES))
    ][:SHOWN_BYTES]
    places = [locate(case.layout, *offset) for offset in offsets]
    shown = ", ".join(_short(place, places[0]) for place in places)
    first = f"first {len(places)} of {count:,} wrong bytes: {shown}"
    return f"{_segment_text(case, places[0])}{first}"


def _short(place: Location, first: Location) -> str:
    same = (place.owner, place.segment) == (first.owner, first.segment)
    return str(place.byte) if same else f"{place.byte} of {place.owner}"


def _segment_text(case: Case, place: Location) -> str:
    if place.segment is None:
        return f"{place.owner}, "
    table = case.layout.table
    segment = table.segment(place.segment)
    return (
        f"segment {place.segment} of {len(table)} (page {segment.page_bytes} B, "
        f"stride {segment.stride_bytes} B), "
    )
