"""A session of the footprint executor: its shadow, held open between steps.

Writes of others go to the shadow as stores of a program do, and reads come from it: no
byte of the case's memory exists.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzero.case import Case
from kvzero.errors import EnvironmentMissingError, InternalError
from kvzero.executors.footprint.arena import arena
from kvzero.executors.footprint.evaluate import Evaluator
from kvzero.executors.footprint.executor import CaseRun, addresses_in
from kvzero.executors.footprint.shadow import OtherBytes
from kvzero.executors.footprint.stretches import stretches
from kvzero.layout import Int64Array
from kvzero.memory import ALIGNMENT_BYTES, Addresses, round_up
from kvzero.observation import Raised
from kvzero.subjects.protocol import Subject
from kvzero.triton_internals import dry_driver

Bytes = NDArray[np.uint8]


class FootprintSession:
    """A session on memory that is addresses only."""

    can_capture = False

    def __init__(self, subject: Subject, case: Case) -> None:
        """Lay the memory out.

        Args:
            subject: What zeroes it.
            case: Its layout and placement; without calls.
        """
        self.case = case
        self._subject = subject
        self._evaluator = Evaluator()
        self._run = self._laid_out()

    @property
    def base_addresses(self) -> Int64Array:
        """Return the address of each allocation, shape [allocations]."""
        return self._run.base_addresses

    @property
    def not_judged(self) -> str | None:
        """Return why the evaluation of a call ended early, if it did."""
        return self._run.gave_up

    def build(self) -> Raised | None:
        """Build the zeroer for the memory as it lies; return what it raised."""
        return self._run.build()

    def zero(self, blocks: Sequence[int]) -> Raised | None:
        """Zero blocks by the zeroer that was built last; return what it raised."""
        return self._run.zero(blocks)

    def capture(self) -> Raised | None:
        """Refuse: there is no graph without a GPU.

        Raises:
            InternalError: Always.
        """
        raise InternalError("capture: the footprint has no graphs; ask `can_capture`")

    def replay(self, block: int) -> None:
        """Refuse, likewise.

        Raises:
            InternalError: Always.
        """
        raise InternalError(f"replay({block}): the footprint has no graphs")

    def read(self, addresses: Int64Array) -> Bytes:
        """Return the bytes at some addresses, guards included."""
        return self._run.read(addresses)

    def write(self, addresses: Int64Array, values: Bytes) -> None:
        """Write bytes, as whoever owns them would."""
        self._run.write(addresses, values)

    def move(self) -> None:
        """Lay the case's memory out elsewhere, poisoned; the zeroer stays as it is."""
        placement = self.case.placement
        placement = replace(placement, base_bytes=self._base_elsewhere())
        self.case = replace(self.case, placement=placement)
        before, self._run = self._run, self._laid_out()
        self._run.inherit(before)

    def _base_elsewhere(self) -> int:
        """Return a base from which on the memory meets no byte of where it lies."""
        base, end = self.case.placement.base_bytes, self._addresses().total_bytes
        is_room_before = end - base <= base
        return 0 if is_room_before else round_up(end, ALIGNMENT_BYTES)

    def _addresses(self) -> Addresses:
        found = addresses_in(self.case, len(arena()))
        if found is None:
            raise EnvironmentMissingError(
                f"case beyond {len(arena())} B of address space, but must fit it"
            )
        return found

    def _laid_out(self) -> "_OpenRun":
        return _OpenRun(
            self._subject, self.case, self._addresses(), self._evaluator, None
        )


class _OpenRun(CaseRun):
    """A run of a case whose calls are made one by one, from without."""

    @property
    def base_addresses(self) -> Int64Array:
        """Return the address of each allocation."""
        return self._shadow.base_addresses

    @property
    def gave_up(self) -> str | None:
        """Return why the bytes cannot be told, if so."""
        return next((reason for _, reason in self._not_judged), None)

    def inherit(self, other: "_OpenRun") -> None:
        """Go on with the zeroer of other memory."""
        self._zeroer: Any = other._zeroer  # noqa: SLF001 - of the same class
        self._not_judged = other._not_judged  # noqa: SLF001 - likewise

    def build(self) -> Raised | None:
        """Build the zeroer and warm it up."""
        return self._dry(self._set_up)

    def zero(self, blocks: Sequence[int]) -> Raised | None:
        """Make a call."""
        self._ids = list(blocks)
        return self._dry(self._zero)

    def read(self, addresses: Int64Array) -> Bytes:
        """Return the bytes at some addresses."""
        return self._shadow.bytes_at(addresses)

    def write(self, addresses: Int64Array, values: Bytes) -> None:
        """Store bytes."""
        is_zero = values == 0
        zeros = addresses[is_zero]
        other = OtherBytes(addresses[~is_zero], values[~is_zero])
        self._shadow.store(stretches(zeros, zeros + 1), other)

    def _dry(self, action: Callable[[], Raised | None]) -> Raised | None:
        """Do something of the subject's; its launches are evaluated on their way."""
        self._results = []
        with dry_driver(self._case.platform, self._on_launch):
            raised = action()
        self._refuse_bug()
        return raised
