"""Every list of ids inside the cache is taken, and nothing else, before any launch."""

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kvzero.errors import BlockIdError, KvzeroError
from kvzero.zeroer import KVBlockZeroer
from kvzero.zeroer.block_ids import (
    LONG_LIST,
    check_device_block_ids,
    host_block_ids,
)

BLOCKS = 4
DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def forms(ids: list[int], dtype: str) -> Iterator[Any]:
    """Yield a list of ids in every form that a caller may have."""
    yield ids
    yield tuple(ids)
    yield np.array(ids, dtype)
    yield np.array([b for i in ids for b in (i, 0)], dtype)[::2]
    yield torch.from_numpy(np.array(ids, dtype))
    yield torch.from_numpy(np.array([b for i in ids for b in (0, i)], dtype))[1::2]
    yield [np.dtype(dtype).type(i) for i in ids]
    yield array("q", ids)


def taken(block_ids: object, num_blocks: int) -> list[int]:
    """Return the ids of a list's bytes, read as the host's int64."""
    ids = np.frombuffer(host_block_ids(block_ids, num_blocks), np.int64)
    return [int(block_id) for block_id in ids]


@given(st.lists(st.integers(0, 99)), st.sampled_from(DTYPES))
def test_ids_inside_the_cache_are_taken_in_order(ids: list[int], dtype: str) -> None:
    for form in forms(ids, dtype):
        assert taken(form, 100) == ids


@given(st.lists(st.integers(-(2**70), 2**70) | st.integers(-2, 101)))
def test_first_id_outside_the_cache_is_named(ids: list[int]) -> None:
    bad = [i for i, block_id in enumerate(ids) if not 0 <= block_id < 100]
    if not bad:
        assert taken(ids, 100) == ids
        return
    with pytest.raises(BlockIdError) as error:
        host_block_ids(ids, 100)
    assert str(error.value).startswith(
        f"block_ids[{bad[0]}]={ids[bad[0]]}, but must be in range(num_blocks=100)"
    )


@pytest.mark.parametrize("good", [0, 1, LONG_LIST, 3000])
@pytest.mark.parametrize("first", [-1, 100, 2**64, -(2**64)])
def test_first_bad_id_is_found_in_a_long_list(good: int, first: int) -> None:
    ids = [99] * good + [first] + [1] * 3000 + [2**70]
    with pytest.raises(BlockIdError) as error:
        host_block_ids(ids, 100)
    assert str(error.value).startswith(f"block_ids[{good}]={first}, but must be in")


anything = (
    st.integers(-3, 2**33 + 3)
    | st.booleans()
    | st.floats()
    | st.none()
    | st.text("i", max_size=12)
    | st.binary(max_size=12)
    | st.lists(st.integers(0, 3), max_size=3)
    | st.integers(0, 3).map(np.int64)
    | st.sampled_from([np.True_, np.zeros(5, np.uint8), torch.tensor(1)])
)


@given(st.lists(anything, max_size=4), st.integers(0, LONG_LIST + 8), st.booleans())
def test_long_lists_are_judged_element_by_element(
    ids: list[Any], zeros: int, as_tuple: bool
) -> None:
    long = [0] * zeros + ids + [0] * LONG_LIST
    given_ids = tuple(long) if as_tuple else long
    if all(type(i) in (int, np.int64) and 0 <= i < 2**33 for i in ids):
        assert taken(given_ids, 2**33) == long
        return
    with pytest.raises(BlockIdError, match=r"^block_ids\[\d+\]="):
        host_block_ids(given_ids, 2**33)


@given(st.integers(-3, 12), st.integers(-3, 12), st.integers(-4, 4).filter(bool))
def test_range_is_judged_like_its_list(start: int, stop: int, step: int) -> None:
    ids = range(start, stop, step)
    bad = [i for i, block_id in enumerate(ids) if not 0 <= block_id < 9]
    if not bad:
        assert taken(ids, 9) == list(ids)
        return
    with pytest.raises(BlockIdError, match=rf"^block_ids\[{bad[0]}\]={ids[bad[0]]},"):
        host_block_ids(ids, 9)


OUTSIDE = "but must be in range\\(num_blocks=4\\)"
INTEGER = "but must be an integer dtype"
FLAT = "but must have one dimension"
REFUSED: dict[str, tuple[object, str]] = {
    "too large": (
        [0, 4],
        rf"^block_ids\[1\]=4, {OUTSIDE}: block ids count from 0 within",
    ),
    "negative": ([-1], rf"^block_ids\[0\]=-1, {OUTSIDE}"),
    "beyond int64": ([1, 2**63], rf"^block_ids\[1\]=9223372036854775808, {OUTSIDE}"),
    "below int64": (
        [-(2**63) - 1],
        rf"^block_ids\[0\]=-9223372036854775809, {OUTSIDE}",
    ),
    "unprintable": (
        [10**5000],
        r"^block_ids\[0\]=an int of 16610 bits, but must be in",
    ),
    "bool": (
        [0, True],
        r"^block_ids\[1\]=True, but must be an int: a bool is no block id",
    ),
    "NumPy bool": ([np.True_], r"^block_ids\[0\]=np.True_, but must be an int"),
    "float": (
        [1.0],
        r"^block_ids\[0\]=1.0, but must be an int: a float is no block id",
    ),
    "NaN": ((0, float("nan")), r"^block_ids\[1\]=nan, but must be an int"),
    "None inside": ([None], r"^block_ids\[0\]=None, but must be an int"),
    "text inside": (["1"], r"^block_ids\[0\]='1', but must be an int"),
    "list inside": ([[1]], r"^block_ids\[0\]=\[1\], but must be an int"),
    "tensor inside": (
        [torch.tensor(1)],
        r"^block_ids\[0\]=tensor\(1\), but must be an",
    ),
    "None": (
        None,
        r"^block_ids=None, but must be a list, tuple, range, array or tensor",
    ),
    "number": (1, r"^block_ids=1, but must be a list"),
    "text": ("01", r"^block_ids='01', but must be a list"),
    "bytes": (b"\x01", r"^block_ids=b'\\x01', but must be a list"),
    "set": ({1}, r"^block_ids=\{1\}, but must be a list"),
    "iterator": (iter([1]), r"^block_ids=<list_iterator .*>, but must be a list"),
    "endless range": (range(10**30), rf"^block_ids\[4\]=4, {OUTSIDE}"),
    "range downwards": (range(2, -2, -1), rf"^block_ids\[3\]=-1, {OUTSIDE}"),
    "uint64": (
        np.array([0, 2**64 - 1], np.uint64),
        rf"^block_ids\[1\]=18446744073709551615, {OUTSIDE}",
    ),
    "uint64 tensor": (
        torch.from_numpy(np.array([2**63], np.uint64)),
        rf"^block_ids\[0\]=9223372036854775808, {OUTSIDE}",
    ),
    "int8": (np.array([3, -1], np.int8), rf"^block_ids\[1\]=-1, {OUTSIDE}"),
    "uint8 tensor": (
        torch.tensor([9], dtype=torch.uint8),
        rf"^block_ids\[0\]=9, {OUTSIDE}",
    ),
    "bool array": (np.array([True]), rf"^block_ids.dtype=bool, {INTEGER}"),
    "bool tensor": (torch.tensor([True]), rf"^block_ids.dtype=torch.bool, {INTEGER}"),
    "float array": (np.array([1.7]), rf"^block_ids.dtype=float64, {INTEGER}"),
    "float tensor": (
        torch.tensor([1.0]),
        rf"^block_ids.dtype=torch.float32, {INTEGER}",
    ),
    "bfloat16": (
        torch.ones(1, dtype=torch.bfloat16),
        rf"^block_ids.dtype=torch.bfloat16, {INTEGER}",
    ),
    "object array": (np.array([1, None]), rf"^block_ids.dtype=object, {INTEGER}"),
    "2-D array": (np.zeros((2, 2), np.int64), rf"^block_ids.shape=\(2, 2\), {FLAT}"),
    "0-D array": (np.array(1), rf"^block_ids.shape=\(\), {FLAT}"),
    "2-D tensor": (
        torch.zeros(1, 2, dtype=torch.int64),
        rf"^block_ids.shape=\(1, 2\), {FLAT}",
    ),
    "0-D tensor": (torch.tensor(1), rf"^block_ids.shape=\(\), {FLAT}"),
    "other device": (
        torch.zeros(1, dtype=torch.int64, device="meta"),
        "^block_ids.device=meta, but must be cpu",
    ),
}


@pytest.mark.parametrize(("block_ids", "message"), REFUSED.values(), ids=REFUSED)
def test_zeroer_refuses_what_is_no_list_of_its_blocks(
    block_ids: object, message: str
) -> None:
    zeroer = KVBlockZeroer.from_segments([4096], [16], [8], BLOCKS, "cpu")
    with pytest.raises(BlockIdError, match=message) as error:
        zeroer.zero(block_ids)
    assert isinstance(error.value, KvzeroError)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    "block_ids",
    [[], (), range(0), range(5, 5), np.array([]), torch.tensor([]), array("q")],
    ids=repr,
)
@pytest.mark.parametrize("num_blocks", [0, 4])
def test_empty_list_launches_nothing(block_ids: object, num_blocks: int) -> None:
    # No Triton driver runs on host memory, so a launch would raise here.
    zeroer = KVBlockZeroer.from_segments([4096], [16], [8], num_blocks, "cpu")
    zeroer.zero(block_ids)


@pytest.mark.parametrize("dtype", DTYPES)
def test_result_holds_the_ids_not_a_conversion_of_another_byte_order(
    dtype: str,
) -> None:
    swapped = np.array([1, 3], np.dtype(dtype).newbyteorder())
    assert taken(swapped, 4) == [1, 3]


def test_device_ids_must_lie_with_the_cache() -> None:
    ids = torch.zeros(2, dtype=torch.int64, device="meta")
    with pytest.raises(
        BlockIdError, match=r"^block_ids.device=meta, but must be cuda:0 or"
    ):
        check_device_block_ids(ids, torch.device("cuda", 0))


def test_device_ids_must_be_aligned_to_their_elements() -> None:
    ids = torch.frombuffer(bytearray(17 * 8), dtype=torch.int64, offset=0, count=2)
    if ids.data_ptr() % 8 == 0:
        ids = torch.frombuffer(bytearray(17 * 8), dtype=torch.int64, offset=1, count=2)
    with pytest.raises(
        BlockIdError, match="but must begin at a multiple of its element"
    ):
        check_device_block_ids(ids, torch.device("cpu"))
