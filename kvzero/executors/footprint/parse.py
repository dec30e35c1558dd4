"""From the text of TTIR to `ir.Module`.

MLIR prints one operation a line, opens a region at the end of a line and closes it at
the begin of one; values are the only words with a percent sign and types follow the
last colon. That is enough to read any operation without a table of them, so an unknown
one costs nothing until a program runs it.
"""

import re

from kvzero.executors.footprint.ir import Block, Function, Module, Op, Region, Type
from kvzero.executors.footprint.locations import UNKNOWN_PLACE, Locations
from kvzero.executors.footprint.text import (
    VALUE,
    closing,
    parse_attributes,
    parse_type,
    parse_types,
    split_top,
    take_braces,
)

_RESULTS = re.compile(r"(%[\w.$-]+)(?::(\d+))?(?:,\s*|\s*=\s+)")
_NAME = re.compile(r'"?([\w.$]+)"?')
_WORD = re.compile(r"(?<![%@^\w.$#])[A-Za-z_][\w.]*")
_BLOCK_LABEL = re.compile(r"(\^[\w.$-]+)(.*):\s*(?://.*)?$")
_SUCCESSOR = re.compile(r"(\^[\w.$-]+)(\(?)")
_SYMBOL = re.compile(r'@"?([\w.$<>, -]+?)"?\(')
_FOR = re.compile(r"(%[\w.$-]+) = (\S+) to (\S+) step (\S+)")
_PAIR = re.compile(r"(%[\w.$-]+) = (%[\w.$-]+(?:#\d+)?)")


def parse_module(text: str) -> Module:
    """Return the functions of a module's text."""
    return _Parser(text).module()


class _Parser:
    """A cursor over the lines of a module."""

    def __init__(self, text: str) -> None:
        self._locations = Locations(text)
        self._lines = [line.strip() for line in text.splitlines() if line.strip()]
        self._at = 0
        self._slots: dict[str, int] = {}
        self._function = Function("", "")

    def module(self) -> Module:
        """Return the whole module."""
        module = Module()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if line.startswith("tt.func") and line.endswith("{"):
                function = self._parse_function(line)
                module.functions[function.name] = function
                if " public " in line or not module.kernel:
                    module.kernel = function.name
        return module

    def _parse_function(self, line: str) -> Function:
        self._function = function = Function("", UNKNOWN_PLACE)
        self._slots = {}
        symbol = _SYMBOL.search(line)
        if symbol:
            function.name = symbol[1]
            opening = symbol.end() - 1
            arguments = line[opening + 1 : closing(line, opening)]
            for argument in split_top(arguments):
                name, _, rest = argument.partition(":")
                bare, braces = take_braces(_without_location(rest)[0])
                function.arguments.append(self._define(name.strip(), parse_type(bare)))
                function.argument_attributes.append(parse_attributes(braces))
        function.body, end = self._parse_region()
        function.place = self._place(end)
        return function

    def _define(self, name: str, kind: Type, op: Op | None = None) -> int:
        slot = len(self._function.types)
        self._function.types.append(kind)
        self._function.definitions.append(op)
        self._slots[name] = slot
        return slot

    def _place(self, line: str) -> str:
        return self._locations.place(_without_location(line)[1])

    def _parse_region(self) -> tuple[Region, str]:
        """Return a region and the line that closes it, with the cursor behind it."""
        region = Region([Block("")])
        while True:
            line = self._lines[self._at]
            self._at += 1
            if line.startswith("}"):
                return region, line
            if line.startswith("^"):
                self._start_block(region, line)
            else:
                region.blocks[-1].ops.append(self._parse_op(line))

    def _start_block(self, region: Region, line: str) -> None:
        label = _BLOCK_LABEL.match(line)
        if label is None:
            return
        block = region.blocks[-1]
        if block.ops:  # it has ended: none is without an operation
            block = Block("")
            region.blocks.append(block)
        block.label = label[1]
        for argument in split_top(label[2].strip()[1:-1]):
            name, _, kind = argument.partition(":")
            bare = _without_location(kind)[0]
            block.arguments.append(self._define(name.strip(), parse_type(bare)))

    def _parse_op(self, line: str) -> Op:
        names, rest = _result_names(line)
        match = _NAME.match(rest)
        op = Op(match[1] if match else rest)
        rest = rest[match.end() :] if match else ""
        if line.endswith("{"):
            rest = self._parse_regions(op, rest)
        else:
            rest, location = _without_location(rest)
            op.place = self._locations.place(location)
            self._read(op, rest)
        self._define_results(op, names)
        return op

    def _parse_regions(self, op: Op, header: str) -> str:
        header = header.removesuffix("{").removesuffix("(").rstrip()
        block_arguments = self._read_header(op, header)
        while True:
            # What a loop carries is visible in its body; scf prints the names once.
            first = Block("", [self._define(n, t) for n, t in block_arguments])
            region, end = self._parse_region()
            if first.arguments:
                region.blocks[0].arguments = first.arguments
            op.regions.append(region)
            block_arguments = []
            if not end.endswith("{"):
                break
        tail, location = _without_location(end)
        op.place = self._locations.place(location)
        tail, braces = take_braces(tail.lstrip("})"))
        op.attributes.update(parse_attributes(braces))
        if " : " in f" {tail.strip()}":
            self._read_types(op, tail.partition(":")[2])
        return header

    def _read_header(self, op: Op, header: str) -> list[tuple[str, Type]]:
        """Read operands and types of an op with regions; return what it carries."""
        if op.name == "scf.for":
            return self._read_for(op, header)
        if op.name == "scf.while":
            pairs = _PAIR.findall(header)
            op.operands = [self._slots[value] for _, value in pairs]
            self._read_types(op, header.partition(" : ")[2])
            return [(name, kind) for (name, _), kind in zip(pairs, op.types)]
        header, braces = take_braces(header)
        op.attributes.update(parse_attributes(braces))
        op.operands = [self._slots[name] for name in VALUE.findall(header)]
        if "->" in header:
            op.result_types = parse_types(header.partition("->")[2])
        return []

    def _read_for(self, op: Op, header: str) -> list[tuple[str, Type]]:
        loop = _FOR.search(header)
        if loop is None:
            return []
        op.attributes["unsigned"] = header.strip().startswith("unsigned")
        induction, *bounds = loop.groups()
        pairs = _PAIR.findall(header[loop.end() :])
        names = [*bounds, *(value for _, value in pairs)]
        op.operands = [self._slots[name] for name in names]
        if "->" in header:
            carried = split_top(header.partition("->")[2], " : ")[0]
            op.result_types = parse_types(carried)
        kind = self._function.types[op.operands[0]]
        carries = [(n, t) for (n, _), t in zip(pairs, op.result_types)]
        return [(induction, kind), *carries]

    def _read(self, op: Op, rest: str) -> None:
        if op.name == "arith.constant":
            self._read_constant(op, rest)
            return
        rest, braces = take_braces(rest)
        op.attributes.update(parse_attributes(braces))
        if op.name in ("cf.br", "cf.cond_br"):
            self._read_branch(op, rest)
            return
        head, *types = split_top(f" {rest}", " : ") or [""]
        op.operands = [self._slots[name] for name in VALUE.findall(head)]
        op.attributes["words"] = _WORD.findall(head)
        symbol = _SYMBOL.search(head)
        if symbol:
            op.attributes["callee"] = symbol[1]
        if types:
            self._read_types(op, types[-1])

    def _read_constant(self, op: Op, rest: str) -> None:
        rest, braces = take_braces(rest)
        op.attributes.update(parse_attributes(braces))
        value, *types = split_top(rest, " : ")
        op.attributes["value"] = value.strip()
        op.result_types = [parse_type(types[-1]) if types else Type("i1", 1)]

    def _read_branch(self, op: Op, rest: str) -> None:
        begin = rest.find("^")
        condition = VALUE.findall(rest[:begin])
        op.operands = [self._slots[name] for name in condition]
        for match in _SUCCESSOR.finditer(rest):
            passed: list[int] = []
            if match[2]:
                inside = rest[match.end() : closing(rest, match.end() - 1)]
                passed = [self._slots[name] for name in VALUE.findall(inside)]
            op.successors.append((match[1], passed))

    def _read_types(self, op: Op, text: str) -> None:
        for arrow in ("->", " to "):
            before, found, after = text.partition(arrow)
            if found:
                op.types = parse_types(before)
                op.result_types = parse_types(after)
                return
        op.types = parse_types(text)
        op.result_types = _implied_results(op)

    def _define_results(self, op: Op, names: list[tuple[str, int]]) -> None:
        if op.name == "tt.split":  # its printed form names one type for both halves
            op.result_types = [*op.result_types, *op.result_types]
        kinds = iter(op.result_types)
        for name, count in names:
            for index in range(count):
                kind = next(kinds, Type("?", 0))
                slot = self._define(f"{name}#{index}", kind, op)
                if count == 1:
                    self._slots[name] = slot
                op.results.append(slot)


def _without_location(text: str) -> tuple[str, str]:
    """Split text from the inside of the ``loc(...)`` at its end."""
    at = text.rfind(" loc(")
    if at < 0 or not text.endswith(")"):
        return text, ""
    return text[:at], text[at + len(" loc(") : -1]


def _result_names(line: str) -> tuple[list[tuple[str, int]], str]:
    """Return the names and counts of results, and the rest of the line."""
    names: list[tuple[str, int]] = []
    at = 0
    while line.startswith("%", at):
        match = _RESULTS.match(line, at)
        if match is None:
            break
        names.append((match[1], int(match[2] or 1)))
        at = match.end()
    return names, line[at:]


def _implied_results(op: Op) -> list[Type]:
    """Return the result types of an op whose printed form leaves them out."""
    if not op.types:
        return []
    first, last = op.types[0], op.types[-1]
    if op.name in ("arith.cmpi", "arith.cmpf"):
        return [Type("i1", 1, first.shape)]
    if op.name == "arith.select":
        return [last]
    if op.name == "tt.load":
        return [(first.pointee or Type("?", 0)).with_shape(first.shape)]
    return [first]
