"""The examples of docs/subjects.md, run."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from kvzero.campaign.checking import Check
from kvzero.campaign.known import FIELDS, read_known_file
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import write_case_file
from kvzero.layout import Allocation, Layout, Run
from kvzero.subjects.protocol import Contract
from kvzero.subjects.registry import find_subject

PAGE = (Path(__file__).parent.parent / "docs" / "subjects.md").read_text("utf-8")
EXAMPLES = dict(re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE, re.DOTALL))
KNOWN = re.findall(r"```toml\n(# known\.toml.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("module", "executor"),
    [
        pytest.param("my_kernel", "footprint", marks=pytest.mark.slow),
        pytest.param("my_op", "host", marks=pytest.mark.slow),
        ("my_function", "footprint"),
        ("my_engine", "footprint"),
    ],
)
def test_example_passes_the_whole_test(
    module: str, executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{module}.py").write_text(EXAMPLES[module], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    # Given as it is, it runs in this process, which saves starting another one.
    subject = find_subject(f"{module}:ZEROER")
    Check(max_examples=8, seed=3, executor=executor, regressions=tmp_path)(subject)


def test_every_field_of_a_contract_is_documented_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    named = {field.name: str(field.default) for field in fields(Contract)}
    assert set(named) <= set(rows)
    plain = {k: v for k, v in named.items() if not v.startswith("(")}
    assert {name: rows[name] for name in plain} == plain


def test_known_example_is_a_file_of_known_findings(tmp_path: Path) -> None:
    (text,) = KNOWN
    (tmp_path / "known.toml").write_text(text, encoding="utf-8")
    (case,) = re.findall(r'^case = "(.*)"', text, re.MULTILINE)
    layout = Layout(1, (Allocation(8),), (Run(8, 8),))
    write_case_file(tmp_path / case, Case(layout, (Call((IdRun(0),)),)))
    (known,) = read_known_file(tmp_path / "known.toml")
    assert known.what == "cuda-y"
    assert all(f"{name} = " in text for name in FIELDS)
