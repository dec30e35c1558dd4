"""A module of kvzero as source: what each top-level name is, and where it is from."""

import ast
import inspect
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import NamedTuple

PACKAGE = "kvzero"
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
_PLAIN_BASES = ("NamedTuple", "Protocol")


class Name(NamedTuple):
    """A name at the top level of a module."""

    module: str
    name: str


@dataclass(frozen=True)
class SourceModule:
    """A module's source, by its top-level names.

    Attributes:
        name: The module's name.
        lines: Its source.
        definitions: Statement that defines each name.
        docstrings: The text that follows a definition.
        own_imports: Names imported from kvzero's modules, and where they are from.
        other_imports: The import statement of each other imported name.
    """

    name: str
    lines: list[str]
    definitions: dict[str, ast.stmt] = field(default_factory=dict)
    docstrings: dict[ast.stmt, ast.stmt] = field(default_factory=dict)
    own_imports: dict[str, Name] = field(default_factory=dict)
    other_imports: dict[str, str] = field(default_factory=dict)

    def own_names(self, node: ast.stmt, unused: Set[ast.stmt]) -> dict[str, Name]:
        """Return the names of kvzero that a definition sees, its inner imports too."""
        names = {name: Name(self.name, name) for name in self.definitions}
        names.update(self.own_imports)
        for inner in inner_imports(node, unused):
            names.update(_own_names(inner))
        return names


@cache
def source_module(name: str) -> SourceModule:
    """Return the source of a module of kvzero."""
    source = inspect.getsource(import_module(name))
    module = SourceModule(name, source.splitlines())
    previous: ast.stmt | None = None
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and _is_own(node):
            module.own_imports.update(_own_names(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module.other_imports.update(_other_imports(node))
        elif isinstance(node, _DEFINITIONS):
            module.definitions.update(dict.fromkeys(_names_of(node), node))
        elif previous is not None and _is_text(node):
            module.docstrings[previous] = node
        previous = node
    return module


def walk(node: ast.AST, unused: Set[ast.stmt]) -> Iterator[ast.AST]:
    """Yield a definition's nodes, but none of its unused members."""
    yield node
    for child in ast.iter_child_nodes(node):
        if child not in unused:
            yield from walk(child, unused)


def unused_members(node: ast.stmt, attributes: Set[str]) -> set[ast.stmt]:
    """Return the methods of a class that nothing can call.

    Args:
        node: A definition.
        attributes: Names that stand behind a dot somewhere in the script.
    """
    if not isinstance(node, ast.ClassDef) or not _is_plain(node):
        return set()
    return {
        member
        for member in node.body
        if isinstance(member, ast.FunctionDef)
        and not member.name.startswith("__")
        and member.name not in attributes
    }


def first_line(node: ast.stmt) -> int:
    """Return the line where a definition begins, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def inner_imports(node: ast.stmt, unused: Set[ast.stmt]) -> list[ast.ImportFrom]:
    """Return the imports of kvzero's modules inside a definition."""
    inner = (each for each in walk(node, unused) if isinstance(each, ast.ImportFrom))
    return [each for each in inner if _is_own(each)]


def _is_plain(node: ast.ClassDef) -> bool:
    """Return whether no one outside kvzero calls methods of such a class by name."""
    bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
    known = all(base in _PLAIN_BASES or base[0].isupper() for base in bases)
    return len(bases) == len(node.bases) and known


def _is_own(node: ast.ImportFrom) -> bool:
    return (node.module or "").partition(".")[0] == PACKAGE


def _own_names(node: ast.ImportFrom) -> dict[str, Name]:
    return {a.asname or a.name: Name(node.module or "", a.name) for a in node.names}


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _other_imports(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    found = {}
    for alias in node.names:
        renamed = f" as {alias.asname}" if alias.asname else ""
        statement = f"import {alias.name}{renamed}"
        if isinstance(node, ast.ImportFrom):
            statement = f"from {node.module} {statement}"
        found[alias.asname or alias.name.partition(".")[0]] = statement
    return found


def _names_of(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    inner = (each for target in targets for each in ast.walk(target))
    return [each.id for each in inner if isinstance(each, ast.Name)]
