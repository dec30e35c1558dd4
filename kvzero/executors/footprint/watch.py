"""Torch operations of a subject, watched while a call runs.

The case's memory is only an address range here. An operation that would read or write
it through torch cannot be followed: it is named, its writes are left out, and the bytes
of the case are not judged. Views are free.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class ArenaWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Notes the torch operations that touch some addresses.

    Attributes:
        touched: Names of the operations, in order.
    """

    def __init__(self, addresses: range) -> None:
        """Watch a range of addresses."""
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._addresses = addresses
        self.touched: list[str] = []

    def __torch_dispatch__(
        self,
        func: Any,  # Any: torch's OpOverload
        types: Any,  # Any: torch's protocol
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:  # Any: what the operation returns
        """Run an operation, unless it would write watched memory."""
        del types
        kwargs = kwargs or {}
        if func.is_view or not any(map(self._is_watched, _tensors(args, kwargs))):
            return func(*args, **kwargs)
        self.touched.append(str(func.name()))
        for written in _written(func, args, kwargs):
            if self._is_watched(written):
                return written
        return func(*args, **kwargs)

    def _is_watched(self, tensor: torch.Tensor) -> bool:
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            return False
        return tensor.untyped_storage().data_ptr() in self._addresses


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, torch.Tensor))


def _written(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operation writes, by its schema."""
    schema: Any = func._schema  # noqa: SLF001 - torch has no public way to ask
    by_name: Callable[[str], Any] = kwargs.get
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[index] if index < len(args) else by_name(argument.name)
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(tensor, torch.Tensor):
                yield tensor
