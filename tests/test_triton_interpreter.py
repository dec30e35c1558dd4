"""Triton's interpreter seen and mended; what walks a grid stands in for itself."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import triton.language as tl
from triton.runtime import interpreter

from kvzero.errors import EnvironmentMissingError
from kvzero.triton_internals.interpreter import interpreted_launches, mend_interpreter


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the grids that were walked, without interpreting a program."""
    grids: list[Any] = []

    def walk(self: Any) -> None:
        grids.append(self.grid({}) if callable(self.grid) else self.grid)

    monkeypatch.setattr(interpreter.GridExecutor, "__call__", walk)
    return grids


def executor(grid: Any) -> Any:
    made = interpreter.GridExecutor.__new__(interpreter.GridExecutor)
    made.grid = grid
    return made


class Scalar:
    """A scalar of the interpreter's, as far as it stands for a loop's bound."""

    def __init__(self, value: int) -> None:
        self.handle = SimpleNamespace(data=np.array([value]))


class Scope:
    """Sets attributes, as Triton's own patching does."""

    set_attr = staticmethod(setattr)


def triton_36(tensor: Any, scope: Any) -> None:
    """Patch as Triton 3.6 does, under a NumPy that makes no int of an array."""

    def refused(_self: Any) -> int:
        raise TypeError("only 0-dimensional arrays can be converted")

    scope.set_attr(tensor, "__index__", refused)


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1"])
def test_a_scalar_bounds_a_loop_where_the_interpreter_is_old(
    monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    builder = interpreter.InterpreterBuilder
    monkeypatch.setattr(builder, "create_splat", builder.create_splat)
    monkeypatch.setattr(interpreter, "_patch_lang_tensor", triton_36)
    monkeypatch.setattr("kvzero.triton_internals.interpreter.TRITON_VERSION", version)
    mend_interpreter.__wrapped__()
    interpreter._patch_lang_tensor(Scalar, Scope)
    if version == "3.6.0":
        assert list(range(Scalar(3))) == [0, 1, 2]  # type: ignore[call-overload]  # set above
    else:
        assert interpreter._patch_lang_tensor is triton_36


def test_a_comparison_of_scalars_is_spread_as_a_mask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = interpreter.InterpreterBuilder
    monkeypatch.setattr(builder, "create_splat", builder.create_splat)
    mend_interpreter.__wrapped__()
    # As the interpreter has it: the outcome of comparing two int64 is of int64.
    compared = interpreter.TensorHandle(np.array([True]), tl.int64)
    spread = builder().create_splat(tl.block_type(tl.int1, [4]), compared)
    assert (spread.data.dtype, spread.data.tolist()) == (np.bool_, [True] * 4)
    numbers = interpreter.TensorHandle(np.array([7]), tl.int64)
    assert (
        builder().create_splat(tl.block_type(tl.int64, [2]), numbers).data.sum() == 14
    )


def test_launches_are_handed_over_before_they_are_walked(walked: list[Any]) -> None:
    seen: list[Any] = []
    with interpreted_launches(lambda grid: seen.append((grid, len(walked)))):
        executor((2, 3))()
        executor(lambda meta: (4, 1, 2, *meta))()
    assert seen == [((2, 3), 0), ((4, 1, 2), 1)]
    assert walked == [(2, 3), (4, 1, 2)]


@pytest.mark.parametrize("grid", [(3, 7), lambda meta: (3, 7, *meta)])
def test_a_launch_that_is_refused_is_not_made(walked: list[Any], grid: Any) -> None:
    def refuse(grid: tuple[int, ...]) -> None:
        raise ZeroDivisionError(grid)

    with (
        interpreted_launches(refuse),
        pytest.raises(ZeroDivisionError, match=r"3, 7"),
    ):
        executor(grid)()
    assert not walked


def test_the_interpreter_is_as_it_was_afterwards() -> None:
    original = interpreter.GridExecutor.__call__
    with interpreted_launches(lambda _grid: None):
        assert interpreter.GridExecutor.__call__ is not original
    assert interpreter.GridExecutor.__call__ is original


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("GridExecutor", "3.7.1"),
        ("InterpreterBuilder", "3.7.1"),
        ("_patch_lang_tensor", "3.6.0"),
    ],
)
def test_an_interpreter_that_has_moved_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str
) -> None:
    builder = interpreter.InterpreterBuilder
    monkeypatch.setattr(builder, "create_splat", builder.create_splat)
    monkeypatch.setattr("kvzero.triton_internals.interpreter.TRITON_VERSION", version)
    monkeypatch.delattr(interpreter, name)

    def use() -> None:
        mend_interpreter.__wrapped__()
        with interpreted_launches(lambda _grid: None):
            pass

    said = rf"needs triton\.runtime\.interpreter\.{name}, "
    with pytest.raises(EnvironmentMissingError, match=said):
        use()
