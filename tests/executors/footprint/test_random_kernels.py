"""Random kernels must leave the same bytes on the footprint and in the interpreter."""

import itertools
import os
import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvzero.triton_internals import TRITON_VERSION
from tests.executors.footprint.differential import Witness, bytes_before, witness
from tests.executors.footprint.random_blocks import draw_kernel
from tests.executors.footprint.random_campaign import (
    ENOUGH,
    NEVER_DRAWN,
    Campaign,
    batches,
    in_batches,
    run,
)
from tests.executors.footprint.random_crew import Crew, Lost
from tests.executors.footprint.random_kernels import (
    HEADER,
    REGION_BYTES,
    Draft,
    RandomKernel,
    opening,
)
from tests.executors.footprint.random_sides import Side
from tests.executors.footprint.random_worker import in_one_line

SEEDED = 12
DRAWN = 8


@pytest.fixture(scope="module")
def both_sides() -> Iterator[Witness]:
    with witness() as made:
        yield made


@pytest.mark.slow
def test_random_kernels_leave_the_bytes_that_the_interpreter_leaves(
    both_sides: Witness,
) -> None:
    campaign = Campaign()
    for batch in batches(both_sides, seed=7, count=SEEDED):
        for compiled in batch:
            campaign.add(compiled)
    differences = [(kernel.source, text) for kernel, text in campaign.disagreements]
    assert differences == []
    assert campaign.compared == {"interpreter": SEEDED}
    for feature in ("loop or branch", "wrap", "promise"):
        assert campaign.marks[feature], feature


@pytest.mark.slow
@given(random=st.randoms(use_true_random=False))
@settings(
    max_examples=DRAWN,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_drawn_kernels_agree_and_shrink(both_sides: Witness, random: Random) -> None:
    (compiled,) = both_sides.batch([draw_kernel(random)])
    assert compiled.disagreement() is None, compiled.kernel.source


def test_a_kernel_depends_on_its_seed_alone() -> None:
    # sanity check
    one, other = (draw_kernel(Random("9/4"), "kernel") for _ in range(2))
    assert one == other
    assert one.source.count("def kernel(") + one.source.count("def signed_kernel(") == 1


def a_kernel(*lines: str) -> RandomKernel:
    draft = Draft(Random(1), lanes=8, rows=4)
    return RandomKernel(
        name="kernel",
        opening=opening(draft, "kernel"),
        blocks=tuple(f"    {line}\n" for line in lines),
        grid=(2, 1, 1),
        n32=40,
        n64=2**40,
        seed=3,
        in_arena=True,
        marks=frozenset(),
    )


def test_a_wrong_byte_is_a_disagreement(both_sides: Witness) -> None:
    # sanity check
    (compiled,) = both_sides.batch([a_kernel("tl.store(base + lanes, p.to(tl.int8))")])
    assert compiled.disagreement() is None
    left = compiled.expected["interpreter"]
    assert left is not None
    left[REGION_BYTES + 3] ^= 1
    assert "byte 3 of program 1 is 1, in the interpreter 0" in str(
        compiled.disagreement()
    )


@pytest.mark.slow
def test_a_batch_that_fails_here_leaves_no_answer_for_the_next(
    both_sides: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (side,) = both_sides.sides
    first, second = (draw_kernel(Random(seed), f"after_{seed}") for seed in (1, 2))
    monkeypatch.setattr(both_sides, "_compiled", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        both_sides.batch([first])
    path = both_sides.folder / "late.py"
    path.write_text(HEADER + second.source)
    side.start(path, [second])
    assert side.finish().keys() == {second.name}


def test_the_interpreter_misreads_values_of_atomics_that_run_backwards(
    both_sides: Witness,
) -> None:
    """Triton's interpreter reads past lanes that NumPy holds back to front, until 3.9.

    Why random kernels hand atomics a new array.
    """
    scan = "tl.associative_scan(lanes, 0, both, reverse=True)"
    store = f"tl.atomic_xchg(base.to(tl.pointer_type(tl.int32)) + lanes, {scan}%s)"
    plain, copied = (
        both_sides.batch([a_kernel(store % end)])[0] for end in ("", " + 0")
    )
    assert copied.disagreement() is None
    left = copied.expected["interpreter"]
    assert left is not None
    assert left[:32].view(np.int32).tolist() == [0, 0, 0, 0, 4, 4, 6, 7]
    is_mended = TRITON_VERSION.startswith("3.9")
    assert (plain.disagreement() is None) == is_mended


@pytest.mark.slow
def test_random_kernels_compile_to_machine_code_as_a_gpu_gets_them() -> None:
    """What a GPU's process does, up to the launch: it leaves the bytes as they were."""
    kernel = draw_kernel(Random("9/4"))
    assert "false-promise" not in kernel.marks
    with witness("dry") as made:
        (compiled,) = made.batch([kernel])
    left = compiled.expected["dry"]
    assert left is not None, compiled.reasons
    assert (left == bytes_before()).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_random_kernels_leave_the_bytes_that_a_gpu_leaves() -> None:
    campaign = Campaign()
    with witness("gpu") as made:
        for batch in batches(made, seed=7, count=SEEDED):
            for compiled in batch:
                campaign.add(compiled)
    assert [text for _, text in campaign.disagreements] == []
    assert campaign.compared["gpu"] + campaign.marks["false-promise"] == SEEDED


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("os._exit(3)", "its process ended with code 3"),
        ("int('x')", r"InterpreterError: ValueError\(.*invalid literal.*"),
    ],
)
def test_a_kernel_that_fails_leaves_a_reason_and_the_others_their_bytes(
    fault: str, reason: str, tmp_path: Path
) -> None:
    # sanity check
    before = tmp_path / "before.npy"
    np.save(before, bytes_before())
    good = a_kernel("tl.store(base + lanes, p.to(tl.int8))")
    bad = replace(good, name="bad", opening=good.opening.replace("kernel(", "bad("))
    module = tmp_path / "both.py"
    failing = bad.source.replace("    p = ", f"    {fault}\n    p = ")
    module.write_text(f"import os\n{HEADER}{good.source}{failing}")
    side = Side("interpreter", tmp_path, before)
    side.start(module, [bad, good])
    assert list(side.finish()) == ["kernel"]
    assert side.reasons.keys() == {"bad"}
    assert re.fullmatch(reason, side.reasons["bad"])
    side.start(module, [good])
    assert list(side.finish()) == ["kernel"]
    assert side.reasons == {}
    side.close()


@pytest.mark.slow
def test_a_side_without_its_gpu_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a GPU's process does when anything fails: it says why, and ends."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    np.save(tmp_path / "before.npy", bytes_before())
    kernel = a_kernel("tl.store(base + lanes, p.to(tl.int8))")
    module = tmp_path / "one.py"
    module.write_text(HEADER + kernel.source)
    side = Side("gpu", tmp_path, tmp_path / "before.npy")
    side.start(module, [kernel])
    assert side.finish() == {}
    side.close()
    assert re.match(r"\w+Error: .*(CUDA|NVIDIA)", side.reasons["kernel"])


def test_a_reason_names_the_pass_of_the_compiler_that_failed(tmp_path: Path) -> None:
    np.save(tmp_path / "before.npy", bytes_before())
    side = Side("interpreter", tmp_path, tmp_path / "before.npy")
    said = "note: Pipeline failed while executing [`Some%s` on 'builtin.module']\n"
    (tmp_path / "interpreter.log").write_text(
        f"one: ValueError: 1\n{said % 'Pass'}two: RuntimeError: 2\nthree: OSError: 3\n"
    )
    assert side._complaints(["one", "two", "three", "four"]) == {
        "one": "ValueError: 1",
        "two": "RuntimeError: 2 in SomePass",
        "three": "OSError: 3",
    }
    side.close()


def test_an_exception_is_told_by_its_first_and_last_line() -> None:
    assert (
        in_one_line(ValueError("\n at 3:\n code\n no\n")) == "ValueError: at 3: ... no"
    )
    assert in_one_line(ValueError("no")) == "ValueError: no"
    assert in_one_line(ValueError()) == "ValueError: no text"


@pytest.mark.slow
def test_a_side_that_failed_is_a_disagreement_with_its_reason(
    both_sides: Witness,
) -> None:
    # sanity check
    (compiled,) = both_sides.batch([a_kernel("tl.store(base + lanes, p.to(tl.int8))")])
    compiled.expected["interpreter"] = None
    compiled.reasons["interpreter"] = "OSError: no"
    campaign = Campaign()
    campaign.add(compiled)
    assert [text for _, text in campaign.disagreements] == [
        "the interpreter failed: OSError: no"
    ]
    assert not campaign.compared
    assert not campaign.refused


@pytest.mark.slow
def test_triton_3_6_cannot_compile_a_store_in_a_loop_that_it_knows_never_turns() -> (
    None
):
    """Its pass asks for what it has not found out of code that it knows is dead."""
    kernel = a_kernel(
        "left = z - z",
        "while left > 0:",
        "    tl.store(base + lanes, 0)",
        "    left = left - 1",
    )
    with witness("dry") as made:
        (compiled,) = made.batch([kernel])
    campaign = Campaign()
    campaign.add(compiled)
    if TRITON_VERSION.startswith("3.6."):
        assert compiled.refusals == {"dry"}
        assert campaign.refused == {"dry": 1}
        assert not campaign.compared
    else:
        assert campaign.compared == {"dry": 1}
    assert campaign.disagreements == []


def test_stores_of_a_program_come_behind_a_barrier() -> None:
    """Two stores without one may change places, unless one thread makes both.

    The interpreter and the footprint keep the order of the text, ptxas need not. Loads
    and stores to memory that a program changes keep it by the same barriers.
    """
    for number in range(300):
        lines = draw_kernel(Random(f"2/{number}")).source.splitlines()
        for before, line in itertools.pairwise(lines):
            is_own = "tl.store(" in line or "= tl.load((base" in line
            is_promise = "tl.store(base.to(" in line  # never runs on a GPU
            assert not is_own or is_promise or "tl.debug_barrier()" in before, line


def end_or_answer(made: Witness, piece: str) -> str:
    """Do what a piece of work says; at the top level, for another process."""
    assert made.sides
    if piece == "end":
        os._exit(3)
    if piece == "fail":
        raise ValueError(piece)
    if piece == "hang":
        threading.Event().wait()
    return piece


@pytest.mark.slow
def test_a_crew_outlives_pieces_that_end_fail_or_hang() -> None:
    # sanity check
    crew = Crew(end_or_answer, workers=1)
    answers = dict(crew.answers(deque(["end", "fail", "well"])))
    assert answers == {
        "end": Lost("its process ended with code 3"),
        "fail": Lost("ValueError: fail"),
        "well": "well",
    }
    late = Crew(end_or_answer, workers=1, deadline_s=0.5)
    assert list(late.answers(deque(["hang"]))) == [
        ("hang", Lost("no end within 0.5 s")),
    ]


class LossyCrew(Crew[tuple[int, range], Campaign]):
    """A crew that loses whatever holds one kernel."""

    def answers(
        self, pieces: deque[tuple[int, range]]
    ) -> Iterator[tuple[tuple[int, range], Campaign | Lost]]:
        while pieces:
            seed, numbers = pieces.popleft()
            is_lost = 30 in numbers
            yield (
                (seed, numbers),
                Lost("gone") if is_lost else Campaign(kernels=len(numbers)),
            )


def test_a_kernel_that_cannot_be_compared_is_named_and_counted() -> None:
    # sanity check
    campaign = run(4, 60, LossyCrew(end_or_answer, 1))  # type: ignore[arg-type]  # never asked
    assert campaign.kernels == 60
    assert [(k.name, why) for k, why in campaign.disagreements] == [
        ("kernel_30", "gone")
    ]
    assert campaign.exit_code == 1


def test_a_campaign_fails_by_a_missed_share_once_it_is_large() -> None:
    # sanity check
    assert Campaign(kernels=ENOUGH - 1).exit_code == 0
    assert Campaign(kernels=ENOUGH).exit_code == 1
    assert not NEVER_DRAWN.keys() & set(Campaign(kernels=1).rare())
    assert sum(map(len, in_batches(130))) == 130
