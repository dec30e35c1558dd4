"""Which mutants are no mutants: places and changes that are no behaviour, by rule.

cosmic-ray lists every operator and number of a file. Some lie where only type checkers
or readers look, some are no Python, and some change nothing. They are counted, by rule,
and not run. A mutant that no rule names is run, whatever one thinks of it.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Position = tuple[int, int]
"""Line, from 1, and column, from 0."""


@dataclass(frozen=True)
class Place:
    """A stretch of a file whose mutants are no behaviour.

    Attributes:
        rule: Why not.
        begin: Where it begins.
        end: Where it ends.
    """

    rule: str
    begin: Position
    end: Position

    def holds(self, begin: Position, end: Position) -> bool:
        """Return whether the place holds a stretch."""
        return self.begin <= begin and end <= self.end


def places(source: str) -> tuple[Place, ...]:
    """Return the places of a file whose mutants are no behaviour.

    Args:
        source: Text of the file.
    """
    tree = ast.parse(source)
    return tuple(
        Place(
            rule,
            (node.lineno, node.col_offset),
            (node.end_lineno or 0, node.end_col_offset or 0),
        )
        for rule, node in _nodes(tree)
    )


def _nodes(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        yield from (("annotation", each) for each in _annotations(node))
        if isinstance(node, ast.JoinedStr):
            yield "words", node
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from (("words", each) for each in node.exc.args)
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and _is_union(statement.value):
            yield "annotation", statement.value


def _annotations(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation is not None:
        yield node.annotation
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns:
        yield node.returns


def _is_union(value: ast.expr) -> bool:
    """Return whether a value is a union of types by its look: ``A | B[C] | None``."""
    if not isinstance(value, ast.BinOp):
        return isinstance(value, ast.Subscript) and isinstance(value.ctx, ast.Load)
    if not isinstance(value.op, ast.BitOr):
        return False
    sides = (value.left, value.right)
    return all(
        _is_union(side)
        or (isinstance(side, ast.Name) and not side.id.isupper())
        or (isinstance(side, ast.Constant) and side.value is None)
        for side in sides
    )


def rule_against(
    source: str,
    mutated: str,
    where: tuple[Place, ...],
    begin: Position,
    end: Position,
) -> str | None:
    """Return the rule by which a mutant is not run, or None.

    Args:
        source: Text of the file.
        mutated: Text of the mutant.
        where: What `places` said of the file.
        begin: Where the mutation begins.
        end: Where it ends.
    """
    for place in where:
        if place.holds(begin, end):
            return place.rule
    try:
        tree = ast.parse(mutated)
        compile(tree, "<mutant>", "exec")
    except (SyntaxError, ValueError):
        return "no Python"
    if ast.dump(tree) == ast.dump(ast.parse(source)):
        return "no change"
    return None
