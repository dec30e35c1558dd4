"""Runs subjects on cases as one peer does, in that peer's own Python.

A file of its own, which a peer's Python runs with a copy of kvzero beside it. It reads
jobs as JSON, one a line, and answers each with a line: what the peer reported, what a
check of values found, or why the case cannot run. Each job has a process of its own
with a deadline, so that what kills or hangs a peer is an answer too.

A check of values is what a careful test does: torch tensors of random bytes, the call,
and a comparison of every byte of them with what the oracle says. Bytes outside the
tensors are nobody's, as in any test of a kernel.
"""

import json
import os
import select
import signal
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
if MODE in ("interpreter", "tilelens", "triton_viz"):
    os.environ["TRITON_INTERPRET"] = "1"  # read where a kernel is defined

MOST_BYTES = 2**26
MOST_TENSORS = 8
SEED = 7
REPORT_CHARACTERS = 300
HUNG = "did not end"
MOST_HANGS = 3
"""Cases in a row on which a subject may hang under a peer; others are left out then."""

Answer = dict[str, str]
RECORDING: list[Any] = []
"""Sanitizers of TileLens or triton_viz, one a kernel."""


def serve(jobs: TextIO, answers: TextIO) -> None:
    """Answer every job."""
    prepare()
    hung: Counter[str] = Counter()
    for line in jobs:
        job = json.loads(line)
        if hung[job["subject"]] < MOST_HANGS:
            answer = in_a_process(job) if MODE != "footprint" else here(job)
        else:
            answer = {"end": "cannot run", "why": f"{HUNG} on {MOST_HANGS} in a row"}
        is_hung = answer["why"].startswith(HUNG)
        hung[job["subject"]] = hung[job["subject"]] + 1 if is_hung else 0
        answers.write(json.dumps({**job, **answer}) + "\n")
        answers.flush()


def here(job: dict[str, Any]) -> Answer:
    """Run a job in this process, which keeps what was compiled."""
    try:
        return run(job["subject"], Path(job["case"]))
    except Exception as error:  # whatever a peer raises is its answer
        return answer_of(error)


def prepare() -> None:
    """Import what all jobs need; a tracing peer takes the place of `triton.jit`."""
    import triton

    if MODE in ("tilelens", "triton_viz"):
        triton.jit = traced(triton.jit)
    from kvzero.subjects.registry import subject_names

    subject_names()


def traced(jit: Any) -> Any:  # Any: decorators of Triton and of the peer
    """Return a `triton.jit` whose kernels the peer's sanitizer watches."""
    import importlib

    peer = importlib.import_module(MODE)
    clients = importlib.import_module(f"{MODE}.clients")

    def watch(kernel: Any) -> Any:
        client = clients.Sanitizer(abort_on_error=False)
        RECORDING.append(client)
        return peer.trace(client=client)(kernel)

    def patched(function: Any = None, **options: Any) -> Any:
        if function is None:
            return lambda each: watch(jit(**options)(each))
        return watch(jit(function))

    return patched


def in_a_process(job: dict[str, Any]) -> Answer:
    """Run a job in a fork, and return its answer, or how it ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.close(reading)
        os.dup2(2, 1)
        try:
            answer = run(job["subject"], Path(job["case"]))
        except BaseException as error:  # whatever a peer raises is its answer
            answer = answer_of(error)
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    until = time.monotonic() + job["deadline"]
    is_there = select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]
    said = os.read(reading, 2**16) if is_there else b""
    if not is_there:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os.close(reading)
    if said:
        told: Answer = json.loads(said)
        return told
    if not is_there:
        return {"end": "cannot run", "why": f"{HUNG} in {job['deadline']} s"}
    code = os.waitstatus_to_exitcode(status)
    return {"end": "died", "why": f"its process ended with code {code}"}


def answer_of(error: BaseException) -> Answer:
    """Return what an exception says: a peer's report, or that the case cannot run."""
    name, text = type(error).__name__, " ".join(str(error).split())
    if name == "SubjectError":  # the subject refuses a case that it must take
        return {"end": "wrong", "why": text[:REPORT_CHARACTERS]}
    if name == "KernelFault":
        return {"end": "reported", "why": text[:REPORT_CHARACTERS]}
    return {"end": "cannot run", "why": f"{name}: {text}"[:REPORT_CHARACTERS]}


def run(name: str, file: Path) -> Answer:
    """Run a subject on a case, and say what is noticed."""
    from kvzero.casefile import read_case_file
    from kvzero.subjects.registry import find_subject

    case_file, subject = read_case_file(file), find_subject(name)
    if MODE == "footprint":
        return footprint(subject, case_file)
    case = case_file.case
    size = int(case.layout.allocation_sizes.sum())
    if size > MOST_BYTES:
        return {"end": "cannot run", "why": f"needs {size} B of real memory"}
    if MODE != "interpreter" and case.layout.num_allocations > MOST_TENSORS:
        many = case.layout.num_allocations
        return {"end": "cannot run", "why": f"{many} allocations as arguments"}
    with ExitStack() as stack:
        return checked(subject, case, stack)


def footprint(subject: Any, case_file: Any) -> Answer:  # Any: kvzero's
    """Judge a case as `kvzero replay` does."""
    from kvzero.campaign.judging import Judge
    from kvzero.executors.footprint import FootprintExecutor

    judged = Judge(subject, FootprintExecutor(), strict_cost=True)(case_file.case)
    for violation in judged.violations:
        return {"end": "reported", "why": violation.headline[:REPORT_CHARACTERS]}
    return {"end": "clean", "why": ""}


def checked(subject: Any, case: Any, stack: ExitStack) -> Answer:  # Any: kvzero's
    """Make the calls of a case on real tensors, watched, and compare all bytes."""
    import numpy as np
    import torch

    from kvzero.executors.arrival import block_ids_for, reuse_ids
    from kvzero.memory import Pool
    from kvzero.oracle import may_be_zero, must_be_zero

    random = np.random.default_rng(SEED)
    tensors = tuple(
        torch.from_numpy(random.integers(1, 256, int(size), dtype=np.uint8))
        for size in case.layout.allocation_sizes
    )
    pool = Pool(case.layout, tensors, torch.device("cpu"))
    watch_launches(tensors, stack)
    zeroer = subject.build(pool)
    if hasattr(zeroer, "warmup"):
        zeroer.warmup()
    expected = [tensor.clone() for tensor in tensors]
    bases = pool.base_addresses
    for index, call in enumerate(case.calls):
        ids = block_ids_for(call, "cpu", case.layout.num_blocks)
        must_refuse = subject.contract.checks_ids and call.must_be_refused(
            case.layout.num_blocks
        )
        try:
            zeroer.zero(ids)
        except Exception as error:  # a peer's report, or the subject's own
            if not is_subjects_own(error):
                raise
            if must_refuse:  # on the device or not: this memory is the host's
                continue
            return {"end": "wrong", "why": f"call {index} raised {error!r}"[:200]}
        if must_refuse and call.arrival != "device":
            return {"end": "wrong", "why": f"call {index} took ids that are none"}
        reuse_ids(ids, case.layout.num_blocks)
        zeroed = must_be_zero(case, index, bases)
        allowed = may_be_zero(case, index, bases)
        for base, tensor, wanted in zip(bases.tolist(), tensors, expected):
            fill(wanted, zeroed, base)
            wrong = tensor != wanted
            fill(wrong, allowed, base)
            if MODE in ("interpreter", "ttsem") and wrong.any():
                byte = int(wrong.nonzero()[0])
                return {"end": "wrong", "why": f"call {index}: byte {byte} is wrong"}
    reports = [record for client in RECORDING for record in client.records]
    if reports:
        told = " ".join(str(reports[0]).split())
        return {"end": "reported", "why": told[:REPORT_CHARACTERS]}
    return {"end": "clean", "why": ""}


def is_subjects_own(error: Exception) -> bool:
    """Return whether kvzero's code raised an error, and not what runs its kernels."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and "/kvzero/" in trace.tb_frame.f_code.co_filename


def fill(tensor: Any, stretches: Any, base: int) -> None:  # Any: torch's, the oracle's
    """Write zeros, or False, where stretches of addresses meet a tensor at a base."""
    for begin, end in zip(stretches.starts.tolist(), stretches.ends.tolist()):
        low, high = max(begin - base, 0), min(end - base, len(tensor))
        if low < high:
            tensor[low:high] = 0


def watch_launches(tensors: tuple[Any, ...], stack: ExitStack) -> None:
    """Let the peer see every launch, with the pool's tensors as further arguments."""
    pool = {f"pool_{i}_ptr": tensor for i, tensor in enumerate(tensors)}
    if MODE == "ttsem":
        from triton.runtime.jit import JITFunction
        from ttsem import sanitize

        stack.enter_context(sanitize.session())
        kernel_class = JITFunction
    elif MODE in ("tilelens", "triton_viz"):
        import importlib

        trace = importlib.import_module(f"{MODE}.core.trace")
        kernel_class = getattr(trace, "TritonTrace", None) or trace.Trace
    else:
        return
    run = kernel_class.run

    def with_pool(self: Any, *args: Any, **kwargs: Any) -> Any:  # Any: Triton's
        known = {name: t for name, t in pool.items() if name in self.arg_names}
        return run(self, *args, **known, **kwargs)

    kernel_class.run = with_pool
    stack.callback(setattr, kernel_class, "run", run)


if __name__ == "__main__":
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.stdin, told)
