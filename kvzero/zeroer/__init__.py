"""The zeroer of paged KV caches: what a server ships, and nothing of the harness."""

from kvzero.zeroer.plan import Launch
from kvzero.zeroer.zeroer import KVBlockZeroer

__all__ = ["KVBlockZeroer", "Launch"]
