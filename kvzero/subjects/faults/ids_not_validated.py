"""The contract says that bad ids are refused; nothing looks at them.

An id of -1 or one past the end becomes an address outside the cache.

Kind: known-faults C2. Source: public reports, vLLM issues 54296 and 53982.
Breaks: `bad_ids_are_refused`.
"""

from dataclasses import replace

from kvzero.subjects.element_table import TRUSTS_IDS
from kvzero.subjects.faults.fault import Fault
from kvzero.subjects.faults.within_limits import WithinLimits

FAULT = Fault(
    "ids-not-validated",
    replace(TRUSTS_IDS, checks_ids=True),
    WithinLimits,
    kind="unchecked-block-id",
    area="ids",
    breaks="bad_ids_are_refused",
    what="bad-ids-accepted",
)
