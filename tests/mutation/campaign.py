"""One run over all groups: chosen mutants, N workers, results into the sessions.

A result is stored as soon as it is there, so a run that was stopped goes on from there.
A session belongs to the text of the modules that it mutates; where they have changed it
is refused, because its mutants are others.
"""

import json
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cosmic_ray.work_db import WorkDB
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkItem, WorkResult

from tests.mutation.groups import Group
from tests.mutation.mutants import Mutant, listed, open_session, shuffled, written
from tests.mutation.totals import GroupTotals, Result
from tests.mutation.trees import Worker, copy_tree, digest

LEAST_DEADLINE_SECONDS = 40.0
DEADLINE_FACTOR = 4.0
"""Of what the killers of a group take without a mutant; a busy machine is slower."""
ALONE_SECONDS = 900.0
"""For the killers of a group on the tree as it is."""
BATCH = 64

Say = Callable[[str], None]


@dataclass
class Chosen:
    """The mutants of one group that a run speaks of.

    Attributes:
        group: The group.
        session: cosmic-ray's session.
        totals: What is known so far.
        pending: Mutants without a result.
    """

    group: Group
    session: WorkDB
    totals: GroupTotals
    pending: list[Mutant] = field(default_factory=list)


@dataclass(frozen=True)
class Plan:
    """What a run does.

    Attributes:
        root: The tree.
        out: Folder of sessions, copies and totals.
        groups: The groups.
        workers: Processes that run mutants at the same time.
        sample: Mutants of all sampled groups together.
        seed: The sample follows from it.
        only: At most so many of each group; None: all that are chosen.
        is_retry: Run again what survived: tests have changed.
    """

    root: Path
    out: Path
    groups: tuple[Group, ...]
    workers: int
    sample: int
    seed: int
    most: int | None = None
    is_retry: bool = False


def run(plan: Plan, say: Say) -> list[GroupTotals]:
    """Run what has no result yet, and return the totals.

    Args:
        plan: What to do.
        say: Takes lines of progress.

    Raises:
        RuntimeError: Killers notice something in the tree as it is.
    """
    context = get_context("spawn")
    with ProcessPoolExecutor(plan.workers, context) as pool, ExitStack() as stack:
        workers = list(_started(plan, stack))
        deadlines = _deadlines(plan, workers, say)
        chosen = [_choose(plan, group, pool) for group in plan.groups]
        for each in chosen:
            stack.callback(each.session.close)
        todo = sum(len(each.pending) for each in chosen)
        say(f"{todo} mutants to run on {plan.workers} workers")
        _run_all(chosen, workers, deadlines, say)
    return [each.totals for each in chosen]


def _started(plan: Plan, stack: ExitStack) -> Iterator[Worker]:
    plan.out.mkdir(parents=True, exist_ok=True)
    for index in range(plan.workers):
        tree = plan.out / "trees" / str(index)
        copy_tree(plan.root, tree)
        log = plan.out / f"worker-{index}.log"
        worker = Worker(tree, log, plan.out / "triton-cache")
        stack.callback(worker.close)
        yield worker


def _deadlines(plan: Plan, workers: list[Worker], say: Say) -> dict[str, float]:
    """Run the killers of each group on the tree as it is: they must notice nothing."""
    found: dict[str, float] = {}
    wrong: list[str] = []

    def alone(worker: Worker, group: Group) -> None:
        answer = worker.answer(group.name, ALONE_SECONDS, "", "")
        say(f"{group.name}: {answer['cpu_seconds']:.1f} CPU s without a mutant")
        found[group.name] = max(
            LEAST_DEADLINE_SECONDS, DEADLINE_FACTOR * answer["seconds"]
        )
        if answer["end"] != "survived":
            wrong.append(f"{group.name}: {answer['end']} {answer['text']}")

    for worker in workers:
        worker.wait_until_ready()
    _share(list(plan.groups), workers, alone)
    if wrong:
        raise RuntimeError(
            f"killers notice something in the tree as it is, but must not: "
            f"{'; '.join(wrong)}"
        )
    return found


def _choose(plan: Plan, group: Group, pool: ProcessPoolExecutor) -> Chosen:
    """List a group's mutants, and part those that have a result from the others."""
    session = _session(plan, group)
    items = listed(session)
    done = dict(session.results)
    chosen = Chosen(group, session, GroupTotals(group.name, len(items)))
    wanted = len(items)
    if group.is_sampled:
        items = shuffled(items, plan.seed)
        wanted = _share_of_sample(plan)
    wanted = min(wanted, plan.most or wanted)
    if plan.most is not None:
        items = shuffled(items, plan.seed)
    count = 0
    for mutant in _written(items, plan, pool):
        if count == wanted:
            break
        if mutant.rule is not None:
            chosen.totals.filtered[mutant.rule] += 1
            continue
        count += 1
        known = done.get(mutant.job)
        result = None if known is None else _result(mutant, json.loads(known.output))
        if result is None or (plan.is_retry and result.survived):
            chosen.pending.append(mutant)
        else:
            chosen.totals.results.append(result)
    chosen.totals.missing = len(chosen.pending)
    return chosen


def _share_of_sample(plan: Plan) -> int:
    sampled = sum(group.is_sampled for group in plan.groups)
    return -(-plan.sample // sampled)


def _session(plan: Plan, group: Group) -> WorkDB:
    """Open the session of a group.

    Raises:
        RuntimeError: It was listed from other modules.
    """
    now = digest(plan.root, group.files(plan.root))
    mark = plan.out / f"{group.name}.digest"
    file = plan.out / f"{group.name}.sqlite"
    if file.exists() and (not mark.exists() or mark.read_text() != now):
        raise RuntimeError(
            f"session={file}, but must be of these modules: they have changed since, "
            f"so take another --out"
        )
    mark.write_text(now)
    return open_session(file, plan.root, group)


def _written(
    items: Sequence[WorkItem], plan: Plan, pool: ProcessPoolExecutor
) -> Iterator[Mutant]:
    """Yield mutants in order; texts are made by all processes, some ahead."""
    step = BATCH * plan.workers
    for begin in range(0, len(items), step):
        part = items[begin : begin + step]
        yield from pool.map(partial(written, root=plan.root), part, chunksize=8)


def _run_all(
    chosen: list[Chosen],
    workers: list[Worker],
    deadlines: dict[str, float],
    say: Say,
) -> None:
    """Run every pending mutant; the main thread alone writes to the sessions."""
    jobs = [(each, mutant) for each in reversed(chosen) for mutant in each.pending]
    answers: queue.SimpleQueue[tuple[Chosen, Mutant, Any]] = queue.SimpleQueue()

    def one(worker: Worker, job: tuple[Chosen, Mutant]) -> None:
        each, mutant = job
        name = each.group.name
        module, source = mutant.identity.module, mutant.source
        answers.put(
            (each, mutant, worker.answer(name, deadlines[name], module, source))
        )

    sharing = threading.Thread(target=_share, args=(jobs, workers, one))
    sharing.start()
    done = 0
    while done < len(jobs) and (sharing.is_alive() or not answers.empty()):
        try:
            each, mutant, answer = answers.get(timeout=1.0)
        except queue.Empty:
            continue
        _store(each, mutant, answer)
        done += 1
        if not done % 50:
            say(f"{done} of {len(jobs)}")
    sharing.join()


def _share(
    jobs: Sequence[Any], workers: list[Worker], do: Callable[[Worker, Any], None]
) -> None:
    """Do all jobs, each on a worker that is free."""
    waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for job in jobs:
        waiting.put(job)

    def work(worker: Worker) -> None:
        while True:
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            do(worker, job)

    threads = [threading.Thread(target=work, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _store(each: Chosen, mutant: Mutant, answer: Any) -> None:  # Any: JSON
    result = _result(mutant, answer)
    outcome = TestOutcome.SURVIVED if result.survived else TestOutcome.KILLED
    change = f"- {mutant.identity.before}\n+ {mutant.identity.after}"
    each.session.set_result(
        mutant.job,
        WorkResult(WorkerOutcome.NORMAL, json.dumps(answer), outcome, change),
    )
    each.totals.results.append(result)
    each.totals.missing -= 1


def _result(mutant: Mutant, answer: Any) -> Result:  # Any: JSON
    return Result(mutant.identity, mutant.line, **answer)
