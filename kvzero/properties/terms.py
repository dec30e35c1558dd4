"""Whether a case lies inside a subject's contract: outside it, nothing is a fault."""

import numpy as np

from kvzero.case import ID_DTYPES, Call, Case
from kvzero.layout import Layout
from kvzero.memory import place
from kvzero.properties.covering import (
    TooManyError,
    bytes_of,
    joined,
    pages_of,
    without,
)
from kvzero.subjects.protocol import Contract


def outside_contract(case: Case, contract: Contract) -> str | None:
    """Return the term of a contract that a case is outside of, or None.

    Args:
        case: The case.
        contract: What the subject promises to handle.
    """
    for index, call in enumerate(case.calls):
        reason = _outside_call(call, case.layout.num_blocks, contract)
        if reason is not None:
            return f"outside the contract: calls[{index}]: {reason}"
    reason = _outside_layout(case, contract)
    return None if reason is None else f"outside the contract: {reason}"


def _outside_call(call: Call, num_blocks: int, contract: Contract) -> str | None:
    if call.arrival not in contract.arrivals:
        return f"ids arrive as {call.arrival}"
    if call.must_be_refused(num_blocks):
        return None if contract.checks_ids else "the subject trusts its caller's ids"
    has_dtype = call.arrival != "list" and call.dtype in ID_DTYPES
    if has_dtype and call.dtype not in contract.id_dtypes:
        return f"ids have dtype {call.dtype}"
    return None


def _outside_layout(case: Case, contract: Contract) -> str | None:
    table = case.layout.table
    if case.layout.num_blocks < contract.min_blocks:
        return f"the cache has fewer than {contract.min_blocks} blocks"
    if contract.one_page_size and len(np.unique(table.page_bytes)) > 1:
        return "segments have different page sizes"
    if not contract.writes_page_gaps and _has_page_gaps(case.layout):
        return "a page has holes that are in no view"
    unit = contract.alignment_bytes
    if unit == 1:
        return None
    addresses = place(case).base_bytes[table.allocation] + table.offset_bytes
    for what, values in (
        ("an address", addresses),
        ("a block stride", table.stride_bytes),
        ("a page size", table.page_bytes),
    ):
        if (values % unit).any():
            return f"{what} is no multiple of {unit} B"
    return None


def _has_page_gaps(layout: Layout) -> bool:
    """Return whether a page holds bytes of no view, or might: some have too many."""
    if not layout.views:
        return False
    try:
        views = joined(bytes_of(view) for view in layout.views)
        return bool(without(pages_of(layout), views, layout.num_blocks).rows)
    except TooManyError:
        return True
