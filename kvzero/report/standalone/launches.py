"""Launches on their way, and what each platform does with them.

Triton is patched here, which kvzero itself never does: a script has no driver of its
own, and needs no more than the grids.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any
from unittest import mock

from kvzero.limits import LaunchShape, launch_fate, wrapped_int32

MAKERS = {"cuda": "NVIDIA", "hip": "AMD"}


class NotRun(BaseException):
    """A launch that this machine does not make; no zeroer catches it by accident."""


@dataclass
class Launches:
    """The launches of the zeroer, noted before they are made."""

    most_programs: int | None
    seen: dict[tuple[str, LaunchShape], None] = field(default_factory=dict)
    programs: int = 0

    def note(
        self, kernel: Any, grid: Any, num_warps: int = 4, num_ctas: int = 1
    ) -> Any:
        """Note a launch; raise `NotRun` if it is too much for an interpreter."""
        if callable(grid):
            return lambda meta: self.note(kernel, grid(meta), num_warps, num_ctas)
        x, y, z = (*map(int, grid), 1, 1)[:3]
        shape = LaunchShape((x, y, z), num_warps, num_ctas)
        self.seen[str(getattr(kernel, "__name__", kernel)), shape] = None
        self.programs += prod(grid)
        if self.most_programs is not None and self.programs > self.most_programs:
            raise NotRun
        return grid

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Note all launches until the block ends, interpreted ones included."""
        from triton.compiler import CompiledKernel
        from triton.runtime.interpreter import GridExecutor
        from triton.runtime.jit import JITFunction

        run, item = JITFunction.run, CompiledKernel.__getitem__
        interpret = GridExecutor.__call__

        def note_run(kernel: Any, *args: Any, grid: Any, warmup: Any, **options: Any):  # type: ignore[no-untyped-def]  # Triton's own
            if not warmup:
                warps, ctas = options.get("num_warps", 4), options.get("num_ctas", 1)
                grid = self.note(kernel.fn, grid, warps, ctas)
            return run(kernel, *args, grid=grid, warmup=warmup, **options)

        def note_item(kernel: Any, grid: Any) -> Any:
            warps = kernel.metadata.num_warps
            return item(kernel, self.note(kernel.metadata.name, grid, warps))

        def note_interpreted(walker: Any, *args: Any, **options: Any) -> Any:
            walker.grid = self.note(walker.fn, walker.grid)
            return interpret(walker, *args, **options)

        with ExitStack() as stack:
            for owner, name, noting in (
                (JITFunction, "run", note_run),
                (CompiledKernel, "__getitem__", note_item),
                (GridExecutor, "__call__", note_interpreted),
            ):
                stack.enter_context(mock.patch.object(owner, name, noting))
            yield

    def beyond_limits(self) -> list[tuple[str, LaunchShape]]:
        """Return the launches that some platform does not run."""
        return [(k, s) for k, s in self.seen if makers_refusing(s)]


def makers_refusing(shape: LaunchShape) -> list[str]:
    """Return the makers of GPUs on which a launch does not run."""
    return [MAKERS[b] for b in MAKERS if launch_fate(shape, b)[0] != "runs"]


def launch_text(kernel: str, shape: LaunchShape) -> str:
    """Return a launch, its product, and what each platform does with it."""
    product, wrapped = shape.programs, wrapped_int32(shape.programs)
    lines = [
        f"launch {kernel}[{', '.join(map(str, shape.grid))}]: {product:,} programs, "
        f"{wrapped:,} as a signed 32-bit int"
    ]
    for backend, maker in MAKERS.items():
        fate, row = launch_fate(shape, backend)
        told = "skipped, with no error" if fate == "skipped" else fate
        rule = f"is {told}: it must hold that {row.rule}" if row else "runs"
        lines.append(f"  on {maker} it {rule}")
    return "\n".join(lines)
