"""TTIR text: types, attributes, places, and operations that nobody knows."""

import pytest

from kvzero.executors.footprint.locations import UNKNOWN_PLACE, Locations
from kvzero.executors.footprint.parse import parse_module
from kvzero.executors.footprint.text import (
    parse_attributes,
    parse_type,
    parse_types,
    split_top,
    take_braces,
)

MODULE = """
#loc = loc("/home/me/kernels.py":10:0)
#loc1 = loc("/home/me/kernels.py":12:8)
#loc2 = loc("/site-packages/triton/language/standard.py":40:11)
module {
  tt.func public @k(%p: !tt.ptr<i32> {tt.divisibility = 16 : i32} loc("p"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %c = arith.constant dense<0> : tensor<8xi32> loc(#loc1)
    %r:2 = new.op %p, %n {kind = 3 : i32} : (!tt.ptr<i32>, i32) -> (i32, i64) loc(#loc4)
    %x = arith.addi %r#0, %n overflow<nsw> : i32 loc(#loc1)
    cf.cond_br %x, ^bb1(%n : i32), ^bb2 loc(#loc1)
  ^bb1(%a: i32 loc("a"(#loc))):  // pred: ^bb0
    tt.return loc(#loc1)
  ^bb2:  // pred: ^bb0
    tt.return loc(#loc1)
  } loc(#loc)
} loc(#loc)
#loc3 = loc("acc"(#loc1))
#loc4 = loc(callsite(#loc2 at #loc3))
"""  # noqa: E501 - one operation a line, as MLIR prints it


def test_types_are_read_with_shape_and_pointee() -> None:
    kind = parse_type("tensor<4x8x!tt.ptr<bf16>>")
    assert (kind.element, kind.bits, kind.shape) == ("ptr", 64, (4, 8))
    assert kind.pointee_bytes == 2
    assert parse_type("!tt.ptr<f32, 1>").pointee_bytes == 4
    assert parse_type("!tt.ptr<i1>").pointee_bytes == 1
    assert [k.bits for k in parse_types("(i1, i64)")] == [1, 64]


def test_unknown_type_keeps_its_spelling() -> None:
    kind = parse_type("!ttg.memdesc<4xf16>")
    assert (kind.element, kind.bits) == ("!ttg.memdesc<4xf16>", 0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("axis = 1 : i32", {"axis": 1}),
        (
            "tt.divisibility = dense<[4, 8]> : tensor<2xi32>",
            {"tt.divisibility": [4, 8]},
        ),
        ("order = array<i32: 1, 0>, reverse", {"order": [1, 0], "reverse": True}),
        ("flag = false", {"flag": False}),
    ],
)
def test_attributes_are_read_as_values(text: str, value: dict[str, object]) -> None:
    assert parse_attributes(text) == value


def test_text_is_split_outside_brackets_and_strings() -> None:
    assert split_top('a, f(b, c), "d, e", g -> h') == [
        "a",
        "f(b, c)",
        '"d, e"',
        "g -> h",
    ]
    assert take_braces("%x <{a = array<i32: 1>}> {b} : i32") == (
        "%x   : i32",
        "a = array<i32: 1>, b",
    )


def test_module_is_read_with_slots_blocks_and_places() -> None:
    kernel = parse_module(MODULE).functions["k"]
    assert kernel.place == "kernels.py:10"
    assert kernel.argument_attributes == [{"tt.divisibility": 16}, {}]
    entry, first, second = kernel.body.blocks
    constant, unknown, add, branch = entry.ops
    assert constant.attributes["value"] == "dense<0>"
    assert unknown.name == "new.op"
    assert unknown.operands == kernel.arguments
    assert unknown.attributes["kind"] == 3
    assert [t.element for t in unknown.result_types] == ["i32", "i64"]
    assert add.operands == [unknown.results[0], kernel.arguments[1]]
    assert "nsw" in add.attributes["words"]
    assert branch.successors == [("^bb1", [kernel.arguments[1]]), ("^bb2", [])]
    assert (first.label, len(first.arguments)) == ("^bb1", 1)
    assert second.arguments == []


def test_place_is_the_innermost_line_outside_tritons_library() -> None:
    assert parse_module(MODULE).functions["k"].body.blocks[0].ops[1].place == (
        "kernels.py:12"
    )
    assert Locations(MODULE).place("#loc2") == "standard.py:40"
    assert Locations(MODULE).place("unknown") == UNKNOWN_PLACE
