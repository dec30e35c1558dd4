"""HTML as a tree of elements, never as pieces of text.

Python's own serializer writes the tree, so tags are balanced and everything is escaped
by construction: there is no place where a string could become markup. A template engine
would escape text, but not balance the geometry of pictures, and be a dependency.
"""

from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element, tostring

from kvzero.report.visible import visible

Child = Element | str | None
Children = Child | Iterable[Child]


def el(name: str, /, *children: Children, **attributes: str | float | None) -> Element:
    """Return an element.

    Args:
        name: Its tag.
        children: Elements and texts, in order; None stands for nothing.
        attributes: Its attributes: ``class_`` is ``class``, other underscores are
            hyphens; None leaves one out.
    """
    made = Element(name)
    for key, value in attributes.items():
        if value is not None:
            attribute = key.removesuffix("_").replace("_", "-")
            made.set(attribute, visible(_number_text(value)))
    for child in children:
        if child is None or isinstance(child, (str, Element)):
            _append(made, child)
        else:
            for each in child:
                _append(made, each)
    return made


def _number_text(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def breakable(name: str) -> list[Child]:
    """Return a long name that may go on in the next line after an underscore."""
    first, *others = name.split("_")
    parts: list[Child] = [first]
    for other in others:
        parts += ["_", el("wbr"), other]
    return parts


def _append(parent: Element, child: Child) -> None:
    if isinstance(child, Element):
        parent.append(child)
    elif child:
        text = visible(child)
        if len(parent):
            parent[-1].tail = (parent[-1].tail or "") + text
        else:
            parent.text = (parent.text or "") + text


def document_text(root: Element) -> str:
    """Return a whole HTML document."""
    return "<!doctype html>\n" + tostring(root, "unicode", method="html") + "\n"


def heading(level: int, text: str, anchor: str | None = None) -> Element:
    """Return a heading."""
    return el(f"h{level}", text, id=anchor)


def table(
    columns: Iterable[str], rows: Iterable[Iterable[Children]], *, stacks: bool = False
) -> Element:
    """Return a table that scrolls by itself where it is too wide.

    Args:
        columns: Names of the columns; one that ends in ``#`` holds numbers.
        rows: Cells, the first of each the name of its row.
        stacks: On a phone its cells stand under each other, each with its column's
            name: for tables of many columns, or of long texts.
    """
    columns = list(columns)
    names = [name.removesuffix("#") for name in columns]
    kinds = ["number" if name.endswith("#") else None for name in columns]
    head = [
        el("th", name, scope="col", class_=kind, role="columnheader")
        for name, kind in zip(names, kinds)
    ]
    body = [el("tr", _cells(names, kinds, row), role="row") for row in rows]
    whole = el(
        "table",
        el("thead", el("tr", head, role="row"), role="rowgroup"),
        el("tbody", body, role="rowgroup"),
        class_="stacks" if stacks else None,
        role="table",
    )
    return scrolled(whole, f"Table: {names[0]}")


def _cells(
    names: Sequence[str], kinds: Sequence[str | None], row: Iterable[Children]
) -> Iterator[Element]:
    """Yield the cells of a row; roles outlive a style that stacks them."""
    for at, (name, kind, cell) in enumerate(zip(names, kinds, row)):
        if at:
            yield el("td", cell, class_=kind, role="cell", data_label=name)
        else:
            yield el("th", cell, class_=kind, scope="row", role="rowheader")


def scrolled(content: Element, name: str) -> Element:
    """Return what may be wider than the page, in a part that scrolls, by keys too."""
    return el(
        "div", content, class_="scroll", role="group", aria_label=name, tabindex="0"
    )


def terms(pairs: Iterable[tuple[str, Children]]) -> Element:
    """Return names and their values as a list of definitions."""
    items = [el("div", el("dt", name), el("dd", value)) for name, value in pairs]
    return el("dl", items)


def command(text: str) -> Element:
    """Return a command that one click selects as a whole."""
    return el("pre", el("code", text), class_="command")
