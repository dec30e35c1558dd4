"""A kernel's TTIR as plain data: operations on numbered slots instead of names.

Names, locations and types are resolved once, when the text of a compiled variant is
parsed; whatever runs afterwards only indexes lists. The module knows the shape of the
IR, not the meaning of any operation.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

FLOAT_BITS = {
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "tf32": 32,
    "f8E4M3FN": 8,
    "f8E4M3FNUZ": 8,
    "f8E4M3B11FNUZ": 8,
    "f8E5M2": 8,
    "f8E5M2FNUZ": 8,
}


@dataclass(frozen=True)
class Type:
    """Type of a value.

    Attributes:
        element: ``"i32"``, ``"f32"``, ``"ptr"``; what kvzero does not know keeps its
            spelling and has no bits.
        bits: Bits of one element; 64 for pointers.
        shape: Lanes; ``()`` for scalars.
        pointee: What a pointer points to.
    """

    element: str
    bits: int
    shape: tuple[int, ...] = ()
    pointee: "Type | None" = None

    @property
    def is_pointer(self) -> bool:
        """Return whether it holds addresses."""
        return self.element == "ptr"

    @property
    def is_float(self) -> bool:
        """Return whether its elements are floating-point numbers."""
        return self.element in FLOAT_BITS

    @property
    def lanes(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    @property
    def pointee_bytes(self) -> int:
        """Return the bytes of what a pointer points to."""
        return self.pointee.bytes if self.pointee else 1

    @property
    def bytes(self) -> int:
        """Return the bytes of one element in memory (an i1 takes one)."""
        return max(self.bits // 8, 1)

    @cached_property
    def dtype(self) -> np.dtype[Any]:  # Any: one of bool, int8 to int64
        """Return the NumPy dtype that holds an element; floats as their bit pattern."""
        return np.dtype(bool if self.bits == 1 else f"int{self.bits}")

    def with_shape(self, shape: tuple[int, ...]) -> "Type":
        """Return the type of so many such elements."""
        return Type(self.element, self.bits, shape, self.pointee)


Attribute = Any  # an int, a bool, a string, or a list of ints


@dataclass
class Op:
    """One operation.

    Attributes:
        name: Such as ``"arith.addi"``.
        place: File and line of the kernel, such as ``"kernels.py:41"``.
        operands: Slots that it reads, in order.
        results: Slots that it writes.
        types: Types as written, in order.
        result_types: Types of the results.
        attributes: What stood in braces, and keywords such as a predicate.
        regions: Nested code.
        successors: Blocks that a branch leads to, each with the slots it passes.
    """

    name: str
    place: str = ""
    operands: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    result_types: list[Type] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list["Region"] = field(default_factory=list)
    successors: list[tuple[str, list[int]]] = field(default_factory=list)


@dataclass
class Block:
    """Straight-line code that ends in a terminator."""

    label: str
    arguments: list[int] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)


@dataclass
class Region:
    """Blocks; the first is the entry."""

    blocks: list[Block] = field(default_factory=list)


@dataclass
class Function:
    """A function of a module.

    Attributes:
        name: Symbol, without the at sign.
        place: File and line of its definition.
        arguments: Slots of the arguments.
        argument_attributes: Promises made of each argument.
        types: Type of each slot.
        definitions: The op that writes each slot; None for arguments.
        body: Its blocks.
    """

    name: str
    place: str
    arguments: list[int] = field(default_factory=list)
    argument_attributes: list[dict[str, Attribute]] = field(default_factory=list)
    types: list[Type] = field(default_factory=list)
    definitions: list[Op | None] = field(default_factory=list)
    body: Region = field(default_factory=Region)

    def readers(self, slot: int) -> list[Op]:
        """Return the operations that read a slot, terminators included."""
        return _readers(self.body, slot)


def _readers(region: Region, slot: int) -> list[Op]:
    found: list[Op] = []
    for block in region.blocks:
        for op in block.ops:
            passed = (slots for _, slots in op.successors)
            if slot in op.operands or any(slot in slots for slots in passed):
                found.append(op)
            for inner in op.regions:
                found.extend(_readers(inner, slot))
    return found


@dataclass
class Module:
    """A compiled variant: its functions, the kernel first."""

    functions: dict[str, Function] = field(default_factory=dict)
    kernel: str = ""
