"""What is mutated, and what must notice: five groups of modules, each with its killers.

The rule of the killers: a test counts only if Hypothesis drives it (``@given``), its
``@example`` rows included, and only the files named here are asked; the rest is
fuzzing, as `kvzero fuzz` and `kvzero faults` do it, without the shrinking. Named
examples, golden texts and saved cases kill nothing. The order is by what a kill costs:
a mutant is tried until the first of them notices.
"""

from dataclasses import dataclass
from pathlib import Path

TREE = ("kvzero", "strategies", "tests")
"""Folders that a copy of the tree holds, besides `pyproject.toml`."""


@dataclass(frozen=True)
class Fuzzing:
    """One run of fuzzing a correct subject: no failure, and nothing left unjudged.

    Attributes:
        subject: Name of the subject.
        cases: Cases that are drawn.
        seed: Everything random follows from it.
        strict_cost: A cost is a failure, too.
    """

    subject: str = "kvzero"
    cases: int = 40
    seed: int = 1
    strict_cost: bool = False


@dataclass(frozen=True)
class Faults:
    """Fuzzing of fault subjects: each must be caught by the violation it declares.

    Attributes:
        but: Faults that are left out, besides those that need a GPU.
        seed: Everything random follows from it.
    """

    but: tuple[str, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class PropertyTests:
    """The tests of some files that Hypothesis drives.

    Attributes:
        files: Below ``tests``.
        examples: Cases of each test, where it names no number of its own.
    """

    files: tuple[str, ...]
    examples: int = 100


Killer = Fuzzing | Faults | PropertyTests


@dataclass(frozen=True)
class Group:
    """Modules that are mutated together.

    Attributes:
        name: What the totals call it.
        modules: Files, or folders of them.
        is_sampled: Whether a seeded sample stands for all its mutants.
        killers: What must notice, the cheapest kill first.
    """

    name: str
    modules: tuple[str, ...]
    is_sampled: bool
    killers: tuple[Killer, ...]

    def files(self, root: Path) -> list[Path]:
        """Return the files of the group, relative to the root of the tree."""
        found: list[Path] = []
        for module in self.modules:
            path = root / module
            found += sorted(path.glob("*.py")) if path.is_dir() else [path]
        return [path.relative_to(root) for path in found]


OTHERS = tuple(
    Fuzzing(subject, cases=25)
    for subject in ("slot-rows", "index-fill", "torch-loop", "view-table")
)
"""Correct zeroers of other kinds: a harness that blames them is wrong."""

BEYOND_LIMITS = (
    "axis-misread",
    "flat-grid-beyond-hip",
    "flat-grid-beyond-int32",
    "product-skipped",
)
"""Faults that take hundreds of cases to find. They show in no byte but in a launch, or
in bytes as others do."""

GROUPS = (
    Group(
        "kernel",
        ("kvzero/zeroer/kernels.py",),
        is_sampled=False,
        killers=(
            Fuzzing(cases=40),
            PropertyTests(("zeroer/test_kernel_steps.py",), examples=300),
            PropertyTests(("zeroer/test_small_tables.py",)),
            Fuzzing(cases=300, seed=2),
        ),
    ),
    Group(
        "planner",
        (
            "kvzero/zeroer/chunks.py",
            "kvzero/zeroer/plan.py",
            "kvzero/pages.py",
            "kvzero/views.py",
        ),
        is_sampled=False,
        killers=(
            PropertyTests(
                (
                    "zeroer/test_table_numbers.py",
                    "zeroer/test_chunks.py",
                    "zeroer/test_plan.py",
                    "test_live_views.py",
                    "test_view_numbers.py",
                    "test_views.py",
                    "test_view_limits.py",
                ),
                examples=40,
            ),
            Fuzzing(cases=100, strict_cost=True),
            PropertyTests(
                (
                    "zeroer/test_table_numbers.py",
                    "zeroer/test_chunks.py",
                    "zeroer/test_plan.py",
                    "test_live_views.py",
                    "test_view_numbers.py",
                    "test_views.py",
                    "test_view_limits.py",
                    "test_plain_views.py",
                    "test_layout.py",
                    "properties/test_pages_cover_their_views.py",
                ),
                examples=400,
            ),
            Fuzzing(cases=300, seed=2, strict_cost=True),
        ),
    ),
    Group(
        "oracle",
        ("kvzero/oracle.py",),
        is_sampled=True,
        killers=(
            PropertyTests(("test_oracle.py",)),
            Fuzzing(cases=100),
            *OTHERS,
            Faults(but=BEYOND_LIMITS),
        ),
    ),
    Group(
        "evaluator",
        ("kvzero/executors/footprint",),
        is_sampled=True,
        killers=(
            Fuzzing(cases=40),
            PropertyTests(
                (
                    "executors/footprint/test_arithmetic.py",
                    "executors/footprint/test_lanes.py",
                    "executors/footprint/test_memory.py",
                    "executors/footprint/test_torch_writes.py",
                    "executors/footprint/test_executor.py",
                )
            ),
            PropertyTests(
                (
                    "executors/footprint/test_affine_drawn.py",
                    "executors/footprint/test_elementwise_drawn.py",
                    "executors/footprint/test_values_drawn.py",
                    "executors/footprint/test_shapes_drawn.py",
                    "executors/footprint/test_floats_drawn.py",
                    "executors/footprint/test_combining_drawn.py",
                    "executors/footprint/test_parse_drawn.py",
                    "executors/footprint/test_control_drawn.py",
                    "executors/footprint/test_evaluate_drawn.py",
                    "executors/footprint/test_frame_drawn.py",
                    "executors/footprint/test_promises_exact_drawn.py",
                )
            ),
            PropertyTests(
                (
                    "executors/footprint/test_stores_drawn.py",
                    "executors/footprint/test_loads_drawn.py",
                    "executors/footprint/test_promises_drawn.py",
                    "executors/footprint/test_atomics_drawn.py",
                    "executors/footprint/test_atomic_histories_drawn.py",
                    "executors/footprint/test_torch_drawn.py",
                    "executors/footprint/test_facts_drawn.py",
                    "executors/footprint/test_bytes_drawn.py",
                    "executors/footprint/test_launch_memory_drawn.py",
                    "executors/footprint/test_results_drawn.py",
                    "executors/footprint/test_pointers_drawn.py",
                    "executors/footprint/test_executor_drawn.py",
                    "executors/footprint/test_session_drawn.py",
                    "executors/footprint/test_watch_drawn.py",
                    "executors/footprint/test_locations_drawn.py",
                )
            ),
            *OTHERS,
            Faults(but=BEYOND_LIMITS),
            PropertyTests(("executors/footprint/test_depth.py",)),
            PropertyTests(("executors/footprint/test_random_kernels.py",)),
        ),
    ),
    Group(
        "properties",
        ("kvzero/properties",),
        is_sampled=True,
        killers=(
            PropertyTests(
                (
                    "properties/test_locations.py",
                    "properties/test_pages_cover_their_views.py",
                    "properties/test_launches.py",
                    "properties/test_contracts.py",
                    "properties/test_judging.py",
                    "properties/test_words.py",
                    "properties/test_covering.py",
                ),
                examples=300,
            ),
            Fuzzing(cases=60, strict_cost=True),
            *OTHERS,
            Faults(),
        ),
    ),
)


def group_named(name: str) -> Group:
    """Return the group of a name.

    Raises:
        ValueError: There is none; the known ones are listed.
    """
    for group in GROUPS:
        if group.name == name:
            return group
    known = ", ".join(group.name for group in GROUPS)
    raise ValueError(f"group={name!r}, but must be one of {known}")
