"""A GPU: real launches, recorded on their way, and memory as the machine left it.

What a launch did is read from memory alone: a launcher that skips a launch returns as
if all were well. An error that leaves the CUDA context dead ends the use of this
process's device, and is observed as such. CUDA has been run; HIP shares the code, and
has not.
"""

from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property

import torch

from kvzero.case import Case
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.admission import LARGE_BYTES, Claim, Ledger, ledger_of
from kvzero.executors.arena import Arena
from kvzero.executors.host_waits import counted_host_waits
from kvzero.executors.real_memory import (
    Alone,
    Bench,
    DeviceDeadError,
    Together,
    run_on_memory,
)
from kvzero.executors.repeats import REPEATED, Repeats
from kvzero.memory import round_up
from kvzero.observation import WARMUP_CALL, Launch, Observation, Raised
from kvzero.poison import PIECE_BYTES
from kvzero.subjects.protocol import Subject
from kvzero.triton_internals import TRITON_VERSION, LaunchEvent, recording_launches

MOST_GAP_BYTES = 2**24
"""Gaps between allocations are poisoned and compared too, so long ones are cut; the
footprint executor keeps them."""
PROCESS_BYTES = 2**29
"""What a process takes besides: its context and what torch keeps."""
CLAIM_STEP_BYTES = 2**28
"""Claims grow in steps, so that small cases of all sizes need one claim together."""
HEADROOM_BYTES = 4 * 2**30
"""Left free: pieces at work, pieces kept, and what the subject needs for itself."""
_LAUNCH_ERROR = "Triton Error"  # how a launcher words what the driver answers


def device_available() -> bool:
    """Return whether torch finds a GPU."""
    return torch.cuda.is_available()


class LaunchRecorder:
    """The launches of one case, by call."""

    def __init__(self) -> None:
        """Begin with none."""
        self._call = WARMUP_CALL
        self._launches: list[Launch] = []

    def __call__(self, event: LaunchEvent) -> None:
        """Note a launch that is about to be made."""
        self._launches.append(event.launch(self._call))

    def begin(self, call: int) -> None:
        """Count what is launched from now on as that call's."""
        self._call = call

    def raised(self, raised: Raised) -> None:
        """Mark the call's last launch as rejected if the launcher raised over it."""
        last = self._launches[-1] if self._launches else None
        if last is None or last.call != self._call or last.fate != "runs":
            return
        if raised.message.startswith(_LAUNCH_ERROR):
            self._launches[-1] = replace(last, fate="rejected")

    def launches(self) -> tuple[Launch, ...]:
        """Return what was launched, in order."""
        return tuple(self._launches)


class DeviceExecutor:
    """Runs subjects on one GPU.

    Launches of the whole process are wrapped from the first run until `close`.
    """

    name = "device"

    def __init__(
        self,
        device: torch.device | str | None = None,
        *,
        repeats_calls: bool = True,
    ) -> None:
        """Choose a device, by default torch's current one.

        Args:
            device: The device.
            repeats_calls: Repeat each case's calls in ways that only a device shows.

        Raises:
            EnvironmentMissingError: There is no GPU.
        """
        if not device_available():
            raise EnvironmentMissingError(
                "executor='device', but torch finds no GPU here: use the footprint"
            )
        chosen = torch.device(device or "cuda")
        index = torch.cuda.current_device() if chosen.index is None else chosen.index
        self._device = torch.device("cuda", index)
        self._arena = Arena(
            self._device, most_gap_bytes=MOST_GAP_BYTES, piece_bytes=PIECE_BYTES
        )
        self._bench = Bench(
            self.name,
            "machine",
            _environment(self._device),
            self._arena,
            self._wait,
            count_waits=counted_host_waits,
            repeat=self._repeat if repeats_calls else None,
            is_short=self._is_short,
        )
        self._recorder = LaunchRecorder()
        self._recording = ExitStack()
        self._is_recording = False
        self._dead: str | None = None
        self._claim: Claim | None = None

    def fits(self, case: Case) -> bool:
        """Return whether the case's memory can be had on this GPU."""
        needed = self._arena.needed_bytes(case)
        if needed <= self._arena.capacity_bytes:
            return True
        free, total = torch.cuda.mem_get_info(self._device)
        held = torch.cuda.memory_reserved(self._device)
        used = torch.cuda.memory_allocated(self._device)
        own = self._arena.capacity_bytes
        # What other workers have claimed comes free again: `run` waits for it.
        claimed = self._ledger.claimed_bytes()
        claimed -= self._claim.size_bytes if self._claim else 0
        return needed + HEADROOM_BYTES <= min(free + held - used + own + claimed, total)

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case.

        Raises:
            EnvironmentMissingError: An earlier case left the device's context dead, or
                the case's memory does not fit.
        """
        self._check(case)
        self._claim_bytes(self._arena.needed_bytes(case))
        recorder = self._recorder = LaunchRecorder()
        with torch.cuda.device(self._device):
            if not self._is_recording:
                self._recording.enter_context(recording_launches(self._on_launch))
                self._is_recording = True
            try:
                return run_on_memory(self._bench, subject, case, recorder)
            finally:
                if self._claim is not None and self._claim.size_bytes >= LARGE_BYTES:
                    self._let_go()

    def close(self) -> None:
        """Give the memory back and stop recording."""
        self._recording.close()
        self._is_recording = False
        self._let_go()

    @cached_property
    def _ledger(self) -> Ledger:
        told = torch.cuda.get_device_properties(self._device)
        key = str(getattr(told, "uuid", f"{told.name}-{self._device.index}"))
        return ledger_of(key, told.total_memory)

    def _claim_bytes(self, needed: int) -> None:
        """Wait until other workers leave room for an arena of that size."""
        wanted = round_up(needed + PROCESS_BYTES, CLAIM_STEP_BYTES)
        if self._claim is not None and self._claim.size_bytes >= wanted:
            return
        self._let_go()
        self._claim = self._ledger.claim(wanted)

    def _let_go(self) -> None:
        """Give the arena back to the device, and the claim to other workers."""
        self._arena.release()
        if self._claim is None:
            return
        if self._dead is None:
            torch.cuda.empty_cache()
        self._claim.release()
        self._claim = None

    def _check(self, case: Case) -> None:
        if self._dead is not None:
            raise EnvironmentMissingError(
                f"device={self._device}, but its context died ({self._dead}): only a "
                f"new process can use it again"
            )
        if not self.fits(case):
            raise EnvironmentMissingError(
                f"case of {self._arena.needed_bytes(case)} B, but must fit the free "
                f"memory of {self._device}: use --executor footprint"
            )

    def _on_launch(self, event: LaunchEvent) -> None:
        self._recorder(event)

    def _repeat(self, alone: Alone) -> Together:
        """Return what the calls do when repeated; those launches are not recorded."""
        if torch.version.hip:
            reason = "no stream is held on HIP: the kernel that does is NVIDIA's"
            return Together(not_judged=tuple((name, reason) for name in REPEATED))
        recorder, self._recorder = self._recorder, LaunchRecorder()
        try:
            return self._repeats(alone)
        finally:
            self._recorder = recorder

    def _is_short(self) -> bool:
        """Return whether others hold what this process may count on beyond its arena.

        What it holds itself counts as left: a subject that takes all is to blame.
        """
        free, _ = torch.cuda.mem_get_info(self._device)
        held = torch.cuda.memory_reserved(self._device) - self._arena.capacity_bytes
        return free + held < HEADROOM_BYTES

    @cached_property
    def _repeats(self) -> Repeats:
        return Repeats(self._device, self._wait)

    def _wait(self) -> None:
        """Wait until the device has done its work."""
        try:
            torch.cuda.synchronize(self._device)
        except RuntimeError as error:
            self._dead = str(error).splitlines()[0]
            raise DeviceDeadError(f"device died: {self._dead}") from error


def _environment(device: torch.device) -> str:
    versions = f"triton {TRITON_VERSION}, torch {torch.__version__}"
    properties = torch.cuda.get_device_properties(device)
    if torch.version.hip:
        return f"hip:{properties.gcnArchName}, {versions}"
    return f"cuda:{properties.major}{properties.minor}, {versions}"
