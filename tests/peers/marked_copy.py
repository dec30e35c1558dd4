"""A copy of kvzero whose kernels take the pool's tensors as arguments that they ignore.

Peers know of no memory but that of a launch's arguments, and the kernels here get their
addresses from a table. So that each peer is at its best, every kernel of the copy has
parameters more, with a default, on the lines where they were.
"""

import ast
import shutil
from pathlib import Path
from typing import TypeGuard

MOST_TENSORS = 8
PARAMETERS = tuple(f"pool_{index}_ptr" for index in range(MOST_TENSORS))
FOLDERS = ("kvzero", "strategies")


def make_copy(root: Path, to: Path) -> None:
    """Copy the product, its kernels with the added parameters.

    Args:
        root: The tree.
        to: A folder, which is emptied.
    """
    shutil.rmtree(to, ignore_errors=True)
    for folder in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / folder, to / folder, symlinks=True, ignore=ignored)
    for file in (to / "kvzero").rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        if "triton.jit" in source:
            file.write_text(with_parameters(source), encoding="utf-8")


def with_parameters(source: str) -> str:
    """Return a module's text with the parameters added to each of its kernels.

    Args:
        source: The text.
    """
    lines = source.splitlines(keepends=True)
    kernels = [node for node in ast.walk(ast.parse(source)) if _is_kernel(node)]
    for kernel in sorted(kernels, key=lambda node: node.lineno, reverse=True):
        last = kernel.args.args[-1]
        row, column = last.end_lineno or 0, last.end_col_offset or 0
        line = lines[row - 1]
        added = "".join(f", {name}=None" for name in PARAMETERS)
        lines[row - 1] = f"{line[:column]}{added}{line[column:]}"
    return "".join(lines)


def _is_kernel(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    if not isinstance(node, ast.FunctionDef) or not node.args.args:
        return False
    return not node.args.defaults and any(
        "triton.jit" in ast.unparse(each) for each in node.decorator_list
    )
