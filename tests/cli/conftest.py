"""Runs the command line in this process."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvzero.cli.app import run


class Outcome(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # Any: a JSON document
        return json.loads(self.out)


Kvzero = Callable[..., Outcome]


@pytest.fixture
def kvzero(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> Kvzero:
    """Return what runs the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Outcome:
        monkeypatch.setattr("sys.argv", ["kvzero", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as exit_info:
            run()
        code = exit_info.value.code
        return Outcome(code if isinstance(code, int) else 0, *capsys.readouterr())

    return call
