"""Definitions of several kvzero modules as one script, without their imports.

Beginning with a few names, every definition that they use is taken along, with what it
uses in turn, and nothing else, not even a method that nothing calls: a zeroer arrives
with its kernel and its tables, not with the harness. A definition is copied as it is
written, comments included. Where two modules use one name for different things, the
later one is renamed.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from kvzero.errors import SubjectError
from kvzero.report.source_modules import (
    Name,
    SourceModule,
    first_line,
    inner_imports,
    source_module,
    unused_members,
    walk,
)

PROTOCOL = frozenset({"zero", "warmup"})
"""Methods that a script calls of a zeroer, whatever else it does."""
SHORT = (ast.Assign, ast.AnnAssign)


class Flat(NamedTuple):
    """A script's parts.

    Attributes:
        imports: Import statements of other packages, sorted.
        code: The definitions, a comment before those of each module.
        names: What each wanted name is called in the code.
        attributes: Names behind a dot in the code.
    """

    imports: tuple[str, ...]
    code: str
    names: Mapping[Name, str]
    attributes: frozenset[str]


def flatten(
    wanted: list[Name],
    stand_ins: Mapping[Name, Name],
    called: frozenset[str] = PROTOCOL,
) -> Flat:
    """Return the definitions of some names, and all that they need.

    Args:
        wanted: Names of kvzero's own modules; what comes first is shown first.
        stand_ins: Names to take instead of others.
        called: Methods to keep, whoever calls them.

    Raises:
        SubjectError: Something is used that cannot be copied.
    """
    taken = _Taken(stand_ins, called)
    while taken.attributes != (seen := taken.attributes_used()) or not taken.names:
        taken = _Taken(stand_ins, seen)
        for name in wanted:
            taken.take(name)
    modules = taken.modules_in_order(wanted)
    titles = _called(taken, modules)
    code = "\n\n\n".join(_module_code(name, taken, titles) for name in modules)
    names = {name: titles[taken.home(name)] for name in wanted}
    return Flat(tuple(sorted(taken.imports)), code, names, taken.attributes)


@dataclass
class _Taken:
    """What has been taken along.

    Attributes:
        stand_ins: Names to take instead of others.
        attributes: Names behind a dot in the script; other methods are left out.
        names: The definitions.
        imports: The import statements that they need.
    """

    stand_ins: Mapping[Name, Name]
    attributes: frozenset[str]
    names: dict[Name, None] = field(default_factory=dict)
    imports: dict[str, None] = field(default_factory=dict)

    def take(self, name: Name) -> None:
        """Take a definition and what it uses."""
        name = self.home(name)
        if name in self.names:
            return
        self.names[name] = None
        module, node = self.definition(name)
        for used in self._used(module, node):
            if isinstance(used, Name):
                self.take(used)
            else:
                self.imports[used] = None

    def home(self, name: Name) -> Name:
        """Return where a name is defined, or what stands in for it."""
        while True:
            imported = source_module(name.module).own_imports.get(name.name)
            following = self.stand_ins.get(name) or imported
            if following is None:
                return name
            name = following

    def definition(self, name: Name) -> tuple[SourceModule, ast.stmt]:
        """Return the module and the statement that define a name."""
        module = source_module(name.module)
        if name.name not in module.definitions:
            raise SubjectError(
                f"{name.module}.{name.name}, but must be a function, class or constant "
                f"of that module to be exported"
            )
        return module, module.definitions[name.name]

    def unused(self, node: ast.stmt) -> set[ast.stmt]:
        """Return the members of a definition that are left out."""
        return unused_members(node, self.attributes)

    def attributes_used(self) -> frozenset[str]:
        """Return the names behind a dot in all that has been taken."""
        nodes = {self.definition(name)[1]: None for name in self.names}
        inner = (each for node in nodes for each in walk(node, self.unused(node)))
        found = {each.attr for each in inner if isinstance(each, ast.Attribute)}
        return self.attributes | found

    def modules_in_order(self, wanted: list[Name]) -> list[str]:
        """Return the modules of all definitions, each after those that it imports."""
        order: dict[str, None] = {}
        pending = list(reversed([self.home(name).module for name in wanted]))
        opened: set[str] = set()
        while pending:
            name = pending[-1]
            imported = source_module(name).own_imports.values()
            needed = {self.stand_ins.get(n, n).module for n in imported}
            missing = sorted(needed - opened) if name not in opened else []
            opened.add(name)
            if missing:
                pending += reversed(missing)
            else:
                order[pending.pop()] = None
        holding = {name.module for name in self.names}
        return [name for name in order if name in holding]

    def _used(self, module: SourceModule, node: ast.stmt) -> Iterator[Name | str]:
        """Yield the top-level names and import statements that a definition uses."""
        unused = self.unused(node)
        own = module.own_names(node, unused)
        for each in walk(node, unused):
            if not isinstance(each, ast.Name):
                continue
            if each.id in own:
                yield own[each.id]
            elif each.id in module.other_imports:
                yield module.other_imports[each.id]


def _called(taken: _Taken, modules: list[str]) -> dict[Name, str]:
    """Return what each definition is called in the script."""
    called: dict[Name, str] = {}
    used: set[str] = set()
    for module in modules:
        for name in taken.names:
            if name.module == module:
                short = name.name
                if short in used:
                    short = f"{module.rpartition('.')[2]}_{short.lstrip('_')}"
                called[name] = short
                used.add(short)
    return called


def _module_code(module_name: str, taken: _Taken, called: Mapping[Name, str]) -> str:
    """Return the definitions of one module, in the order of its source."""
    here = [name for name in taken.names if name.module == module_name]
    nodes = {taken.definition(name)[1]: None for name in here}
    module = source_module(module_name)
    code = f"# ---- from {PurePath(*module_name.split('.'))}.py ----\n"
    before: ast.stmt | None = None
    for node in sorted(nodes, key=first_line):
        code += _empty_lines(before, node) + _text(module, node, taken, called) + "\n"
        before = node
    return code.removesuffix("\n")


def _empty_lines(before: ast.stmt | None, node: ast.stmt) -> str:
    """Return the empty lines between two definitions."""
    if before is None:
        return "\n"
    both_short = isinstance(before, SHORT) and isinstance(node, SHORT)
    return "" if both_short else "\n\n"


def _text(
    module: SourceModule, node: ast.stmt, taken: _Taken, called: Mapping[Name, str]
) -> str:
    """Return a definition with its decorators and its docstring."""
    last = module.docstrings.get(node, node).end_lineno or node.lineno
    lines = list(module.lines)
    for row, column, old, new in _renamings(module, node, taken, called):
        lines[row] = lines[row][:column] + new + lines[row][column + len(old) :]
    unused = taken.unused(node)
    dropped: set[int] = set()
    for gone in (*inner_imports(node, unused), *unused):
        dropped.update(range(first_line(gone), (gone.end_lineno or gone.lineno) + 1))
        if gone in unused:  # with the empty line before it
            dropped.add(first_line(gone) - 1)
    kept = (n for n in range(first_line(node), last + 1) if n not in dropped)
    return "\n".join(lines[n - 1] for n in kept)


def _renamings(
    module: SourceModule, node: ast.stmt, taken: _Taken, called: Mapping[Name, str]
) -> list[tuple[int, int, str, str]]:
    """Return (row, column, old, new) of the names to replace, the last ones first."""
    unused = taken.unused(node)
    own = module.own_names(node, unused)
    found = []
    for each in walk(node, unused):
        at, short = _name_at(each, node)
        if short in own:
            new = called.get(taken.home(own[short]), short)
            if new != short:
                found.append((each.lineno - 1, at, short, new))  # type: ignore[attr-defined]  # names have lines
    return sorted(found, reverse=True)


def _name_at(each: ast.AST, node: ast.stmt) -> tuple[int, str]:
    """Return the column and the text of a name, or an empty text."""
    if isinstance(each, ast.Name):
        return each.col_offset, each.id
    if each is node and isinstance(node, ast.FunctionDef):
        return node.col_offset + len("def "), node.name
    if each is node and isinstance(node, ast.ClassDef):
        return node.col_offset + len("class "), node.name
    return 0, ""
