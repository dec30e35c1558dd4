"""Pages hold: links lead somewhere, commands exist, and the index is complete."""

import re
from pathlib import Path

import pytest

from tests import told_commands

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    links = LINK.findall(page.read_text(encoding="utf-8"))
    inside = [link for link in links if not link.startswith("https://")]
    assert [link for link in inside if not (page.parent / link).exists()] == []


def test_every_page_is_in_the_index() -> None:
    linked = {(DOCS / link).resolve() for link in LINK.findall(INDEX.read_text())}
    pages = {page.resolve() for page in DOCS.glob("*.md")} - {INDEX.resolve()}
    assert pages - linked == set()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_tells_is_one(page: Path) -> None:
    lines = told_commands.fenced_lines(page.read_text(encoding="utf-8"))
    for words in told_commands.commands(lines):
        told_commands.check(words)


@pytest.mark.parametrize(
    "line",
    [
        "kvzero fuzz --max-tim 60s",
        "kvzero fuzz --max-examples few",
        "kvzero zero",
        "kvzero verify && kvzero replay regressions/ --executor gpu",
        "tox -e triton30",
        "tox -e fuzz -- --max-tim 60s",
    ],
)
def test_a_command_that_is_none_is_seen(line: str) -> None:  # sanity check
    *_, last = told_commands.commands([line])
    with pytest.raises(Exception, match=r"tim|integer|zero|gpu|triton30"):
        told_commands.check(last)
