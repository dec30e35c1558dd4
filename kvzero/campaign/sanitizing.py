"""Saved cases under NVIDIA's compute-sanitizer, tool by tool.

Only the subject's kernels are looked at: those that the footprint executor sees it
launch. Where a tool must follow every write (initcheck), all kernels are instrumented
and the records of other kernels are counted apart. Every tensor is an allocation of its
own, so that a load past a table or a list of ids is a load past an allocation.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kvzero.campaign.sanitizer_report import Record, read_report
from kvzero.campaign.tally import EXIT_FAULT, EXIT_NOTHING_JUDGED, EXIT_OK
from kvzero.case import Case
from kvzero.casefile import read_case_file
from kvzero.errors import EnvironmentMissingError
from kvzero.executors import executor_named
from kvzero.executors.device import MOST_GAP_BYTES, device_available
from kvzero.memory import place
from kvzero.properties.terms import outside_contract
from kvzero.subjects.registry import find_subject


class Tool(StrEnum):
    """What compute-sanitizer looks for."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"


TOOLS = tuple(Tool)
FOLLOWS_EVERY_WRITE = frozenset({Tool.INITCHECK})
MOST_PROGRAMS = 2**20
"""Programs of a case: instrumented, each takes some hundred times as long."""
MOST_BYTES = 2**32
"""Memory of a case: without a caching allocator, as the tools need it, poisoning 24 GiB
took over 139 GiB of an H200."""
DEADLINE_SECONDS = 600.0
PACKAGE = "nvidia-cuda-sanitizer-api"
OF_THE_TOOL = "========="
"""Begins each line that the tool prints itself; what it found is in its report."""
_PACKAGED = "cu13/bin/compute-sanitizer"
_LAST_LINES = 12


@dataclass(frozen=True)
class Chosen:
    """The cases that are run, and why the others are not.

    Attributes:
        files: Case files.
        kernels: Names of the kernels that the subject launches on them.
        left_out: Files that are not run, each with the reason.
    """

    files: tuple[Path, ...]
    kernels: tuple[str, ...]
    left_out: tuple[tuple[Path, str], ...] = ()


@dataclass(frozen=True)
class Sanitized:
    """What one tool made of the cases.

    Attributes:
        tool: Its name.
        cases: Cases that ran to their end.
        records: What it found in the subject's kernels.
        elsewhere: Records of other kernels, which are not the subject's.
        failures: What the properties said besides.
    """

    tool: Tool
    cases: int
    records: tuple[Record, ...] = ()
    elsewhere: int = 0
    failures: tuple[str, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Return whether nothing was found."""
        return not self.records and not self.failures

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return it as plain data."""
        return {
            "tool": self.tool,
            "cases": self.cases,
            "records": [record.line() for record in self.records],
            "elsewhere": self.elsewhere,
            "failures": list(self.failures),
        }


@dataclass(frozen=True)
class Sanitization:
    """What all tools made of the cases.

    Attributes:
        subject: What was under test.
        chosen: The cases.
        results: One a tool.
    """

    subject: str
    chosen: Chosen
    results: tuple[Sanitized, ...] = field(default=())

    @property
    def exit_code(self) -> int:
        """Return 1 if a tool found something, 5 if no case was run, else 0."""
        # First: what is found in a case may end the process before the case ends.
        if not all(result.is_clean for result in self.results):
            return EXIT_FAULT
        ran = any(result.cases for result in self.results)
        return EXIT_OK if ran else EXIT_NOTHING_JUDGED

    def as_json(self) -> dict[str, Any]:  # Any: a JSON document
        """Return it as plain data."""
        return {
            "exit_code": self.exit_code,
            "subject": self.subject,
            "kernels": list(self.chosen.kernels),
            "left_out": {str(file): why for file, why in self.chosen.left_out},
            "tools": [result.as_json() for result in self.results],
        }


def sanitizer_path() -> Path:
    """Return the tool on PATH, or that of the pip package.

    Raises:
        EnvironmentMissingError: There is neither.
    """
    on_path = shutil.which("compute-sanitizer")
    if on_path is not None:
        return Path(on_path)
    nvidia = find_spec("nvidia")
    for folder in (nvidia.submodule_search_locations or ()) if nvidia else ():
        packaged = Path(folder, _PACKAGED)
        if packaged.exists():
            return packaged
    raise EnvironmentMissingError(
        f"compute-sanitizer=None, but must be on PATH: it comes with the CUDA toolkit "
        f"and with `pip install {PACKAGE}`"
    )


def chosen_cases(files: Sequence[Path], subject: str) -> Chosen:
    """Return the cases of a subject's contract that take a sanitizer reasonable time.

    Args:
        files: Case files.
        subject: Name of the subject.
    """
    footprint = executor_named("footprint", max_programs=1)
    tested = find_subject(subject)
    made, left_out, kernels = [], [], set()
    for file in files:
        case = read_case_file(file).case
        # A wild store outside the contract would be held against the subject.
        why_not = outside_contract(case, tested.contract) or _too_large(case)
        if why_not is not None:
            left_out.append((file, why_not))
            continue
        seen = footprint.run(tested, case)
        programs = sum(launch.shape.programs for launch in seen.launches)
        if programs > MOST_PROGRAMS:
            why = f"{programs:,} programs, and at most {MOST_PROGRAMS:,} are run"
            left_out.append((file, why))
            continue
        made.append(file)
        kernels |= {launch.kernel for launch in seen.launches}
    return Chosen(tuple(made), tuple(sorted(kernels)), tuple(left_out))


def _too_large(case: Case) -> str | None:
    """Return why a case's memory is too large for the tools, or None."""
    total = place(case, most_gap_bytes=MOST_GAP_BYTES).total_bytes
    if total <= MOST_BYTES:
        return None
    return f"{total:,} B of memory, and at most {MOST_BYTES:,} B are run"


def sanitize(
    files: Sequence[Path], subject: str, tools: Sequence[Tool] = TOOLS
) -> Sanitization:
    """Run cases under each tool.

    Args:
        files: Case files.
        subject: Name of the subject.
        tools: Which tools.

    Raises:
        EnvironmentMissingError: There is no GPU or no tool, or it does not work here.
    """
    if not device_available():
        raise EnvironmentMissingError(
            "compute-sanitizer needs an NVIDIA GPU, but torch finds none here"
        )
    program = sanitizer_path()
    chosen = chosen_cases(files, subject)
    results = [run_tool(program, tool, chosen, subject) for tool in tools]
    return Sanitization(subject, chosen, tuple(results))


def run_tool(program: Path, tool: Tool, chosen: Chosen, subject: str) -> Sanitized:
    """Run cases under one tool, in a process of its own, and read its report.

    Raises:
        EnvironmentMissingError: It took too long, or the process died under it and it
            found nothing.
    """
    if not chosen.files:
        return Sanitized(tool, 0)
    with tempfile.TemporaryDirectory() as folder:
        request, answer, report = (Path(folder, n) for n in ("ask", "told", "xml"))
        files = [str(file.resolve()) for file in chosen.files]
        request.write_text(json.dumps({"files": files, "subject": subject}))
        command = [
            *command_of(program, tool, chosen.kernels, report),
            *(sys.executable, "-m", "kvzero.campaign.sanitized"),
            *(str(request), str(answer)),
        ]
        said = _run(command)
        records = read_report(report)
        told = json.loads(answer.read_text()) if answer.exists() else None
        if told is None and not records:
            raise EnvironmentMissingError(
                f"{tool} found nothing, but its process did not end well: {said}"
            )
    return _result(tool, records, told or {"ran": 0, "failures": []}, chosen.kernels)


def command_of(
    program: Path, tool: Tool, kernels: Sequence[str], report: Path
) -> list[str]:
    """Return the command line of a tool, up to what it runs."""
    wanted = () if tool in FOLLOWS_EVERY_WRITE else kernels
    filters = [
        each
        for name in wanted
        for each in ("--kernel-name", f"kernel_substring={name}")
    ]
    return [
        *(str(program), "--tool", tool, "--xml", "--save", str(report)),
        # Errors of the API that torch and Triton ask for on purpose are not ours.
        *("--report-api-errors", "no", "--target-processes", "application-only"),
        *filters,
    ]


def _run(command: list[str]) -> str:
    """Run a command and return the last lines that it printed."""
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        ran = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise EnvironmentMissingError(
            f"compute-sanitizer took over {DEADLINE_SECONDS:g} s: give it fewer cases"
        ) from None
    lines = [line for line in ran.stdout.splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(OF_THE_TOOL)]
    return " | ".join(own[-_LAST_LINES:])


def _result(
    tool: Tool,
    records: Sequence[Record],
    told: dict[str, Any],  # Any: a JSON document
    kernels: Sequence[str],
) -> Sanitized:
    """Return the result; trouble of the tool's own is no result.

    Raises:
        EnvironmentMissingError: The tool says that it does not work here.
    """
    for record in records:
        if record.is_of_the_tool:
            raise EnvironmentMissingError(f"{tool} does not work here: {record.text}")
    ours = [r for r in records if not r.function or _is_of(r.function, kernels)]
    return Sanitized(
        tool,
        told["ran"],
        tuple(ours),
        len(records) - len(ours),
        tuple(told["failures"]),
    )


def _is_of(function: str, kernels: Sequence[str]) -> bool:
    return function.partition("(")[0].strip() in kernels
