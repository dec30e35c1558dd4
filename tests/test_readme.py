"""The README's examples, run."""

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from kvzero.campaign.checking import Check
from kvzero.campaign.tally import EXIT_FAULT
from kvzero.cli.app import run
from kvzero.subjects.registry import find_subject
from kvzero.triton_internals import dry_driver
from tests import told_commands

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES: list[str] = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
TOLD = [*told_commands.commands(told_commands.fenced_lines(README))]
LONGEST_LINES = 200


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
def test_ones_own_zeroer_goes_under_test_in_ten_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.py").write_text(example("# mine.py"), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    # Given as it is, it runs in this process; few cases, none with many segments.
    subject = find_subject("mine:ZEROER")
    Check(max_examples=6, seed=0, executor="footprint", regressions=tmp_path)(subject)
    assert not [*tmp_path.rglob("*.json")]
    asked: dict[str, object] = {}
    names: dict[str, Callable[..., None]] = {}
    exec(compile(example("# test_mine.py"), "README.md", "exec"), names)
    names["test_mine"](lambda subject, **options: asked.update(options, of=subject))
    assert asked.pop("of") == "mine:ZEROER"
    assert set(asked) <= {field.name for field in fields(Check)}


@pytest.mark.slow
def test_the_failure_that_is_explained_is_what_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (told,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    (command,) = (
        words
        for words in TOLD
        if words[1:2] == ["replay"] and words[2].endswith(".json")
    )
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("sys.argv", [*command, "--executor", "footprint"])
    with pytest.raises(SystemExit) as exit_info:
        run()
    assert exit_info.value.code == EXIT_FAULT
    printed = capsys.readouterr().out
    for line in told.splitlines():
        label = line.split()[0]
        # Versions are those of the day; of the command, the file is what matters.
        shown = line if label not in ("ran", "replay") else label
        assert shown in printed


def test_the_readme_names_every_verb() -> None:
    verbs = {words[1] for words in TOLD if words[0] == "kvzero"}
    assert verbs == told_commands.verbs()


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= LONGEST_LINES
