"""The table of docs/verdicts.md, held against what the executors judge."""

import re
from pathlib import Path

import pytest
import torch

from kvzero.campaign.judging import Judge
from kvzero.case import Call, Case, id_runs
from kvzero.executors import executor_named
from kvzero.layout import Layout
from kvzero.properties.registry import PROPERTIES
from kvzero.properties.verdict import NotJudged
from kvzero.subjects.registry import find_subject
from tests.executors.on_gpu import NEEDS_GPU

PAGE = (Path(__file__).parent.parent / "docs" / "verdicts.md").read_text("utf-8")
ROW = re.compile(
    r"^\| `(\w+)`(?: \(cost\))? \| .+ \| (yes|-) \| (yes|-) \| (yes|-) \|$",
    re.MULTILINE,
)
COLUMNS = ("footprint", "host", "device")
ROWS: list[tuple[str, ...]] = ROW.findall(PAGE)


def case_with_views() -> Case:
    """Return a case on which kvzero's zeroer is judged by every property."""
    kv = torch.empty(4, 2, 16, dtype=torch.float16)
    calls = (
        Call(id_runs([1, 2])),
        Call(id_runs([3]), "device", "int64"),
        Call(id_runs([1, 4])),
    )
    return Case(Layout.from_tensors([kv], block_dim=0), calls)


def test_the_table_has_each_property_in_the_order_of_a_verdict() -> None:
    assert [name for name, *_ in ROWS] == list(PROPERTIES)


@pytest.mark.parametrize(
    "executor",
    [
        pytest.param("footprint", marks=pytest.mark.slow),
        pytest.param("host", marks=pytest.mark.slow),
        pytest.param("device", marks=NEEDS_GPU),
    ],
)
def test_an_executor_judges_what_the_table_says(executor: str) -> None:
    column = 1 + COLUMNS.index(executor)
    told = {row[0] for row in ROWS if row[column] == "yes"}
    judged = Judge(find_subject("kvzero"), executor_named(executor))(case_with_views())
    assert judged.violations == ()
    seen = {r.property for r in judged.results if not isinstance(r, NotJudged)}
    assert seen == told
