"""The page is valid, self-contained and safe, whatever it has to tell."""

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from hypothesis import given, settings

from kvzero.report.facts import KillMatrix, KillRow, Report
from kvzero.report.html.page import html_page, verdict_text
from tests.report.example_reports import (
    HOSTILE,
    LARGE,
    SMALL,
    coverage_example,
    finding_of,
    report_of,
    reports,
    run_of,
)

VOID = frozenset({"meta", "link", "br", "img", "input", "hr", "col", "wbr"})
_TAGS = """
html head meta title style body header main nav footer section article h1 h2 h3 h4 p
ul ol li a span code pre dl div dt dd table thead tbody tr th td figure figcaption
details summary svg desc defs pattern path circle rect line text polyline
wbr
"""
TAGS = frozenset(_TAGS.split())
"""Every element that a report is made of."""


class Checked(HTMLParser):
    """A document as a browser would read it, refused where it is not balanced."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(attrs) == len(dict(attrs)), (tag, attrs)
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert tag not in VOID
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1] if self.open else "", data))

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data}")

    def all(self, *names: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag in names]

    def text(self) -> str:
        return "".join(data for tag, data in self.texts if tag != "style")


def read(report: Report) -> Checked:
    return Checked(html_page(report))


@settings(max_examples=25)
@given(reports())
def test_html_page_is_balanced_and_made_of_known_elements_alone(report: Report) -> None:
    page = read(report)
    assert {tag for tag, _ in page.tags} <= TAGS
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "style" not in names  # the policy would drop them


@settings(max_examples=15)
@given(reports())
def test_html_page_asks_for_nothing(report: Report) -> None:
    page = read(report)
    assert not {"src", "srcset", "data", "action", "background"} & {
        name for _, attributes in page.tags for name in attributes
    }
    links = [value for each in page.tags if (value := each[1].get("href"))]
    ids = {value for each in page.tags if (value := each[1].get("id"))}
    assert all(link[0] == "#" and link[1:] in ids for link in links)
    styles = "".join(data for tag, data in page.texts if tag == "style")
    assert "url(" not in styles
    assert "@import" not in styles


@settings(max_examples=15)
@given(reports())
def test_html_page_names_each_part_once_and_points_to_what_is_there(
    report: Report,
) -> None:
    page = read(report)
    ids = [value for each in page.tags if (value := each[1].get("id"))]
    assert len(ids) == len(set(ids))
    told = [a.get("aria-labelledby") for _, a in page.tags]
    assert {name for each in told if each for name in each.split()} <= set(ids)
    fills = [fill for _, a in page.tags if (fill := a.get("fill"))]
    patterns = {fill[5:-1] for fill in fills if fill.startswith("url(")}
    assert patterns <= set(ids)


@settings(max_examples=15)
@given(reports())
def test_html_page_shows_no_character_that_hides_or_reorders(report: Report) -> None:
    text = html_page(report)
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e]", text
    )
    assert not re.search("[\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]", text)


@pytest.mark.parametrize("text", HOSTILE)
def test_html_page_shows_hostile_text_as_text(text: str) -> None:
    page = read(report_of(run_of(text, findings=(finding_of(SMALL, text),))))
    assert not page.all("script", "img", "b")
    if text.isprintable():
        assert text in page.text()


@settings(max_examples=15)
@given(reports())
def test_html_page_has_headings_in_steps_and_words_for_each_picture(
    report: Report,
) -> None:
    page = read(report)
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for picture in page.all("svg"):
        is_named = picture.get("role") == "img" and picture.get("aria-labelledby")
        assert is_named or picture.get("aria-hidden") == "true"


def test_html_page_is_made_of_one_policy_that_allows_its_style_alone() -> None:
    page = read(report_of(run_of()))
    policy = next(a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-[\w+/=]+'; base-uri 'none'; "
        r"form-action 'none'",
        policy,
    )


def test_html_page_tells_where_a_finding_is_and_how_to_run_it_again() -> None:
    text = read(report_of(run_of(findings=(finding_of(SMALL, "odd"),)))).text()
    assert "kvzero replay odd" in text
    assert "listed_pages_are_zero, odd; seen in 3 cases; at odd" in text
    assert "bytes 8 to 15 of allocation 0" in text
    assert "block 0 in segment 1, bytes 0 to 7" in text
    assert "program (1, 0, 2) at odd" in text
    assert "d075" in text  # what two bytes hold, a cell each
    assert "rejected: cuda-y" in text


def test_html_page_draws_a_case_once_for_all_its_violations() -> None:
    first, again = finding_of(SMALL), finding_of(SMALL)
    second = finding_of(SMALL, "other")
    text = read(report_of(run_of(findings=(first, again, second)))).text()
    assert text.count("The same case as that of finding 1") == 1
    assert text.count("The case in words") == 2


def test_html_page_says_what_was_not_judged_and_why() -> None:
    text = read(report_of(run_of())).text()
    assert "no launch" in text
    nothing = run_of(judged={}, exit_code=5, verdict="nothing judged")
    assert "Nothing was judged" in read(report_of(nothing)).text()


def test_html_page_of_a_large_pool_shows_where_in_it_bytes_are_wrong() -> None:
    text = read(report_of(run_of(findings=(finding_of(LARGE),)))).text()
    assert "allocation 0, whole: 17,179,869,184 B (16 GiB)" in text
    assert "around the first bytes missed in call 1; 1 column = 1 B" in text
    assert "Marked are the first stretches: 100 more bytes are wrong" in text


def test_html_page_shows_coverage_where_it_was_counted() -> None:
    text = read(report_of(run_of(coverage=coverage_example()))).text()
    assert "2 of 3 features met, and 1 of 3 pairs" in text
    assert "Feature coverage" not in read(report_of(run_of())).text()


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ((run_of(),), "no fault found; 0 findings"),
        ((run_of(), run_of()), "none of 2 subjects with a fault"),
        ((run_of(), run_of(exit_code=1)), "1 of 2 subjects with a fault"),
        (
            (run_of(exit_code=1), run_of(exit_code=5)),
            "1 of 2 subjects with a fault, 1 not judged",
        ),
    ],
)
def test_verdict_text_says_what_came_of_it(
    runs: tuple[object, ...], words: str
) -> None:
    assert verdict_text(report_of(*runs)) == words  # type: ignore[arg-type]  # runs


def kill_row(fault: str, *, is_killed: bool | None) -> KillRow:
    breaks = "listed_pages_are_zero: listed-byte-not-zero"
    cases = 0 if is_killed is None else 9
    return KillRow(fault, "ids", "k", breaks, "v", is_killed, cases, 0.5, 1, 2)


def test_the_kill_matrix_begins_with_what_survived() -> None:
    kills = {"dead": True, "unseen": None, "survivor": False}
    rows = tuple(kill_row(name, is_killed=kill) for name, kill in kills.items())
    report = report_of(matrix=KillMatrix(rows, (0,), 1.0))
    assert verdict_text(report) == "1 of 2 faults survived"
    page = read(report)
    names = [text for tag, text in page.texts if tag == "th" and text in kills]
    assert names == ["survivor", "dead", "unseen"]
    assert [text for tag, text in page.texts if tag == "td" and text == "0"] == []


def test_the_list_of_findings_names_subjects_where_there_are_several() -> None:
    two = (finding_of(SMALL, "odd"), finding_of(LARGE, "even"))
    broken = run_of("mine", exit_code=1, findings=two)
    alone = {text for tag, text in read(report_of(broken)).texts if tag == "a"}
    both = {text for tag, text in read(report_of(broken, run_of())).texts if tag == "a"}
    assert "listed_pages_are_zero: odd" in alone
    assert "mine: listed_pages_are_zero: odd" in both
