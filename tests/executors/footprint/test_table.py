"""The table in the documentation is what the code says."""

from pathlib import Path

from kvzero.executors.footprint.table import table

DOCUMENT = Path(__file__).parents[3] / "docs" / "evaluator.md"


def test_document_of_the_evaluator_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == table(), (
        "run python -m kvzero.executors.footprint.table > docs/evaluator.md"
    )


def test_every_operation_of_the_table_says_what_it_is() -> None:
    rows = [line for line in table().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert all(line.split(" | ")[1].strip() for line in rows)
