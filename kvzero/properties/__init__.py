"""Properties of a zeroer: pure functions from (case, observation) to a result.

One module a property; `registry` holds them in order and judges.
"""

from kvzero.properties.registry import BYTE_PROPERTIES, PROPERTIES, judge
from kvzero.properties.verdict import (
    Broken,
    Holds,
    Identity,
    NotJudged,
    Result,
    Violation,
)

__all__ = [
    "BYTE_PROPERTIES",
    "PROPERTIES",
    "Broken",
    "Holds",
    "Identity",
    "NotJudged",
    "Result",
    "Violation",
    "judge",
]
