"""A GPU: real launches, recorded on their way, and memory as the machine left it.

What a launch did is read from memory alone: a launcher that skips a launch returns as
if all were well. An error that leaves the CUDA context dead ends the use of this
process's device, and is observed as such. CUDA has been run; HIP shares the code, and
has not.
"""

from contextlib import ExitStack
from dataclasses import replace

import torch

from kvzero.case import Case
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.arena import Arena
from kvzero.executors.real_memory import Bench, DeviceDeadError, run_on_memory
from kvzero.observation import WARMUP_CALL, Launch, Observation, Raised
from kvzero.poison import PIECE_BYTES
from kvzero.subjects.protocol import Subject
from kvzero.triton_internals import TRITON_VERSION, LaunchEvent, recording_launches

MOST_GAP_BYTES = 2**24
"""Gaps between allocations are poisoned and compared too, so long ones are cut; the
footprint executor keeps them."""
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

    def __init__(self, device: torch.device | str | None = None) -> None:
        """Choose a device, by default torch's current one.

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
            self.name, "machine", _environment(self._device), self._arena, self._wait
        )
        self._recorder = LaunchRecorder()
        self._recording = ExitStack()
        self._is_recording = False
        self._dead: str | None = None

    def fits(self, case: Case) -> bool:
        """Return whether the case's memory can be had on this GPU."""
        needed = self._arena.needed_bytes(case)
        if needed <= self._arena.capacity_bytes:
            return True
        free, _ = torch.cuda.mem_get_info(self._device)
        held = torch.cuda.memory_reserved(self._device)
        used = torch.cuda.memory_allocated(self._device)
        own = self._arena.capacity_bytes
        return needed + HEADROOM_BYTES <= free + held - used + own

    def run(self, subject: Subject, case: Case) -> Observation:
        """Return what the subject did on the case.

        Raises:
            EnvironmentMissingError: An earlier case left the device's context dead, or
                the case's memory does not fit.
        """
        self._check(case)
        recorder = self._recorder = LaunchRecorder()
        with torch.cuda.device(self._device):
            if not self._is_recording:
                self._recording.enter_context(recording_launches(self._on_launch))
                self._is_recording = True
            return run_on_memory(self._bench, subject, case, recorder)

    def close(self) -> None:
        """Give the memory back and stop recording."""
        self._recording.close()
        self._is_recording = False
        self._arena.release()

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
