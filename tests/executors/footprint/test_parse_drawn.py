"""TTIR that is printed from drawn pieces, and read back as the same pieces."""

from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvzero.executors.footprint.ir import FLOAT_BITS, Op, Type
from kvzero.executors.footprint.locations import UNKNOWN_PLACE, Locations
from kvzero.executors.footprint.parse import parse_module
from kvzero.executors.footprint.text import (
    closing,
    parse_attributes,
    parse_type,
    parse_types,
    split_top,
    take_braces,
)


class Printed(NamedTuple):
    """Text, and what it must be read as."""

    text: str
    meaning: Any  # a type, a value, a place


SCALARS = [
    *(
        Printed(f"{sign}i{bits}", Type(f"i{bits}", bits))
        for sign, bits in (("", 1), ("", 8), ("s", 16), ("u", 32), ("", 64))
    ),
    *(Printed(name, Type(name, bits)) for name, bits in FLOAT_BITS.items()),
    Printed("index", Type("i64", 64)),
]
UNKNOWN = [
    Printed(text, Type(text, 0))
    for text in (
        "!ttg.memdesc<4xf16, #shared, mutable>",
        "none",
        "!tt.tensordesc<8xi8>",
    )
]


@st.composite
def pointers(draw: st.DrawFn) -> Printed:
    """Pointers, in a memory space or not."""
    inner = draw(st.sampled_from(SCALARS))
    space = draw(st.sampled_from(("", ", 1", ", 3")))
    return Printed(f"!tt.ptr<{inner.text}{space}>", Type("ptr", 64, (), inner.meaning))


@st.composite
def tensors(draw: st.DrawFn) -> Printed:
    """Lanes of numbers or pointers, in one to three dimensions."""
    element = draw(st.sampled_from(SCALARS) | pointers())
    shape = tuple(draw(st.lists(st.integers(1, 4096), min_size=1, max_size=3)))
    sizes = "".join(f"{size}x" for size in shape)
    layout = draw(st.sampled_from(("", ", #blocked")))
    kind = element.meaning.with_shape(shape)
    return Printed(f"tensor<{sizes}{element.text}{layout}>", kind)


types = st.sampled_from(SCALARS) | pointers() | tensors() | st.sampled_from(UNKNOWN)
type_lists = st.lists(types, min_size=1, max_size=4)


def texts(printed: list[Printed]) -> str:
    return ", ".join(each.text for each in printed)


def meanings(printed: list[Printed]) -> list[Any]:
    return [each.meaning for each in printed]


@settings(max_examples=60)
@given(type_lists, st.sampled_from(("{}", "({})", " ({}) ")))
def test_types_are_read_as_they_were_printed(kinds: list[Printed], form: str) -> None:
    assert parse_types(form.format(texts(kinds))) == meanings(kinds)
    assert parse_type(f" {kinds[0].text} ") == kinds[0].meaning
    for each in kinds:
        held: Type = each.meaning
        assert held.bytes == {16: 2, 32: 4, 64: 8}.get(held.bits, 1)
        to = held.pointee.bits if held.pointee else 8
        assert held.pointee_bytes == {16: 2, 32: 4, 64: 8}.get(to, 1)
        assert held.lanes == int(np.prod(held.shape, dtype=np.int64))
        if held.bits:
            kind = np.bool_ if held.bits == 1 else f"int{held.bits}"
            assert held.dtype == np.dtype(kind)


WORDS = ("axis", "tt.divisibility", "operandSegmentSizes", "order", "callee")
QUOTED = ("", "a, b", "x = {y}", "<[(", "loc(", r"a \", (b")


@st.composite
def attribute_values(draw: st.DrawFn) -> Printed:
    """Values of attributes; shrink to a number."""
    number = draw(st.integers(-(2**63), 2**63 - 1))
    several = draw(st.lists(st.integers(-99, 99), max_size=4))
    listed = ", ".join(map(str, several))
    quoted = draw(st.sampled_from(QUOTED))
    forms = [
        Printed(f"{number} : i64", number),
        Printed(str(number), number),
        Printed(f"array<i32: {listed}>", several),
        Printed("array<i32>", []),
        Printed(f"dense<[{listed}]> : tensor<{len(several)}xi32>", several),
        Printed(f"dense<{number}> : tensor<1xi32>", [number]),
        Printed("true", meaning=True),
        Printed("false", meaning=False),
        Printed(f'"{quoted}"', quoted),
        Printed("#tt.kind<a, b>", "#tt.kind<a, b>"),
    ]
    chosen: Printed = draw(st.sampled_from(forms))
    return chosen


attribute_lists = st.dictionaries(
    st.sampled_from(WORDS), st.none() | attribute_values(), max_size=3
)


def printed_attributes(attributes: dict[str, Printed | None]) -> str:
    return ", ".join(
        name if value is None else f"{name} = {value.text}"
        for name, value in attributes.items()
    )


def read_attributes(attributes: dict[str, Printed | None]) -> dict[str, Any]:
    return {k: True if v is None else v.meaning for k, v in attributes.items()}


@settings(max_examples=60)
@given(attribute_lists)
def test_attributes_are_read_as_they_were_printed(
    attributes: dict[str, Printed | None],
) -> None:
    text = printed_attributes(attributes)
    assert parse_attributes(text) == read_attributes(attributes)
    head, inside = take_braces(f"%a, %b {{{text}}} : i32")
    assert (head.split(), inside) == (["%a,", "%b", ":", "i32"], text)
    head, inside = take_braces(f"(%a) <{{{text}}}> {{more}} : i32 -> f32")
    assert head.split() == ["(%a)", ":", "i32", "->", "f32"]
    assert inside == ", ".join(part for part in (text, "more") if part)


pieces = st.recursive(
    st.sampled_from(("a", "%b#1", '"x, (y"', r'"x\", [y"', "c -> d", "1")),
    lambda inner: st.tuples(
        st.sampled_from(("()", "[]", "{}", "<>")), st.lists(inner, max_size=3)
    ).map(lambda drawn: f"f{drawn[0][0]}{', '.join(drawn[1])}{drawn[0][1]}"),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.lists(pieces, max_size=5), st.sampled_from((",", " : ")))
def test_text_is_split_where_it_was_joined(parts: list[str], separator: str) -> None:
    assert split_top(separator.join(f" {part} " for part in parts), separator) == parts
    text = f"g({', '.join(parts)}) tail)"
    assert text[: closing(text, 1)] == text.removesuffix(") tail)")
    text = f"g({', '.join(parts)} tail"
    assert closing(text, 1) == len(text) - 1


LIBRARY = "/site/triton/language/standard.py"


class Alias(NamedTuple):
    """A location of its own line.

    Attributes:
        text: Inside of its ``loc(...)``.
        files: Files and lines that it leads to, the innermost first.
    """

    text: str
    files: tuple[tuple[str, int], ...]


@st.composite
def alias_lists(draw: st.DrawFn) -> list[Alias]:
    """Locations that name files, names of others, or calls; shrink to one file."""
    found: list[Alias] = []
    for _ in range(draw(st.integers(1, 5))):
        form = draw(st.sampled_from(("file", "named", "call") if found else ("file",)))
        if form == "file":
            path = draw(st.sampled_from(("/home/me/k.py", "/o/a b.py", LIBRARY)))
            line = draw(st.integers(1, 9999))
            found.append(Alias(f'"{path}":{line}:{line % 80}', ((path, line),)))
            continue
        at = draw(st.integers(0, len(found) - 1))
        if form == "named":
            found.append(Alias(f'"x"(#loc{at})', found[at].files))
            continue
        caller = draw(st.integers(0, len(found) - 1))
        files = (*found[at].files, *found[caller].files)
        found.append(Alias(f"callsite(#loc{at} at #loc{caller})", files))
    return found


def place_of(alias: Alias) -> str:
    ours = [each for each in alias.files if each[0] != LIBRARY] or alias.files
    path, line = ours[0]
    return f"{path.rpartition('/')[2]}:{line}"


def printed_aliases(aliases: list[Alias]) -> str:
    return "\n".join(f"#loc{i} = loc({a.text})" for i, a in enumerate(aliases))


@settings(max_examples=40)
@given(alias_lists())
def test_place_is_the_innermost_line_of_a_kernel(aliases: list[Alias]) -> None:
    locations = Locations(printed_aliases(aliases))
    for index, alias in enumerate(aliases):
        assert locations.place(f"#loc{index}") == place_of(alias)
        assert locations.place(alias.text) == place_of(alias)
    assert locations.place(f"#loc{len(aliases)}") == UNKNOWN_PLACE


@st.composite
def printed_ops(draw: st.DrawFn, names: list[str], place: str) -> tuple[str, Op]:
    """Operations in one of the forms that MLIR prints, with what they are."""
    index = len(names)
    kinds, results = draw(type_lists), draw(type_lists)
    operands = draw(st.lists(st.integers(0, index - 1), max_size=3))
    attributes = draw(attribute_lists)
    op = Op("tt.new_op", place, operands, [], meanings(kinds), meanings(results))
    op.attributes = read_attributes(attributes)
    braces = f" {{{printed_attributes(attributes)}}}" if attributes else ""
    used = ", ".join(names[slot] for slot in operands)
    form = draw(st.sampled_from(("arrow", "cast", "same", "none", "cmpi", "split")))
    if form == "arrow":
        kind = f"({texts(kinds)}) -> ({texts(results)})"
    elif form == "cast":
        kinds, results = kinds[:1], results[:1]
        kind = f"{kinds[0].text} to {results[0].text}"
    elif form == "split":
        op.name, results = "tt.split", [results[0], results[0]]
        kind = f"{texts(kinds)} -> {results[0].text}"
    elif form == "none":
        return f"{op.name} {used}{braces}", Op(
            op.name, place, operands, attributes=op.attributes
        )
    else:
        kind, results = kinds[0].text, kinds[:1]
        kinds = kinds[:1]
        if form == "cmpi":
            op.name, used = "arith.cmpi", f"ult, {used}"
            bit = Type("i1", 1, kinds[0].meaning.shape)
            results = [Printed("", bit)]
    op.types, op.result_types = meanings(kinds), meanings(results)
    op.results = list(range(index, index + len(results)))
    many = len(results) > 1 and form != "split"
    head = f"%v{index}:{len(results)}" if many else f"%v{index}"
    if form == "split":
        head = f"%v{index}, %w{index}"
        names += [f"%v{index}", f"%w{index}"]
    else:
        names += [
            f"%v{index}#{i}" if many else f"%v{index}" for i in range(len(results))
        ]
    return f"{head} = {op.name} {used}{braces} : {kind}", op


@settings(max_examples=50)
@given(data=st.data())
def test_operations_are_read_as_they_were_printed(data: st.DataObject) -> None:
    aliases = data.draw(alias_lists())
    arguments = data.draw(type_lists)
    promised = [data.draw(attribute_lists) for _ in arguments]
    names = [f"%a{i}" for i in range(len(arguments))]
    lines: list[str] = []
    expected: list[Op] = []
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(aliases) - 1))
        line, op = data.draw(printed_ops(names, place_of(aliases[at])))
        lines.append(f"{line} loc(#loc{at})")
        expected.append(op)
    passed = ", ".join(
        f'%a{i}: {kind.text} {{{printed_attributes(own)}}} loc("n"(#loc0))'
        for i, (kind, own) in enumerate(zip(arguments, promised))
    )
    text = "\n".join(
        [
            "module {",
            f"tt.func public @k({passed}) attributes {{noinline = false}} {{",
            *lines,
            "} loc(#loc0)",
            "} loc(#loc0)",
            printed_aliases(aliases),
        ]
    )
    module = parse_module(text)
    kernel = module.functions[module.kernel]
    assert (kernel.name, kernel.place) == ("k", place_of(aliases[0]))
    assert kernel.argument_attributes == [read_attributes(own) for own in promised]
    assert kernel.types[: len(arguments)] == meanings(arguments)
    (block,) = kernel.body.blocks
    for seen, wanted in zip(block.ops, expected, strict=True):
        words = seen.attributes.pop("words")
        assert words == (["ult"] if wanted.name == "arith.cmpi" else [])
        assert seen == wanted
        for slot, kind in zip(seen.results, seen.result_types, strict=True):
            assert kernel.types[slot] == kind
            assert kernel.definitions[slot] is seen


@settings(max_examples=60)
@given(data=st.data(), form=st.sampled_from(("if", "for", "while", "reduce")))
def test_results_of_regions_are_of_the_types_they_were_printed_with(
    data: st.DataObject, form: str
) -> None:
    kinds = data.draw(type_lists)
    made = kinds if form == "for" else data.draw(type_lists)
    line = data.draw(st.integers(1, 9999))
    many = f":{len(made)}" if len(made) > 1 else ""
    carried = ", ".join(f"%c{i} = %a{i}" for i in range(len(kinds)))
    bare = ", ".join(f"%a{i}" for i in range(len(kinds)))
    taken, listed = f"({texts(kinds)})", f"({texts(made)})"
    loc = f'loc("/home/me/k.py":{line}:0)'
    start, ends = {
        "if": (f"scf.if %n -> {listed} {{", ["} else {", f"}} {loc}"]),
        "for": (
            f"scf.for %i = %n to %n step %n iter_args({carried}) -> {listed}  : i32 {{",
            [f"}} {loc}"],
        ),
        "while": (
            f"scf.while ({carried}) : {taken} -> {listed} {{",
            ["} do {", f"}} {loc}"],
        ),
        "reduce": (
            f'"tt.reduce"({bare}) <{{axis = 1 : i32}}> ({{',
            [f"}}) : {taken} -> {listed} {loc}"],
        ),
    }[form]
    arguments = ", ".join(f"%a{i}: {kind.text}" for i, kind in enumerate(kinds))
    body = [part for end in ends for part in (f"tt.keep %n : i32 {loc}", end)]
    text = "\n".join(
        [
            f"tt.func private @other() attributes {{a}} {{\ntt.return {loc}\n}} {loc}",
            f"tt.func public @k({arguments}, %n: i32) {{",
            f"%r{many} = {start}",
            *body,
            f"tt.return %n : i32 {loc}",
            f"}} {loc}",
        ]
    )
    module = parse_module(text)
    kernel = module.functions["k"]
    assert (module.kernel, list(module.functions)) == ("k", ["other", "k"])
    op, last = kernel.body.blocks[0].ops
    count, place = len(kinds), f"k.py:{line}"
    number = kernel.arguments[count]
    assert (op.place, last.place, last.operands) == (place, place, [number])
    assert op.types == (meanings(kinds) if form in ("while", "reduce") else [])
    assert op.result_types == meanings(made)
    assert [kernel.types[slot] for slot in op.results] == meanings(made)
    assert kernel.readers(number) == [
        *([op] if form in ("if", "for") else []),
        *(inner for region in op.regions for inner in region.blocks[0].ops),
        last,
    ]
    passed = list(range(count))
    assert op.operands == {"if": [number], "for": [number] * 3 + passed}.get(
        form, passed
    )
    first = op.regions[0].blocks[0].arguments
    held = {"for": [kernel.types[number], *meanings(kinds)], "while": meanings(kinds)}
    assert [kernel.types[slot] for slot in first] == held.get(form, [])
    assert len(op.regions) == len(ends)
    if form == "reduce":
        assert op.attributes == {"axis": 1}


@settings(max_examples=40)
@given(data=st.data())
def test_blocks_and_branches_are_read_as_they_were_printed(data: st.DataObject) -> None:
    carried = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=4), "carried")
    labels = [f"^bb{at + 1}" for at in range(len(carried))]
    passes = dict(zip(labels, carried))
    lines, expected = [], []
    for at in range(len(carried) + 1):
        if at:
            own = ", ".join(
                f"%b{at}_{i}: i32 loc(#loc0)" for i in range(carried[at - 1])
            )
            preds = data.draw(st.sampled_from(("", "  // pred: ^bb0")), "comment")
            lines.append(f"{labels[at - 1]}{f'({own})' if own else ''}:{preds}")
        to = data.draw(st.lists(st.sampled_from(labels), min_size=1, max_size=2), "to")
        printed = ", ".join(
            f"{label}({', '.join(['%n'] * passes[label])}"
            f" : {', '.join(['i32'] * passes[label])})"
            if passes[label]
            else label
            for label in to
        )
        name = "cf.br" if len(to) == 1 else "cf.cond_br %f,"
        lines.append(f"{name} {printed} loc(#loc0)")
        expected.append([(label, [0] * passes[label]) for label in to])
    text = "\n".join(
        [
            "tt.func public @k(%n: i32, %f: i1) {",
            *lines,
            "} loc(#loc0)",
            '#loc0 = loc("/home/me/k.py":1:0)',
        ]
    )
    kernel = parse_module(text).functions["k"]
    first, *others = kernel.body.blocks
    assert (first.label, first.arguments) == ("", [])
    assert [block.label for block in others] == labels
    assert [len(block.arguments) for block in others] == carried
    for block, successors in zip(kernel.body.blocks, expected, strict=True):
        (end,) = block.ops
        assert end.successors == successors
        assert end.operands == [1] * (len(successors) - 1)
