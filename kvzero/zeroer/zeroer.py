"""The zeroer of a paged KV cache: one table made once, one launch a call.

All that depends on the layout is precomputed into a table of chunks on the device. A
call adds block ids to it and queues one launch (more only beyond the limits of a
platform) on the caller's current stream; it waits for nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from kvzero.errors import CaptureError, LayoutError
from kvzero.layout import MAX_BLOCKS, check_int
from kvzero.limits import INT32_MAX
from kvzero.views import layout_of_tensors, storages_of
from kvzero.zeroer.block_ids import (
    ID_BYTES,
    are_as_kernels_read_them,
    check_device_block_ids,
    host_block_ids,
)
from kvzero.zeroer.chunks import (
    CHUNK_BYTES,
    LINE_BYTES,
    MORE_BYTES,
    ROW_FIELDS,
    Integers,
    Segments,
    checked_segments,
    chunk_table,
    merged,
)
from kvzero.zeroer.homes import converted, home_of
from kvzero.zeroer.kernels import zero_chunks
from kvzero.zeroer.plan import (
    NUM_WARPS,
    PROGRAM_BYTES,
    Launch,
    blocks_of_a_program,
    plan_launches,
)
from kvzero.zeroer.quick_kernel import QuickKernel

BIG_PAGE_BYTES = 2**18
"""Page that holds a block's average byte from which its rows run together. Where rows
are single chunks of pages of 2 MiB it was 1.16 times as fast so on an H200,
and of 37,376 B 0.94 times; where a row is a page, either order is as fast."""
NOWHERE = np.array([-1], np.int64).tobytes()
"""A block list that zeroes nothing."""
MOST_PREPARED = 256
"""Lengths of block lists whose launches a zeroer keeps ready."""

NestedTensors = Sequence[torch.Tensor | Sequence[torch.Tensor]]


class KVBlockZeroer:
    """Zeroes the pages of listed blocks, and no other byte.

    Make one with `from_tensors` or `from_segments`, call `warmup` before the first
    request, then `zero` once a step. Calls are asynchronous on the caller's current
    stream of the cache's device, whatever torch's current device is.

    Attributes:
        num_blocks: Blocks of the cache; block ids count from 0.
        device: Where the cache lies.
        num_chunks: Chunks of one block; a program zeroes one, of a block or a few.
    """

    def __init__(
        self,
        segments: Segments,
        num_blocks: int,
        device: torch.device | str | int,
        owners: tuple[torch.Tensor, ...] = (),
    ) -> None:
        """Make the table; it is ready for every stream when the constructor returns.

        Args:
            segments: What to zero, as `checked_segments` returns it.
            num_blocks: Blocks of the cache.
            device: Where it lies.
            owners: Tensors to keep alive, since the table holds their addresses.
        """
        joined = merged(segments)
        table = chunk_table(joined)
        self.num_blocks = num_blocks
        self.num_chunks = table.num_chunks
        self._groups = table.groups
        self._owners = owners
        self._home = home_of(device)
        self.device = self._home.device
        self._block_bytes = int(joined.page_bytes.sum())
        self._several_blocks = self._block_bytes < PROGRAM_BYTES * self.num_chunks
        self._rows_inside = _runs_rows_together(joined)
        # Without a chunk there still is a row for the warm-up, which reads it.
        with self._home.current():
            self._rows = torch.from_numpy(
                table.rows if len(table.rows) else np.zeros((1, ROW_FIELDS), np.int64)
            ).to(self.device)
        self._kernel: QuickKernel | None = None
        self._prepared: dict[int, tuple[_Step, ...]] = {}
        self._is_warm = False

    @classmethod
    def from_tensors(
        cls,
        tensors: NestedTensors,
        *,
        block_dim: int | Sequence[int] = 0,
        kernel_blocks_per_block: int | Sequence[int] = 1,
    ) -> "KVBlockZeroer":
        """Make a zeroer for live KV tensors, which it keeps alive.

        Args:
            tensors: The tensors, or tuples of them: one entry a layer. Two that begin
                at one address are one, with the widest of their pages.
            block_dim: Dimension that counts blocks; one number, or one an entry.
            kernel_blocks_per_block: Entries of that dimension in one block; one number,
                or one an entry.

        Raises:
            LayoutError: The tensors are on several devices, do not have one number of
                blocks, or blocks share bytes.
        """
        layout = layout_of_tensors(
            tensors,
            block_dim=block_dim,
            kernel_blocks_per_block=kernel_blocks_per_block,
        )
        table = layout.table
        storages = np.array(storages_of(tensors), np.int64)
        owners = tuple(_flat(tensors))
        segments = Segments(
            storages[table.allocation] + table.offset_bytes,
            table.stride_bytes,
            table.page_bytes,
        )
        return cls(segments, layout.num_blocks, _common_device(owners), owners)

    @classmethod
    def from_segments(
        cls,
        addresses: Integers,
        strides_bytes: Integers,
        pages_bytes: Integers,
        num_blocks: int,
        device: torch.device | str | int,
    ) -> "KVBlockZeroer":
        """Make a zeroer from plain integers, one entry a segment.

        Block b of segment s is the ``pages_bytes[s]`` bytes from
        ``addresses[s] + b * strides_bytes[s]``. The caller keeps that memory alive.

        Args:
            addresses: Address of block 0 of each segment.
            strides_bytes: Bytes from one block to the next.
            pages_bytes: Bytes to zero in each block.
            num_blocks: Blocks of the cache.
            device: Where the memory lies.

        Raises:
            LayoutError: A number that no memory could have, or blocks that share bytes.
        """
        check_int("num_blocks", num_blocks, 0, MAX_BLOCKS)
        segments = checked_segments(addresses, strides_bytes, pages_bytes, num_blocks)
        return cls(segments, num_blocks, device)

    @property
    def extra_memory(self) -> tuple[torch.Tensor, ...]:
        """Return the memory beside the cache that the kernel reads."""
        return (self._rows,)

    def plan(self, n_blocks: int) -> tuple[Launch, ...]:
        """Return the launches that `zero` makes for that many ids, without making them.

        Args:
            n_blocks: Length of the block list, duplicates counted.

        Raises:
            LayoutError: That is no length of a list.
        """
        check_int("n_blocks", n_blocks, 0, INT32_MAX)
        return plan_launches(
            n_blocks,
            self._groups,
            rows_inside=self._rows_inside,
            blocks_each=blocks_of_a_program(
                n_blocks, self.num_chunks, self._block_bytes
            ),
        )

    def warmup(self) -> None:
        """Compile, load and launch everything that `zero` uses, without writing a byte.

        Raises:
            CaptureError: The current stream is being captured.
        """
        with self._home.current():
            stream = self._home.stream(self._rows)
            self._refuse_capture(stream, "warmup()", "call it before the capture")
            lane = self._home.lane(stream, 1)
            with lane.lock:
                nowhere = lane.put(NOWHERE)
                self._home.rehearse(nowhere[:1])
                # A row is there even where there is no chunk.
                step = self._step(Launch(range(1), range(1), first_row=0))
                self._run_first(step, nowhere)
            self._is_warm = True

    def zero(
        self,
        block_ids: Any,  # Any: whatever a caller has; checked here
    ) -> None:
        """Zero the pages of the listed blocks, on the current stream.

        The caller may change or free a list, array or host tensor as soon as this
        returns. A device tensor is read when the stream gets there; ids outside the
        cache then write nothing. One of contiguous int64 is used as it is, any other is
        converted on the device.

        A CUDA graph may capture calls with contiguous int64 ids on the device; zeroer
        and ids must then live as long as the graph.

        Args:
            block_ids: Ids in any order, duplicates allowed: a list, tuple or range of
                ints, or a one-dimensional array or tensor of any integer dtype, in host
                memory or on the cache's device.

        Raises:
            BlockIdError: An id of the host is outside the cache, or this is no list of
                ids. Nothing has been launched.
            CaptureError: The current stream is being captured, and the kernel is not
                warm or the ids are not contiguous int64 on the device.
        """
        if not self._home.is_current():
            with self._home.current():
                self.zero(block_ids)
        elif isinstance(block_ids, torch.Tensor) and not block_ids.is_cpu:
            self._zero_device_ids(block_ids)
        else:
            ids = host_block_ids(block_ids, self.num_blocks)
            if ids:
                self._zero_host_ids(ids)

    def _zero_host_ids(self, block_ids: bytes) -> None:
        stream = self._home.stream(self._rows)
        self._refuse_capture(
            stream,
            "block_ids of the host",
            "a replay would read them again: pass int64 ids on the device",
        )
        n_blocks = len(block_ids) // ID_BYTES
        lane = self._home.lane(stream, n_blocks)
        with lane.lock:
            self._launch(lane.put(block_ids), n_blocks, stream)

    def _zero_device_ids(self, block_ids: torch.Tensor) -> None:
        is_ready = are_as_kernels_read_them(block_ids, self.device)
        if not is_ready:
            check_device_block_ids(block_ids, self.device)
        n_blocks = block_ids.numel()
        if not n_blocks:
            return
        stream = self._home.stream(self._rows)
        if not is_ready:
            self._refuse_capture(
                stream,
                f"block_ids.dtype={block_ids.dtype}, stride={block_ids.stride()}",
                "a replay would not convert them: pass contiguous int64 ids",
            )
        if not self._is_warm:
            self._refuse_capture(
                stream, "first launch", "call warmup() before the capture"
            )
        # Their memory may belong to another stream, which would reuse it once its owner
        # drops it, before this stream has read it.
        self._home.hold(block_ids, stream)
        ids = block_ids if is_ready else converted(block_ids)
        self._launch(ids, n_blocks, stream)

    def _launch(self, block_ids: torch.Tensor, n_blocks: int, stream: int) -> None:
        """Queue the launches for the first `n_blocks` ids on the current stream."""
        for step in self._prepared.get(n_blocks) or self._prepare(n_blocks):
            if self._kernel is None:
                self._run_first(step, block_ids)
                continue
            _, x, y, z, rows, first_block, rest = step
            ids = self._home.pointer(block_ids, first_block)
            self._kernel.launch(x, y, z, stream, rows, ids, *rest)
        self._is_warm = True

    def _prepare(self, n_blocks: int) -> tuple["_Step", ...]:
        """Return the launches for a block list of that length, and keep them."""
        if len(self._prepared) >= MOST_PREPARED:
            self._prepared.clear()
        steps = tuple(self._step(launch) for launch in self.plan(n_blocks))
        self._prepared[n_blocks] = steps
        return steps

    def _step(self, launch: Launch) -> "_Step":
        rows = self._home.pointer(self._rows, launch.first_row * ROW_FIELDS)
        arguments = (
            self.num_blocks,
            len(launch.blocks),
            launch.blocks_each,
            int(launch.row_chunks == 1),
            int(launch.rows_inside),
            self._several_blocks,
            CHUNK_BYTES,
            MORE_BYTES,
            LINE_BYTES,
            ROW_FIELDS,
        )
        return _Step(launch, *launch.grid, rows, launch.blocks.start, arguments)

    def _run_first(self, step: "_Step", block_ids: torch.Tensor) -> None:
        """Make a launch through Triton's compiler, which has the kernel afterwards.

        Triton's interpreter compiles nothing, and comes here on every call.
        """
        first_row = step.launch.first_row
        compiled = zero_chunks[step.launch.grid](
            self._rows[first_row:],
            block_ids[step.first_block :],
            *step.rest,
            num_warps=NUM_WARPS,
        )
        if compiled is not None:
            self._kernel = QuickKernel(compiled)

    def _refuse_capture(self, stream: int, what: str, remedy: str) -> None:
        if self._home.is_capturing(stream):
            raise CaptureError(
                f"{what}, but must not be used in CUDA graph capture: {remedy}"
            )


class _Step(NamedTuple):
    """One launch, ready to be made.

    Attributes:
        launch: What it is.
        x: Its grid in x.
        y: Its grid in y.
        z: Its grid in z.
        rows: Its rows of the table, as a compiled kernel takes them.
        first_block: Its first position in the block list.
        rest: All arguments after the table and the ids.
    """

    launch: Launch
    x: int
    y: int
    z: int
    rows: Any  # Any: an address or a tensor, whatever `Home.pointer` returns
    first_block: int
    rest: tuple[int, ...]


def _flat(tensors: NestedTensors) -> Iterator[torch.Tensor]:
    """Yield the tensors of all entries."""
    for entry in tensors:
        if isinstance(entry, torch.Tensor):
            yield entry
        else:
            yield from entry


def _common_device(tensors: Sequence[torch.Tensor]) -> torch.device:
    for index, tensor in enumerate(tensors):
        if tensor.device != tensors[0].device:
            raise LayoutError(
                f"device of tensor {index}={tensor.device}, but must be "
                f"{tensors[0].device}: make one zeroer a device"
            )
    return tensors[0].device


def _runs_rows_together(segments: Segments) -> bool:
    """Return whether a block's rows run together, rather than a row's blocks.

    It is faster where a block's pages are big, or lie within one stride of each other.
    """
    address, stride, page = segments
    if not len(address):
        return True
    is_packed = address.max() - address.min() < stride.min()
    # By bytes, not by pages: one of 2 MiB among 180 of 1 KiB is what takes the time.
    page_of_average_byte = np.average(page, weights=page.astype(np.float64))
    return bool(is_packed or page_of_average_byte >= BIG_PAGE_BYTES)
