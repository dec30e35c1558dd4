"""The cap on Triton's interpreter; the class that walks a grid stands in for itself."""

from typing import Any

import pytest
from triton.runtime import interpreter

from kvzero.executors.interpreter import capped_interpreter
from kvzero.executors.real_memory import NotJudgedError


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


def test_launches_within_the_cap_are_walked(walked: list[Any]) -> None:
    with capped_interpreter(20):
        executor((2, 3))()
        executor(lambda meta: (4, 1, 2, *meta))()
    assert walked == [(2, 3), (4, 1, 2)]


@pytest.mark.parametrize("grid", [(3, 7), lambda meta: (3, 7, *meta)])
def test_a_launch_beyond_the_cap_ends_the_case(walked: list[Any], grid: Any) -> None:
    with (
        capped_interpreter(20),
        pytest.raises(NotJudgedError, match="more than 20 programs"),
    ):
        executor(grid)()
    assert not walked


def test_the_cap_counts_all_launches_of_a_case(walked: list[Any]) -> None:
    with capped_interpreter(20):
        executor((15,))()
        with pytest.raises(NotJudgedError):
            executor((6,))()
    assert walked == [(15,)]


def test_the_interpreter_is_as_it_was_after_a_case() -> None:
    original = interpreter.GridExecutor.__call__
    with capped_interpreter(20):
        assert interpreter.GridExecutor.__call__ is not original
    assert interpreter.GridExecutor.__call__ is original
