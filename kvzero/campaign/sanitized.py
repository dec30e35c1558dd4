"""The process that runs under compute-sanitizer: saved cases on the device.

Run as ``python -m kvzero.campaign.sanitized REQUEST ANSWER``, two files of JSON. Its
answer says how many cases ran to their end, so that a process that died early is not
taken for one in which nothing was found.
"""

import json
import sys
from pathlib import Path
from typing import Any

from kvzero.campaign.judging import Judge, Judged
from kvzero.casefile import read_case_file
from kvzero.executors.device import DeviceExecutor
from kvzero.subjects.registry import find_subject


def run(request: dict[str, Any]) -> dict[str, Any]:  # Any: JSON documents
    """Run cases and return how many, with what the properties said.

    Calls are not repeated: a stream that is held under an instrumented kernel tells
    nothing, and takes long.

    Args:
        request: ``{"files": [...], "subject": NAME}``.
    """
    executor = DeviceExecutor(repeats_calls=False)
    judge = Judge(find_subject(request["subject"]), executor)
    ran, failures = 0, []
    try:
        for file in request["files"]:
            judged = _judged(judge, Path(file))
            ran += 1
            failures += [f"{file}: {v.headline}" for v in judge.failures(judged)]
    finally:
        executor.close()
    return {"ran": ran, "failures": failures}


def _judged(judge: Judge, file: Path) -> Judged:
    try:
        return judge(read_case_file(file).case)
    except Exception as error:  # raised again: its traceback tells the case
        error.add_note(f"while {file} ran")
        raise


if __name__ == "__main__":
    REQUEST, ANSWER = map(Path, sys.argv[1:])
    ANSWER.write_text(json.dumps(run(json.loads(REQUEST.read_text()))))
