"""Expressions of random kernels: text of a value of a wanted type and shape.

A rule returns text, and draws the operands it needs. Operands are kept where the
operation is defined: divisors, shifts, indices and floats are cut to size.
"""

from collections.abc import Callable

from tests.executors.footprint.random_kernels import (
    FLOATS,
    SIGNED,
    SIZES,
    TABLE,
    WIDTHS,
    Draft,
    Shape,
)

Rule = Callable[[Draft, str, Shape, int], str]


def expression(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return text of a value of exactly this type and shape."""
    if depth <= 0:
        return _leaf(draft, dtype, shape)
    if dtype == "int1":
        rules: tuple[Rule, ...] = BIT_RULES
    elif dtype in FLOATS:
        rules = FLOAT_RULES
    else:
        rules = INTEGER_RULES
    rule: Rule = draft.pick(rules)
    return rule(draft, dtype, shape, depth - 1)


def _leaf(draft: Draft, dtype: str, shape: Shape) -> str:
    names = draft.variables.get((dtype, shape), [])
    if names and not draft.chance(10):
        # The newest are likelier, so that results depend on most of the kernel.
        tail = names[-3:] if draft.chance(60) else names
        return str(draft.pick(tail))
    if dtype == "int1":
        return f"({_leaf(draft, 'int32', shape)} > {draft.random.randrange(-4, 60)})"
    if dtype in FLOATS:
        # Never -0.0: which of two zeros is the larger is not defined.
        scale = draft.pick(("0.5", "1.0", "0.25"))
        number = f"({_leaf(draft, 'int32', shape)} & 255).to(tl.{dtype})"
        return f"(-({number} + 1.0))" if draft.chance(20) else f"({number} * {scale})"
    if dtype == "int32":
        return str(draft.pick(draft.variables[dtype, shape]))
    return f"{_leaf(draft, 'int32', shape)}.to(tl.{dtype})"


def _second(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return a value that broadcasts to a shape."""
    if shape and draft.chance(30):
        return expression(draft, dtype, (), depth)
    if len(shape) == 2 and draft.chance(40):
        if draft.chance(50):
            return f"{_axis(draft, dtype, 'rows')}[:, None]"
        return f"{_axis(draft, dtype, 'cols')}[None, :]"
    return expression(draft, dtype, shape, depth)


def _axis(draft: Draft, dtype: str, name: str) -> str:
    """Return a row or column of numbers, from scratch or by a reduction."""
    if draft.chance(50) or dtype == "int1":
        number = f"({name} * {draft.random.randrange(1, 9)})"
        return f"({number} > 5)" if dtype == "int1" else f"{number}.to(tl.{dtype})"
    over = 1 if name == "rows" else 0
    reduced = _reduction(draft, expression(draft, "int32", draft.square, 0), over)
    # No float may be too large for the integer that it is converted to later.
    return (
        f"({reduced} & 255).to(tl.{dtype})"
        if dtype in FLOATS
        else f"{reduced}.to(tl.{dtype})"
    )


def _reduction(draft: Draft, value: str, axis: int) -> str:
    kind = draft.random.randrange(8)
    if kind < 2:
        return f"tl.sum({value} & 4095, {axis})"
    if kind < 5:
        return f"tl.{draft.pick(('max', 'min', 'xor_sum'))}({value}, {axis})"
    if kind < 6:
        wide = f"({value}).to(tl.uint32)"
        return f"tl.{draft.pick(('max', 'min'))}({wide}, {axis}).to(tl.int32)"
    function = draft.pick(("multiplied", "both", "either"))
    return f"tl.reduce({value}, {axis}, {function})"


def _arithmetic(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first = expression(draft, dtype, shape, depth)
    operator = draft.pick(("+", "-", "*", "+", "*", "&", "|", "^"))
    if draft.chance(40):
        number = draft.pick((1, 3, 7, 12, 100, -5, -1, 127))
        if dtype.startswith("u"):
            number = abs(number)
        return f"({first} {operator} {number})"
    second = _second(draft, dtype, shape, depth)
    if draft.chance(50):
        return f"({first} {operator} {second})"
    return f"({second} {operator} {first})"


def _wrapping(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return a product that leaves 32 bits whatever its operand is."""
    draft.marks.add("wrap")
    inner = expression(draft, "int32", shape, depth)
    factor = draft.pick((1431655765, 1103515245, 2147483647, -1640531527))
    product = f"((({inner}) & 1023) + 3) * {factor}"
    return f"({product})" if dtype == "int32" else f"({product}).to(tl.{dtype})"


def _wrapping_lanes(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return consecutive lanes that leave 32 bits somewhere."""
    if not shape:
        return _wrapping(draft, dtype, shape, depth)
    draft.marks.add("wrap")
    lanes = "grid" if shape == draft.square else "lanes"
    first = f"({draft.pick(('p', 'y', 'z'))} + {2**31 - 1 - draft.random.randrange(4)})"
    return f"({lanes} * {draft.pick((1, 2, 3))} + {first}).to(tl.{dtype})"


def _division(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first = expression(draft, dtype, shape, depth)
    operator = draft.pick(("//", "%"))
    if draft.chance(40):
        number = draft.pick((3, 7, 16, 5))
        if dtype in SIGNED and draft.chance(50):
            number = -number
        return f"({first} {operator} {number})"
    second = _second(draft, dtype, shape, depth)
    safe = f"(({second}) & 62) + 3"
    if dtype in SIGNED and draft.chance(50):
        safe = f"(({second}) & 62) - 65"
    return f"({first} {operator} ({safe}))"


def _shift(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first = expression(draft, dtype, shape, depth)
    operator = draft.pick(("<<", ">>", ">>"))
    if draft.chance(50):
        return f"({first} {operator} {draft.random.randrange(WIDTHS[dtype])})"
    second = _second(draft, dtype, shape, depth)
    return f"({first} {operator} (({second}) & {WIDTHS[dtype] - 1}))"


def _extreme(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first = expression(draft, dtype, shape, depth)
    function = draft.pick(("minimum", "maximum"))
    return f"tl.{function}({first}, {_second(draft, dtype, shape, depth)})"


def _choice(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    condition = expression(draft, "int1", shape, depth)
    first = expression(draft, dtype, shape, depth)
    return f"tl.where({condition}, {first}, {_second(draft, dtype, shape, depth)})"


def _cast(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    if draft.chance(60 if draft.has_signed_bits else 25):
        bit = f"({expression(draft, 'int1', shape, depth)}).to(tl.{dtype})"
        return f"signed_bit({bit})" if draft.has_signed_bits else bit
    value = expression(draft, draft.integer(), shape, depth)
    return f"({value}).to(tl.{dtype})"


def _absolute(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    inner = expression(draft, dtype, shape, depth)
    return f"tl.abs({inner} % 100)" if dtype in SIGNED else inner


def _from_float(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return what is left of a small float without its fraction."""
    kind = draft.pick(FLOATS)
    if draft.chance(50):
        inner = f"({expression(draft, 'int32', shape, depth)} & 255).to(tl.{kind})"
        return f"({inner} * 0.25).to(tl.uint32).to(tl.{dtype})"
    return f"({expression(draft, kind, shape, depth)}).to(tl.int32).to(tl.{dtype})"


def _high_product(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    # The interpreter multiplies signed numbers as signed ones, the IR does not.
    kind = draft.pick(("uint32", "uint64"))
    factors = [expression(draft, kind, shape, depth) for _ in range(2)]
    return f"tl.umulhi({factors[0]}, {factors[1]}).to(tl.{dtype})"


def _table(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return a load from a table, by indices of either sign and any width."""
    index = f"({expression(draft, draft.pick(SIGNED), shape, depth)} & 31)"
    if draft.chance(50):
        index = f"({index} - 32)"
    name, element = draft.pick((("numbers", "int32"), ("wide", "int64")))
    middle = f"{name} + {TABLE // 2}"
    way = draft.random.randrange(4)
    if way == 1:
        moved = f"{name}.to(tl.int64) + {TABLE // 2 * SIZES[element]}"
        middle = f"({moved}).to(tl.pointer_type(tl.{element}))"
    guard = ""
    if draft.chance(50):
        guard = f", mask={expression(draft, 'int1', shape, depth)}, other="
        guard += _second(draft, element, shape, 0) if draft.chance(60) else "-5"
    return f"tl.load({middle} + {index}{guard}).to(tl.{dtype})"


def _moved(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return lanes in another order, or a reduction of them."""
    if dtype == "int1":
        return expression(draft, dtype, shape, depth)
    if shape == draft.square:
        rows, cols = shape
        inner = expression(draft, dtype, draft.flat, depth)
        if draft.chance(50):
            return f"tl.trans(tl.reshape({inner}, ({cols}, {rows})))"
        return f"tl.reshape({inner}, ({rows}, {cols}))"
    if shape:
        if draft.chance(80):
            return _regrouped(draft, dtype, depth)
        inner = expression(draft, dtype, draft.square, depth)
        turned = f"tl.trans({inner})" if draft.chance(50) else inner
        return f"tl.reshape({turned}, ({draft.lanes},))"
    inner = expression(draft, "int32", draft.flat, depth)
    return f"{_reduction(draft, inner, 0)}.to(tl.{dtype})"


def _regrouped(draft: Draft, dtype: str, depth: int) -> str:
    """Return lanes gathered, swapped or scanned."""
    inner = expression(draft, dtype, draft.flat, depth)
    way = draft.random.randrange(3)
    if way == 0:
        index = f"{expression(draft, 'int32', draft.flat, depth)} & {draft.lanes - 1}"
        return f"tl.gather({inner}, {index}, 0)"
    if way == 1:
        return f"pairs_swapped({inner}, {draft.lanes // 2})"
    values = f"({inner} & 63).to(tl.int32)"
    function = draft.pick(("multiplied", "both", "either", "added"))
    ends = ", reverse=True" if draft.chance(50) else ""
    return f"tl.associative_scan({values}, 0, {function}{ends}).to(tl.{dtype})"


def _called(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    del shape
    arguments = [expression(draft, "int32", (), depth) for _ in range(2)]
    function = draft.pick(("distance", "climbed"))
    call = f"{function}({arguments[0]}, {arguments[1]})"
    return call if dtype == "int32" else f"{call}.to(tl.{dtype})"


def _called_or_table(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    rule = _table if shape else _called
    return rule(draft, dtype, shape, depth)


def _pointer_difference(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    index = expression(draft, "int32", shape, depth)
    moved = f"(numbers + {index}).to(tl.int64) - numbers.to(tl.int64)"
    return f"({moved}).to(tl.{dtype})"


def _float_bits(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    value = expression(draft, "float32", shape, depth)
    return f"({value}).to(tl.int32, bitcast=True).to(tl.{dtype})"


INTEGER_RULES: tuple[Rule, ...] = (
    *(_arithmetic,) * 4,
    *(_division,) * 2,
    *(_shift,) * 2,
    *(_table,) * 2,
    _wrapping,
    _wrapping_lanes,
    _extreme,
    _choice,
    _cast,
    _cast,
    _moved,
    _called_or_table,
    _high_product,
    _pointer_difference,
    _float_bits,
    _from_float,
    _absolute,
)


def _comparison(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    del dtype
    kind = draft.integer()
    operator = draft.pick(("<", "<=", ">", ">=", "==", "!="))
    first = expression(draft, kind, shape, depth)
    if draft.chance(40):
        return f"({first} {operator} {draft.random.randrange(0, 100)})"
    return f"({first} {operator} {_second(draft, kind, shape, depth)})"


def _lane_bound(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    """Return a mask that holds in an interval of lanes."""
    del dtype
    bound = expression(draft, "int32", (), depth)
    operator = draft.pick(("<", "<=", ">", ">=", "=="))
    if len(shape) == 2:
        lane, size = draft.pick((("rows[:, None]", 0), ("cols[None, :]", 1)))
        bit = f"({lane} {operator} (({bound}) & {shape[size] - 1}))"
        return f"(({bit}) & {_full_bit(shape)})"
    if shape:
        step = draft.pick((1, 1, 2, 3, -2))
        return f"(lanes * {step} {operator} (({bound}) & {draft.lanes * 2 - 1}))"
    return f"(p {operator} (({bound}) & 3))"


def _full_bit(shape: Shape) -> str:
    return f"(grid < {shape[0] * shape[1] * 7 + 99})"


def _logic(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first = expression(draft, dtype, shape, depth)
    if draft.chance(20):
        return f"(~{first})"
    second = expression(draft, dtype, shape, depth)
    return f"({first} {draft.pick(('&', '&', '|', '^'))} {second})"


def _bit_order(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first, second = (expression(draft, dtype, shape, depth) for _ in range(2))
    operator = draft.pick(("<", "<=", ">", ">=", "=="))
    return f"({first} {operator} {second})"


def _float_comparison(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    del dtype
    kind = draft.pick(FLOATS)
    first = expression(draft, kind, shape, depth)
    operator = draft.pick(("<", "<=", ">", ">=", "==", "!="))
    return f"({first} {operator} {_second(draft, kind, shape, depth)})"


BIT_RULES: tuple[Rule, ...] = (
    *(_comparison,) * 4,
    *(_lane_bound,) * 3,
    _logic,
    _logic,
    _bit_order,
    _float_comparison,
)


def _from_integer(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    kind = draft.pick(("int32", "uint32", "int64"))
    return f"({expression(draft, kind, shape, depth)} & 255).to(tl.{dtype})"


def _float_arithmetic(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first = expression(draft, dtype, shape, depth)
    if draft.chance(50):
        return f"({first} {draft.pick(('*', '/'))} {draft.pick(('2.0', '4.0'))})"
    second = _second(draft, dtype, shape, depth)
    return f"({first} {draft.pick(('+', '-'))} {second})"


def _float_extreme(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    first = expression(draft, dtype, shape, depth)
    second = _second(draft, dtype, shape, depth)
    function = draft.pick(("minimum", "maximum"))
    kept = ", propagate_nan=tl.PropagateNan.ALL" if draft.chance(50) else ""
    return f"tl.{function}({first}, {second}{kept})"


def _float_cast(draft: Draft, dtype: str, shape: Shape, depth: int) -> str:
    if dtype == "float16" and draft.chance(30):
        bits = f"(({expression(draft, 'int32', shape, depth)} & 15) + 56).to(tl.int8)"
        return f"{bits}.to(tl.float8e5, bitcast=True).to(tl.float16)"
    other = draft.pick([kind for kind in FLOATS if kind != dtype])
    return f"({expression(draft, other, shape, depth)}).to(tl.{dtype})"


FLOAT_RULES: tuple[Rule, ...] = (
    _from_integer,
    _float_arithmetic,
    _float_arithmetic,
    _float_extreme,
    _float_cast,
    _choice,
)
