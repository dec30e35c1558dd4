import re
from xml.etree.ElementTree import tostring

from hypothesis import given
from hypothesis import strategies as st

from kvzero.report.html.elements import document_text, el, table


@given(st.text(), st.text())
def test_el_escapes_texts_and_attributes(text: str, value: str) -> None:
    made = tostring(el("p", text, el("b", text), text, title=value), "unicode")
    assert re.fullmatch(r'<p title="[^"<]*">[^<]*(<b>[^<]*</b>|<b />)[^<]*</p>', made)


def test_el_names_attributes_as_html_does() -> None:
    made = el("p", class_="a", aria_label="b", viewBox="0", width=1.50, id=None)
    assert made.attrib == {
        "class": "a",
        "aria-label": "b",
        "viewBox": "0",
        "width": "1.5",
    }


def test_el_keeps_children_in_order() -> None:
    made = el("p", "a", None, ["b", el("i", "c")], "d")
    assert tostring(made, "unicode") == "<p>ab<i>c</i>d</p>"


def test_document_text_closes_what_html_closes() -> None:
    text = document_text(el("html", el("meta", charset="utf-8"), el("div")))
    assert text == '<!doctype html>\n<html><meta charset="utf-8"><div></div></html>\n'


def test_table_names_its_columns_for_every_cell() -> None:
    made = tostring(table(("a", "n#"), [("x", "1")], stacks=True), "unicode")
    assert 'scope="col" class="number" role="columnheader">n</th>' in made
    assert '<th scope="row" role="rowheader">x</th>' in made
    assert '<td class="number" role="cell" data-label="n">1</td>' in made
