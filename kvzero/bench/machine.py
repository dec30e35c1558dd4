"""What a record must say of the machine that it comes from, and of the command."""

import os
import platform
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

PACKAGES = ("kvzero", "torch", "triton", "numpy", "hypothesis", "vllm")
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Origin:
    """Where a record comes from.

    Attributes:
        machine: GPU (None without one), processor and system.
        versions: Packages, Python and CUDA; what is missing is left out.
        command: What was typed.
        when: When it was begun, in UTC.
    """

    machine: dict[str, Any]  # Any: JSON
    versions: dict[str, str]
    command: str
    when: str

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return the origin as plain data."""
        return {
            "machine": self.machine,
            "versions": self.versions,
            "command": self.command,
            "when": self.when,
        }

    @property
    def gpu(self) -> str | None:
        """Return the name of the GPU, if there was one."""
        name = self.machine.get("gpu")
        return None if name is None else str(name)


def this_origin() -> Origin:
    """Return where a record that begins now comes from."""
    command = " ".join(["kvzero", *sys.argv[1:]])
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return Origin(_machine(), _versions(), command, when)


def _machine() -> dict[str, Any]:
    return {
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "cpu": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
    }


def _processor() -> str:
    lines = _CPUINFO.read_text().splitlines() if _CPUINFO.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return next(named, platform.machine())


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    toolkit = torch.version.cuda or torch.version.hip
    if toolkit:
        found["cuda" if torch.version.cuda else "hip"] = toolkit
    return found
