"""The blocks of random kernels: variables, promises, stores, branches and loops."""

from collections.abc import Callable
from random import Random

from tests.executors.footprint.random_expressions import expression
from tests.executors.footprint.random_kernels import (
    ATOMIC_BYTES,
    FLOATS,
    GRIDS,
    MAX_ATOMICS,
    SIGNED,
    STORED_BYTES,
    Draft,
    RandomKernel,
    Shape,
    opening,
)

Block = Callable[[Draft], None]
_MAX_NESTING = 3


def draw_kernel(random: Random, name: str = "kernel") -> RandomKernel:
    """Return a random kernel; shrinks towards few blocks and a single program."""
    draft = Draft(random, lanes=8 << random.randrange(3), rows=4)
    draft.has_signed_bits = draft.chance(20)
    name = f"signed_{name}" if draft.has_signed_bits else name
    text = opening(draft, name)
    blocks = [_drawn(draft, _false_promise)] if draft.chance(5) else []
    count = random.randrange(2, 7)
    blocks.extend(_drawn(draft, draft.pick(BLOCKS)) for _ in range(count))
    blocks.extend(_drawn(draft, _store) for _ in range(random.randrange(1, 4)))
    return RandomKernel(
        name=name,
        opening=text,
        blocks=tuple(blocks),
        grid=draft.pick(GRIDS),
        n32=draft.pick((40, 1, 0, 16, -7, 2**31 - 1, -(2**31))),
        n64=draft.pick((2**31, 2**40 + 3, -(2**33), 2**62, -(2**63))),
        seed=random.randrange(2**16),
        in_arena=draft.chance(60),
        marks=frozenset(draft.marks),
    )


def _drawn(draft: Draft, block: Block) -> str:
    draft.lines = []
    block(draft)
    return "".join(draft.lines)


def _assign(draft: Draft) -> None:
    dtype = draft.pick((draft.integer(), draft.integer(), "int1", draft.pick(FLOATS)))
    shape = draft.shape()
    _define(draft, dtype, shape, expression(draft, dtype, shape, 3))


def _define(draft: Draft, dtype: str, shape: Shape, text: str) -> str:
    """Assign text to a new variable that has exactly this shape."""
    name = draft.name()
    draft.emit(f"{name} = {text}")
    return draft.remember(name, dtype, shape)


def _promise(draft: Draft) -> None:
    """Promise what is true of a value by construction."""
    draft.marks.add("promise")
    way = draft.random.randrange(5)
    dtype, shape = draft.pick(("int32", "int64")), draft.shape()
    text = expression(draft, dtype, shape, 2)
    scalar = expression(draft, "int32", (), 1)
    number = draft.pick((2, 4, 8, 16))
    if way == 0:
        numbers = ", ".join([str(number)] * max(len(shape), 1))
        listed = number if len(shape) < 2 else f"[{numbers}]"
        text = f"tl.multiple_of(({text}) * {number}, {listed})"
        _define(draft, dtype, shape, text)
    elif way == 1:
        text = f"tl.max_contiguous(lanes + {scalar}, {draft.lanes})"
        _define(draft, "int32", draft.flat, text)
    elif way == 2:
        text = f"tl.max_constancy(lanes // 4 + {scalar}, 4)"
        _define(draft, "int32", draft.flat, text)
    elif way == 3:
        draft.emit(f"tl.assume((({scalar}) & 7) < 8 + p)")
    else:
        pointer = f"numbers + 4 * (({scalar}) & 7) + lanes % 4"
        text = f"tl.load(tl.multiple_of({pointer}, 16))"
        _define(draft, "int32", draft.flat, text)


def _false_promise(draft: Draft) -> None:
    """Promise what no program keeps."""
    draft.marks.add("false-promise")
    text = f"tl.multiple_of(p * {draft.pick((8, 24, 40))} + 4, 8)"
    name = _define(draft, "int32", (), text)
    draft.emit(f"tl.store(base.to(tl.pointer_type(tl.int32)), {name})")


def _rare(draft: Draft) -> None:
    draft.pick((_print, _unsplat, _read_back, _read_back, _atomic, _atomic))(draft)


def _print(draft: Draft) -> None:
    draft.emit("tl.device_print('p', p)")


def _atomic(draft: Draft) -> None:
    """Change lanes of the program's own region, each once."""
    dtype = draft.pick(("int32", "int64", "uint32", "uint64"))
    if draft.atomics == MAX_ATOMICS:
        return
    at = STORED_BYTES + draft.atomics * ATOMIC_BYTES
    draft.atomics += 1
    place = f"(base + {at}).to(tl.pointer_type(tl.{dtype})) + lanes"
    # Triton's interpreter misreads lanes that NumPy holds back to front: see
    # test_random_kernels.py. A sum is a new array.
    value = f"({expression(draft, dtype, draft.flat, 1)} + 0)"
    kind = draft.pick(("add", "max", "min", "and", "or", "xor", "xchg", "cas", "cas"))
    if kind == "cas":
        _define(draft, dtype, draft.flat, f"tl.atomic_cas({place}, {value}, {value})")
        return
    if draft.chance(50):
        _define(draft, dtype, draft.flat, f"tl.atomic_{kind}({place}, {value})")
        return
    mask = _define(draft, "int1", draft.flat, expression(draft, "int1", draft.flat, 1))
    old = f"tl.atomic_{kind}({place}, {value}, mask={mask})"
    _define(draft, dtype, draft.flat, f"tl.where({mask}, {old}, {value})")


def _unsplat(draft: Draft) -> None:
    """Branch on a tensor of one element."""
    name = _define(draft, "int32", (), expression(draft, "int32", (), 1))
    condition = expression(draft, "int32", (), 1)
    draft.emit(f"if tl.arange(0, 1) + (({condition}) & 7) > 3:")
    draft.emit(f"    {name} = {expression(draft, 'int32', (), 2)}")


def _read_back(draft: Draft) -> None:
    """Load what the program itself has stored."""
    _store(draft)
    dtype = draft.pick(SIGNED)
    draft.emit("tl.debug_barrier()")
    at = draft.random.randrange(4) * 8
    place = f"(base + {at}).to(tl.pointer_type(tl.{dtype}))"
    name = _define(draft, dtype, draft.flat, f"tl.load({place} + lanes)")
    behind = f"(base + {STORED_BYTES - 256}).to(tl.pointer_type(tl.{dtype}))"
    _emit_store(draft, f"{behind} + lanes, {name}")


def _emit_store(draft: Draft, what: str) -> None:
    """Store behind all that the program has stored and loaded before.

    Without a barrier, ptxas swaps two stores if no thread stores a byte by both, and
    the one that came first may be the one that lasts.
    """
    draft.emit("tl.debug_barrier()")
    draft.emit(f"tl.store({what})")


def _store(draft: Draft) -> None:
    dtype = draft.pick(("int8", "int16", "int32", "int64", "float16", "float32"))
    is_square = draft.chance(30)
    shape = draft.square if is_square else draft.pick((draft.flat, draft.flat, ()))
    at = draft.random.randrange(0, STORED_BYTES // 2 // 8) * 8
    slots, is_shared = _slots(draft, shape)
    value = "0"
    if is_shared or (draft.chance(50) and not draft.chance(20)):
        value = _splat(draft, dtype) if draft.chance(60) else "0"
    elif not draft.chance(20):
        value = expression(draft, dtype, shape, 2)
    mask = ""
    if draft.chance(60):
        mask = f", mask={expression(draft, 'int1', shape, 2)}"
    place = f"(base + {at}).to(tl.pointer_type(tl.{dtype}))"
    _emit_store(draft, f"{place} + {slots}, {value}{mask}")


def _splat(draft: Draft, dtype: str) -> str:
    return expression(draft, dtype, (), 1)


def _slots(draft: Draft, shape: Shape) -> tuple[str, bool]:
    """Return element offsets below 64, and whether lanes share some of them.

    Elements are at most 8 B, so they stay in the upper or lower half of the region.
    """
    if not shape:
        return f"({expression(draft, 'int32', (), 1)} & 63)", False
    count = draft.lanes
    if len(shape) == 2:
        pitch = shape[1] + draft.random.randrange(0, (64 - count) // shape[0] + 1)
        text = f"(rows[:, None] * {pitch} + cols[None, :])"
        if draft.chance(30):
            return f"(cols[None, :] * {shape[0]} + rows[:, None])", False
        return text, False
    constant = draft.random.randrange(count)
    odd = draft.pick((3, 5, 7, 11))
    scalar = f"({expression(draft, 'int32', (), 1)})"
    ways = (
        ("lanes", False),
        (f"lanes * {64 // count}", False),
        (f"({count - 1} - lanes)", False),
        (f"((lanes * {odd} + {scalar}) & {count - 1})", False),
        (f"(lanes ^ {constant})", False),
        ("(lanes // 2)", True),
        (f"({count} + (lanes.to(tl.int8) - {count}))", False),
        (f"(lanes + ({scalar} & 7))", False) if count < 32 else ("lanes", False),
        (f"{count - 1} + (lanes - {count - 1}).to(tl.int16)", False),
    )
    text, is_shared = draft.pick(ways)
    return str(text), bool(is_shared)


def _scoped(draft: Draft, fill: Block) -> None:
    """Fill a nested body; what it defines is forgotten after it."""
    before = {key: list(names) for key, names in draft.variables.items()}
    draft.indent += 1
    fill(draft)
    draft.indent -= 1
    draft.variables = before


def _carried(draft: Draft) -> tuple[str, str, Shape]:
    dtype, shape = draft.integer(), draft.shape()
    name = _define(draft, dtype, shape, expression(draft, dtype, shape, 1))
    return name, dtype, shape


def _update(carried: tuple[str, str, Shape]) -> Block:
    name, dtype, shape = carried

    def fill(draft: Draft) -> None:
        if draft.chance(30) and draft.indent < _MAX_NESTING:
            draft.pick((_branch, _counted))(draft)
        if draft.chance(30):
            _store(draft)
        text = expression(draft, dtype, shape, 2)
        operator = draft.pick(("+", "^", "-"))
        draft.emit(f"{name} = {name} {operator} {text}")

    return fill


def _branch(draft: Draft) -> None:
    carried = _carried(draft)
    draft.emit(f"if {expression(draft, 'int1', (), 2)}:")
    _scoped(draft, _update(carried))
    if draft.chance(60):
        draft.emit("else:")
        _scoped(draft, _update(carried))


def _counted(draft: Draft) -> None:
    carried = _carried(draft)
    low = draft.pick(("0", "p", f"({expression(draft, 'int32', (), 1)} & 3)"))
    high = draft.pick(("3", f"({expression(draft, 'int32', (), 1)} & 7)"))
    name = draft.name()
    step = draft.pick((1, 1, 2, 3))
    draft.emit(f"for {name}_turn in range({low}, {high}, {step}):")

    def fill(inner: Draft) -> None:
        # The interpreter counts in plain ints, which have no `.to`.
        inner.emit(f"{name} = {name}_turn + p * 0")
        inner.remember(name, "int32", ())
        _update(carried)(inner)

    _scoped(draft, fill)


def _while(draft: Draft) -> None:
    carried = _carried(draft)
    name = draft.name()
    draft.emit(f"{name} = {expression(draft, 'int32', (), 1)} & 7")
    draft.emit(f"while {name} > {draft.pick((0, 1, 2))}:")

    def fill(inner: Draft) -> None:
        inner.remember(name, "int32", ())
        _update(carried)(inner)
        inner.variables["int32", ()].remove(name)
        inner.emit(f"{name} = {draft.pick((f'{name} - 1', f'{name} // 2'))}")

    _scoped(draft, fill)


def _early_return(draft: Draft) -> None:
    draft.emit(f"if {expression(draft, 'int1', (), 2)}:")

    def fill(inner: Draft) -> None:
        if inner.chance(50):
            _store(inner)
        if inner.chance(40):
            inner.emit(f"if {expression(inner, 'int1', (), 1)}:")
            inner.emit("    return")
        else:
            inner.emit("return")

    _scoped(draft, fill)
    if draft.chance(40):
        draft.emit("else:")
        _scoped(draft, _store)


BLOCKS: tuple[Block, ...] = (
    *(_assign,) * 6,
    *(_store,) * 3,
    _promise,
    _branch,
    _counted,
    _while,
    _early_return,
    *(_rare,) * 2,
)
