"""The peers: which release, in which Python, and how each is installed.

Each has a virtual environment of its own below one folder, because their releases want
different Tritons. `python -m tests.peers --install` runs these commands.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INSTALL_SECONDS = 1800


@dataclass(frozen=True)
class Peer:
    """A tool that is scored.

    Attributes:
        name: What the table calls it.
        mode: How `witness` runs it.
        python: Its Python, or empty for the one that scores.
        steps: Arguments of pip, one tuple a step.
        versions: What was installed, for the table.
        cannot: Why it cannot be scored at all, or empty.
    """

    name: str
    mode: str
    python: str = ""
    steps: tuple[tuple[str, ...], ...] = ()
    versions: str = ""
    cannot: str = ""

    def interpreter(self, folder: Path) -> Path:
        """Return the Python that runs it."""
        if not self.python:
            return Path(sys.executable)
        return folder / self.name / "bin" / "python"


PEERS = (
    Peer("kvzero", "footprint", versions="this tree, footprint executor"),
    Peer("interpreter", "interpreter", versions="Triton's, with a check of values"),
    Peer(
        "tilelens",
        "tilelens",
        "python3.11",
        (
            ("tilelens==3.1.1", "numpy"),
            ("torch==2.13.0",),
            ("--no-deps", "triton==3.8.0"),
        ),
        "TileLens 3.1.1, Triton 3.8.0, torch 2.13.0",
    ),
    Peer(
        "triton-viz",
        "triton_viz",
        "python3.11",
        (
            ("triton-viz==3.0", "numpy"),
            ("torch==2.13.0",),
            ("--no-deps", "triton==3.6.0"),
        ),
        "triton_viz 3.0, Triton 3.6.0, torch 2.13.0",
    ),
    Peer(
        "ttsem",
        "ttsem",
        "python3.12",
        (("ttsem[triton]==0.1.0",),),
        "ttsem 0.1.0, Triton 3.8.0, torch 2.14.0, with a check of values",
    ),
    Peer(
        "gpucheck",
        "gpucheck",
        "python3.11",
        (("gpucheck==0.1.0",),),
        "gpucheck 0.1.0",
        cannot="it has no check of a kernel without a GPU: its fixtures skip",
    ),
)


def install(folder: Path) -> list[str]:
    """Install every peer into its own environment, and return what failed.

    Args:
        folder: Holds one environment a peer.
    """
    wanted = [peer for peer in PEERS if peer.python]
    return [peer.name for peer in wanted if not _is_installed(peer, folder)]


def _is_installed(peer: Peer, folder: Path) -> bool:
    home = folder / peer.name
    pip = (str(peer.interpreter(folder)), "-m", "pip", "install", "-q")
    steps = [(peer.python, "-m", "venv", str(home)), *(pip + s for s in peer.steps)]
    try:
        return all(
            subprocess.run(step, check=False, timeout=INSTALL_SECONDS).returncode == 0
            for step in steps
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def environment(copy: Path) -> dict[str, str]:
    """Return the environment variables of a witness.

    Args:
        copy: The copy of kvzero that it imports.
    """
    return {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(copy),
        "TRITON_CACHE_DIR": str(copy / "triton-cache"),
    }
