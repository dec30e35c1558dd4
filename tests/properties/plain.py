"""What the calls of a drawn case are to do, read plainly: byte by byte, id by id."""

from kvzero.case import REFUSED_DTYPES, Call, Case
from tests.properties.drawn import BLOCKS


def is_bad(call: Call) -> bool:
    """Return whether a subject that checks its ids must refuse a call."""
    if call.dtype in REFUSED_DTYPES:
        return bool(call.expand())
    return any(i not in range(BLOCKS) for i in call.expand())


def is_bad_for_its_host(call: Call) -> bool:
    unseen = call.arrival == "device" and call.dtype not in REFUSED_DTYPES
    return is_bad(call) and not unseen


def bytes_to_zero(case: Case, call: Call) -> set[int]:
    """Return the positions in the only allocation that a call must zero."""
    if is_bad_for_its_host(call) or call.dtype in REFUSED_DTYPES:
        return set()
    blocks = [i for i in call.expand() if i in range(BLOCKS)]
    return {
        block * run.stride_bytes + run.offset_bytes + byte
        for run in case.layout.runs
        for block in blocks
        for byte in range(run.page_bytes)
    }


def again_allowed(case: Case, call: Call) -> int:
    """Return the bytes that a call's list names again."""
    pages = sum(run.page_bytes for run in case.layout.runs)
    return len(call.expand()) * pages - len(bytes_to_zero(case, call))
