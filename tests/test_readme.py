"""The README's examples, run."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kvzero.cli.app import app
from kvzero.triton_internals import dry_driver

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EXAMPLES: list[str] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
COMMANDS = re.findall(r"^kvzero (\w+)", SHELL, re.MULTILINE)


def example(with_text: str) -> str:
    (found,) = (text for text in EXAMPLES if with_text in text)
    return found


def test_the_zeroer_example_zeroes_its_blocks() -> None:
    code = compile(example("KVBlockZeroer"), "README.md", "exec")
    if torch.cuda.is_available():
        names: dict[str, list[torch.Tensor]] = {}
        exec(code, names)
        left = [tensor.flatten(1).any(1).nonzero().flatten() for tensor in names["kv"]]
        assert all(len(blocks) == 64 - 3 for blocks in left)
        return
    launches: list[object] = []
    on_cpu = example("KVBlockZeroer").replace('device="cuda"', 'device="cpu"')
    with dry_driver("cuda:90", launches.append):
        exec(compile(on_cpu, "README.md", "exec"), {})
    assert len(launches) == 2  # the warm-up and the call


def test_the_example_of_a_test_of_ones_own_passes() -> None:
    names: dict[str, Callable[[], None]] = {}
    exec(compile(example("assert_zeroes"), "README.md", "exec"), names)
    names["test_zeroes"]()


@pytest.mark.slow
def test_ones_own_zeroer_goes_under_test_in_ten_lines(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(example("# mine.py"), encoding="utf-8")
    command = [sys.executable, "-m", "kvzero", "fuzz", "--subject", "mine:ZEROER"]
    arguments = ["--executor", "host", "--max-examples", "40", "--seed", "1"]
    done = subprocess.run(
        [*command, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "judged by   host (interpreter)" in done.stdout


def test_the_readme_names_every_verb() -> None:
    names = [command.callback for command in app.registered_commands]
    verbs = {name.__name__ for name in names if name is not None}
    assert set(COMMANDS) == verbs
