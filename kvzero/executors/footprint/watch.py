"""Torch operations of a subject, watched while a call runs.

The case's memory is only an address range here. An operation that writes it from
without is followed: it is noted, and not run. One that cannot be followed, since it is
of another kind or reads that memory, is named, its writes are left out, and the bytes
of the case are not judged. Views are free.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path, PurePath
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kvzero.executors.footprint.frame import NotJudgedError
from kvzero.executors.footprint.torch_writes import Write, writes_of

Note = Callable[[Write, str], None]
_NOT_THE_SUBJECT = (str(Path(torch.__file__).parent), __file__)


class ArenaWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Follows the torch operations that touch some addresses.

    Attributes:
        touched: Names of the operations that could not be followed, in order.
    """

    def __init__(self, addresses: range, note: Note) -> None:
        """Watch a range of addresses.

        Args:
            addresses: The range.
            note: Takes what an operation writes there, and where it was called.
        """
        super().__init__()  # type: ignore[no-untyped-call]  # likewise
        self._addresses = addresses
        self._note = note
        self.touched: list[str] = []

    def __enter__(self) -> Self:
        """Begin to watch; what torch compiled runs as it is written meanwhile.

        Torch cannot compile under a watch, and raises where it must. Where its compiler
        is not imported, which takes a second, nothing is compiled yet.
        """
        imported = "torch._dynamo" in sys.modules
        self._eagerly = _eager() if imported else nullcontext()
        self._eagerly.__enter__()
        super().__enter__()  # type: ignore[no-untyped-call]  # likewise
        return self

    def __exit__(self, *how: Any) -> None:  # Any: as Python says how a block ends
        """Watch no more."""
        super().__exit__(*how)  # type: ignore[no-untyped-call]  # likewise
        self._eagerly.__exit__(*how)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Keep torch from wrapping operations, for which it imports its compiler."""
        return False

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
        if func.is_view or not self._any_watched(args, kwargs):
            return func(*args, **kwargs)
        if self._is_followed(func, args, kwargs):
            return args[0] if isinstance(args[0], torch.Tensor) else None
        written = [*_written(func, args, kwargs)]
        if any(map(self._is_watched, written)):
            return _as_returned(func, written)
        return func(*args, **kwargs)

    def _is_followed(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> bool:
        """Note what an operation writes, or its name."""
        try:
            others = self._any_watched(args[1:], kwargs)
            if others or not all(map(self._is_watched, _tensors(args[:1], {}))):
                raise NotJudgedError(str(func.name()))
            for write in writes_of(func, args, kwargs):
                self._note(write, _caller())
        except NotJudgedError as error:
            self.touched.append(str(error))
            return False
        return True

    def _any_watched(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        return any(map(self._is_watched, _tensors(args, kwargs)))

    def _is_watched(self, tensor: torch.Tensor) -> bool:
        if not tensor.is_cpu or tensor.layout != torch.strided:
            return False
        return tensor.untyped_storage().data_ptr() in self._addresses


def _eager() -> AbstractContextManager[None]:
    stance: AbstractContextManager[None] = torch.compiler.set_stance("force_eager")
    return stance


def _caller() -> str:
    """Return file and line of whoever called torch."""
    frame = sys._getframe(1)  # noqa: SLF001 - `inspect` is far slower
    while frame.f_back and frame.f_code.co_filename.startswith(_NOT_THE_SUBJECT):
        frame = frame.f_back
    return f"{_name_of(frame.f_code.co_filename)}:{frame.f_lineno}"


@cache
def _name_of(path: str) -> str:
    return PurePath(path).name


def _tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[torch.Tensor]:
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, torch.Tensor))


def _written(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[torch.Tensor]:
    """Yield the tensors that an operation writes."""
    for index, name in _write_arguments(func):
        value = args[index] if index < len(args) else kwargs.get(name)
        for tensor in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(tensor, torch.Tensor):
                yield tensor


def _as_returned(func: Any, written: list[torch.Tensor]) -> Any:  # Any: as torch's
    """Return what an operation returns that hands back what it wrote: none, or some."""
    count = len(func._schema.returns)  # noqa: SLF001 - torch has no public way to ask
    if count > 1:
        return tuple(written[:count])
    return written[0] if count else None


@cache
def _write_arguments(func: Any) -> tuple[tuple[int, str], ...]:
    """Return index and name of the arguments that an operation writes."""
    schema: Any = func._schema  # noqa: SLF001 - torch has no public way to ask
    return tuple(
        (index, argument.name)
        for index, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
