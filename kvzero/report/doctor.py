"""What this machine can judge: hardware, versions, limits, memory, and what it cannot.

Everything is asked, nothing is run on a GPU: properties are queried, and one kernel
goes through the footprint executor, which has no device. What is missing or broken is a
line of the answer, never an error.
"""

import os
import platform
import shutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kvzero.case import Call, Case, IdRun
from kvzero.errors import KvzeroError
from kvzero.layout import Allocation, Layout, Run
from kvzero.limits import LIMITS
from kvzero.report.anatomy_text import bytes_text
from kvzero.subjects.offers import offers
from kvzero.subjects.registry import find_subject

TESTED_TRITON = ((3, 6), (3, 9))
"""Versions of Triton whose internals kvzero knows, both inclusive."""
WIDTH = 80
CORE = ("torch", "triton", "numpy")
EXTRAS = ("hypothesis", "pytest", "pytest-xdist", "rich", "typer")
_OVERCOMMIT = Path("/proc/sys/vm/overcommit_memory")
_OVERCOMMIT_WORDS = {"0": "heuristic", "1": "always", "2": "never"}
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Gpu:
    """One GPU, as torch describes it."""

    name: str
    target: str
    memory_bytes: int


@dataclass(frozen=True)
class OfferedSubject:
    """A subject that an installed package offers.

    Attributes:
        name: The name that ``--subject`` takes.
        distribution: The package and its version.
        problem: Why it cannot be used, or None.
    """

    name: str
    distribution: str
    problem: str | None


@dataclass(frozen=True)
class NotJudged:
    """Something that no verdict of this machine covers: what, why, and the remedy."""

    what: str
    why: str
    remedy: str


@dataclass
class Diagnosis:
    """What was found.

    Attributes:
        versions: Version of each package, None where it is missing.
        python: Version of Python, and the machine's.
        gpus: What torch finds.
        executors: Each executor, and None if it can judge, else why it cannot.
        memory: Sizes and paths, in words.
        subjects: What installed packages offer.
        not_judged: What verdicts of this machine will not cover.
    """

    versions: dict[str, str | None]
    python: str
    gpus: list[Gpu] = field(default_factory=list)
    executors: dict[str, str | None] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)
    subjects: list[OfferedSubject] = field(default_factory=list)
    not_judged: list[NotJudged] = field(default_factory=list)

    @property
    def can_judge(self) -> bool:
        """Return whether some executor works here."""
        return any(reason is None for reason in self.executors.values())

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return everything as plain data, the limits included."""
        limits = [
            {"name": r.name, "platform": r.platform, "effect": r.effect, "rule": r.rule}
            for r in LIMITS
        ]
        return {**asdict(self), "can_judge": self.can_judge, "limits": limits}


def diagnose() -> Diagnosis:
    """Return what this machine can judge."""
    found = Diagnosis(
        {name: _version(name) for name in ("kvzero", *CORE, *EXTRAS)},
        f"{platform.python_version()} on {platform.platform()}",
    )
    gpu_reason = _failure(lambda: found.gpus.extend(_gpus()))
    if gpu_reason is None and not found.gpus:
        gpu_reason = "torch finds no GPU"
    found.executors = {
        "device": gpu_reason,
        "footprint": _failure(_footprint_works),
        "host": _failure(_interpreter_is_there),
    }
    found.memory = _memory(found.executors["footprint"] is None)
    found.subjects = [*_subjects()]
    found.not_judged = [*_not_judged(found)]
    return found


def machine_facts() -> dict[str, str]:
    """Return versions and hardware in a line each, for a report."""
    versions = {name: _version(name) for name in ("kvzero", *CORE, "hypothesis")}
    found = {name: text for name, text in versions.items() if text}
    found["Python"] = platform.python_version()
    found["system"] = platform.platform()
    gpus = [f"{gpu.name} ({gpu.target})" for gpu in _gpus()]
    return found | {"GPU": ", ".join(gpus) or "none"}


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _failure(check: Callable[[], object]) -> str | None:
    """Return why a check fails, in a line, or None."""
    try:
        check()
    except Exception as error:  # a doctor reports whatever is broken
        text = str(error).splitlines()[:1] or [""]
        return text[0] if isinstance(error, KvzeroError) else f"{error!r}"
    return None


def _gpus() -> list[Gpu]:
    """Return the GPUs by their properties: no context is made, no memory asked for."""
    import torch

    if not torch.cuda.is_available():
        return []
    gpus = []
    for index in range(torch.cuda.device_count()):
        told = torch.cuda.get_device_properties(index)
        target = f"cuda:{told.major}{told.minor}"
        if torch.version.hip:
            target = f"hip:{told.gcnArchName.partition(':')[0]}"
        gpus.append(Gpu(told.name, target, told.total_memory))
    return gpus


def _footprint_works() -> None:
    """Run kvzero's zeroer on two blocks through the footprint executor.

    That compiles a kernel with Triton's own machinery under a dry driver, and evaluates
    it: whatever of Triton's internals kvzero relies on is used.
    """
    from kvzero.errors import EnvironmentMissingError
    from kvzero.executors.footprint import FootprintExecutor
    from kvzero.subjects.ours import KVZERO

    layout = Layout(2, (Allocation(32),), (Run(12, 16, 4),))
    case = Case(layout, (Call((IdRun(1),)),))
    if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
        raise EnvironmentMissingError(
            "TRITON_INTERPRET is set, but must not be: nothing is compiled then"
        )
    seen = FootprintExecutor().run(KVZERO, case)
    reasons = [why for _, why in seen.not_judged]
    if seen.built is not None:
        reasons.append(f"{seen.built.type_name}: {seen.built.message}")
    reasons += [
        f"{c.raised.type_name}: {c.raised.message}" for c in seen.calls if c.raised
    ]
    if reasons or not seen.launches:
        raise EnvironmentMissingError((reasons or ["no launch was seen"])[0])


def _interpreter_is_there() -> None:
    from kvzero.triton_internals.interpreter import interpreted_launches

    with interpreted_launches(lambda _grid: None):
        pass


def _subjects() -> Iterator[OfferedSubject]:
    """Yield what installed packages offer, each imported to see whether it can be."""
    for offer in offers():
        problem = _failure(partial(find_subject, offer.name))
        yield OfferedSubject(offer.name, offer.distribution, problem)


def _memory(footprint_works: bool) -> dict[str, str]:  # noqa: FBT001 - private, one caller
    """Return what there is of addresses, memory and disk."""
    mode = _OVERCOMMIT.read_text().strip() if _OVERCOMMIT.exists() else "unknown"
    found = {"overcommit": f"{mode} ({_OVERCOMMIT_WORDS.get(mode, 'unknown')})"}
    if footprint_works:
        from kvzero.executors.footprint.arena import arena

        found["arena"] = f"{bytes_text(len(arena()))} of addresses for the footprint"
    if _MEMINFO.exists():
        words = _MEMINFO.read_text().split()
        total, free = (
            1024 * int(words[words.index(name) + 1])
            for name in ("MemTotal:", "MemAvailable:")
        )
        found["RAM"] = f"{bytes_text(free)} available of {bytes_text(total)}"
    folder = _cache_folder()
    there = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(there).free
    access = "writable" if os.access(there, os.W_OK) else "NOT writable"
    found["Triton cache"] = f"{folder}: {access}, {bytes_text(free)} free"
    return found


def _cache_folder() -> Path:
    """Return where Triton keeps what it has compiled."""
    chosen = os.environ.get("TRITON_CACHE_DIR")
    home = os.environ.get("TRITON_HOME")
    return Path(chosen) if chosen else Path(home or Path.home()) / ".triton" / "cache"


def _not_judged(found: Diagnosis) -> list[NotJudged]:
    """Return what verdicts of this machine do not cover."""
    gaps = []
    reason = found.executors["device"]
    if reason is not None:
        gaps.append(
            NotJudged(
                "what only a machine shows: misaligned addresses, streams, ids that "
                "are overwritten in flight, launches as the driver takes them",
                reason,
                "run the same command on a GPU",
            )
        )
    for name, what in (
        ("footprint", "stores, races, promises and launches of Triton kernels"),
        ("host", "subjects that are not Triton, and the interpreter as a witness"),
    ):
        reason = found.executors[name]
        if reason is not None:
            gaps.append(NotJudged(f"{what} (executor {name})", reason, _REMEDIES[name]))
    gaps += _unknown_ground(found)
    return gaps


_REMEDIES = {
    "footprint": "set overcommit_memory to 0 or 1; install Triton 3.6 to 3.9",
    "host": "install Triton 3.6 to 3.9",
}


def _unknown_ground(found: Diagnosis) -> list[NotJudged]:
    """Return what is judged here, but on less certain ground."""
    gaps = []
    if not any(gpu.target.startswith("hip") for gpu in found.gpus):
        gaps.append(
            NotJudged(
                "AMD at run time",
                "kernels are compiled for it and held against its limits, not run",
                "run on an AMD GPU; kvzero has not been run on one yet",
            )
        )
    triton = found.versions["triton"]
    numbers = (triton or "0.0").split(".")[:2]
    known = all(n.isdecimal() for n in numbers)
    release = (int(numbers[0]), int(numbers[1])) if known else (0, 0)
    if not TESTED_TRITON[0] <= release <= TESTED_TRITON[1]:
        gaps.append(
            NotJudged(
                "whether Triton's internals are what kvzero takes them for",
                f"Triton is {triton}, and kvzero was tried on 3.6 to 3.9",
                "install one of those",
            )
        )
    missing = [name for name in EXTRAS if found.versions[name] is None]
    if missing:
        gaps.append(
            NotJudged(
                "fuzzing and tests",
                f"{', '.join(missing)} missing",
                "pip install 'kvzero[harness]'",
            )
        )
    return gaps


def diagnosis_lines(found: Diagnosis) -> list[str]:
    """Return a diagnosis as text, a line an item."""
    lines = [f"python     {found.python}"]
    told = ((n, found.versions[n] or "missing") for n in ("kvzero", *CORE))
    lines += [f"{name:<11}{text}" for name, text in told]
    extras = ", ".join(f"{name} {found.versions[name] or 'missing'}" for name in EXTRAS)
    lines += textwrap.wrap(f"extras     {extras}", WIDTH, subsequent_indent=" " * 11)
    for index, gpu in enumerate(found.gpus):
        lines.append(
            f"GPU {index}      {gpu.name}, {gpu.target}, {bytes_text(gpu.memory_bytes)}"
        )
    if not found.gpus:
        lines.append("GPU        none")
    lines += ["", "memory", *(f"  {k:<13} {v}" for k, v in found.memory.items())]
    lines += ["", "executors"]
    for name, reason in found.executors.items():
        lines.append(f"  {name:<13} {'judges' if reason is None else f'no: {reason}'}")
    if found.subjects:
        lines += ["", "subjects of installed packages"]
    for subject in found.subjects:
        verdict = "can be judged" if subject.problem is None else subject.problem
        line = f"  {subject.name:<13} {subject.distribution}: {verdict}"
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=" " * 16)
    lines += ["", "launch limits: every recorded launch is judged against all of them"]
    for row in LIMITS:
        lines.append(f"  {row.name:<15} {row.platform:<5} {row.effect:<9} {row.rule}")
    lines += ["", "not judged here"]
    for gap in found.not_judged:
        lines += textwrap.wrap(f"  {gap.what}", WIDTH, subsequent_indent="  ")
        for label, text in (("why", gap.why), ("remedy", gap.remedy)):
            line = f"    {label:<8}{text}"
            lines += textwrap.wrap(line, WIDTH, subsequent_indent=" " * 12)
    if not found.not_judged:
        lines.append("  nothing is left out")
    return lines
