import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
import torch
from hypothesis import given

from kvzero.campaign.judging import Judge
from kvzero.campaign.verify import preset_cases, verify
from kvzero.case import Call, Case, IdRun
from kvzero.casefile import read_case_file
from kvzero.errors import EnvironmentMissingError
from kvzero.executors import executor_named
from kvzero.layout import Allocation, Layout, Run, View
from kvzero.memory import Pool
from kvzero.properties.registry import judge
from kvzero.properties.terms import outside_contract
from kvzero.properties.verdict import Broken
from kvzero.strategies import cases, view_layouts
from kvzero.strategies.sampling import drawn
from kvzero.subjects.protocol import Contract, HasNotes, MadeSubject
from kvzero.subjects.registry import find_subject
from kvzero.subjects.vllm import release as vllm_release
from kvzero.subjects.vllm.engine import engine_of, families_of
from kvzero.subjects.vllm.release import Release, installed_release
from kvzero.subjects.vllm.subject import CONTRACT, VllmSubject, VllmZeroer
from tests.subjects.stand_in_vllm import UTILS, write_stand_in

REGRESSIONS = Path(__file__).parents[2] / "regressions"
needs_vllm = pytest.mark.skipif(
    find_spec("vllm") is None, reason="vllm is not installed here: tox -e vllm has it"
)


@dataclass
class Group:
    backend: Any
    layer_names: list[str]
    kv_cache_spec: Any
    kv_cache_group_id: int


@dataclass
class RecordingZeroer:
    """Keeps what a zeroer is given."""

    device: torch.device
    attn_groups_iter: Iterator[Any]
    kernel_block_sizes: list[int]
    static_forward_context: dict[str, Any]
    num_blocks: int

    def __post_init__(self) -> None:
        self.calls: list[object] = []
        self._meta = (torch.zeros(1), torch.zeros(2), 7)

    def zero_block_ids(self, block_ids: list[int]) -> None:
        self.calls.append(block_ids)

    def warmup(self, num_kv_blocks: int) -> None:
        self.calls.append(("warmup", num_kv_blocks))


RECORDING = Release(
    "0.33.0", RecordingZeroer, Group, SimpleNamespace, object, ("a note",)
)


def pool_of(layout: Layout) -> Pool:
    tensors = [torch.zeros(int(n), dtype=torch.uint8) for n in layout.allocation_sizes]
    return Pool(layout, tuple(tensors), torch.device("cpu"))


@given(layout=view_layouts(alignment_bytes=4).filter(lambda x: x.num_blocks < 1000))
def test_vllm_layers_are_the_views_with_blocks_first(layout: Layout) -> None:
    if layout.allocation_sizes.sum() > 2**26:
        return
    pool = pool_of(layout)
    layers = engine_of(pool, RECORDING).static_forward_context.values()
    assert len(layers) == len(layout.views)
    for view, tensor, layer in zip(layout.views, pool.views, layers):
        expected = tensor.movedim(view.block_dim, 0)
        assert layer.kv_cache.data_ptr() == expected.data_ptr()
        assert layer.kv_cache.shape == expected.shape
        assert layer.kv_cache.stride() == expected.stride()
        assert layer.kv_cache.dtype == expected.dtype


@given(layout=view_layouts(alignment_bytes=4).filter(lambda x: x.num_blocks < 1000))
def test_vllm_groups_name_every_layer_once_with_its_split(layout: Layout) -> None:
    if layout.allocation_sizes.sum() > 2**26:
        return
    engine = engine_of(pool_of(layout), RECORDING)
    names = [name for group in engine.attn_groups for name in group.layer_names]
    assert names == list(engine.static_forward_context)
    for index, group in enumerate(engine.attn_groups):
        split = layout.views[index].kernel_blocks_per_block
        assert group.kv_cache_group_id == index
        tokens = engine.kernel_block_sizes[index]
        assert group.kv_cache_spec.block_size == tokens * split


def test_views_evenly_apart_are_one_family() -> None:
    view = View((4, 16), (64, 1), "uint8")
    views = [replace(view, offset_bytes=16 * i) for i in (0, 1, 2, 4)]
    views.append(replace(view, offset_bytes=80, dtype="float32"))
    found = [(f.size, f.step_bytes) for f in families_of(views)]
    assert found == [(3, 16), (1, 0), (1, 0)]


def test_vllm_zeroer_hands_over_what_the_runner_does() -> None:
    layout = Layout(3, (Allocation(64),), (Run(8, 16),))
    zeroer = VllmSubject(RECORDING).build(pool_of(layout))
    inner = zeroer._zeroer
    assert inner.num_blocks == 3
    zeroer.warmup()
    zeroer.zero([1, 2])
    assert inner.calls == [("warmup", 3), [1, 2]]
    assert [part.numel() for part in zeroer.extra_memory] == [1, 2]


def test_vllm_subject_has_notes_beside_its_verdict() -> None:
    subject = VllmSubject(RECORDING)
    assert isinstance(subject, HasNotes)
    assert subject.notes == ("a note",)


def test_cases_that_vllm_cannot_express_are_not_drawn() -> None:
    for case in drawn(cases(contract=CONTRACT), 100):
        assert case.layout.num_blocks
        assert outside_contract(case, CONTRACT) is None


def test_an_empty_cache_is_outside_the_contract() -> None:
    case = Case(Layout(0, (Allocation(4),), ()), (Call(()),))
    assert outside_contract(case, CONTRACT) == (
        "outside the contract: the cache has fewer than 1 blocks"
    )


# What an installed vLLM is refused for.


@pytest.fixture
def fresh_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Release]]:
    """Yield a function that writes a stand-in and asks for the release."""
    for name in [n for n in sys.modules if n.split(".")[0] == "vllm"]:
        monkeypatch.delitem(sys.modules, name)

    def ask(**given_as: Any) -> Release:  # Any: arguments of `write_stand_in`
        write_stand_in(tmp_path, **given_as)
        monkeypatch.syspath_prepend(str(tmp_path))
        return installed_release()

    installed_release.cache_clear()
    yield ask
    installed_release.cache_clear()
    for name in [n for n in sys.modules if n.split(".")[0] == "vllm"]:
        del sys.modules[name]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {  # Any: of a stand-in
    "old": ({"version": "0.32.9"}, r"^vllm=0\.32\.9, but must be 0\.33\.0 or newer"),
    "unreadable": ({"version": "main"}, r"^vllm=main, but must be 0\.33\.0 or newer"),
    "no class": (
        {"utils": "class AttentionGroup: ..."},
        r"^vllm=0\.33\.0, but vllm\.v1\.worker\.utils must have KVBlockZeroer: it has",
    ),
    "no group": (
        {"utils": UTILS.replace("AttentionGroup", "Another")},
        r"must have AttentionGroup: it has moved",
    ),
    "other constructor": (
        {"utils": UTILS.replace("num_blocks, ", "")},
        r"must take \(device, .*\): kvzero does not know this version$",
    ),
    "no method": (
        {"utils": UTILS.replace("zero_block_ids", "zero")},
        r"^vllm=0\.33\.0: KVBlockZeroer lacks zero_block_ids",
    ),
    "no Triton": (
        {"triton": False},
        r"^vllm=0\.33\.0 was imported without Triton, .* an empty CUDA_VISIBLE_DEVICES",
    ),
    "a missing package": (
        {"utils": "import a_package_that_is_not_there"},
        r"^vllm=0\.33\.0, but vllm\.v1\.worker\.utils cannot be imported: "
        r"ModuleNotFoundError: No module named 'a_package_that_is_not_there'",
    ),
    "an import that exits": (
        {"utils": "raise SystemExit('no')"},
        r"cannot be imported: SystemExit: no",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_unknown_vllm_is_refused_in_one_line(
    fresh_import: Callable[..., Release], name: str
) -> None:
    given_as, words = REFUSED[name]
    with pytest.raises(EnvironmentMissingError, match=words) as refused:
        fresh_import(**given_as)
    assert "\n" not in str(refused.value)


def test_a_vllm_that_is_not_installed_is_said_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> NoReturn:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(vllm_release, "version", missing)
    installed_release.cache_clear()
    with pytest.raises(EnvironmentMissingError, match=r"^vllm is not installed, but"):
        find_subject("vllm")


def test_a_known_vllm_is_imported_with_no_visible_device_and_its_differences_told(
    fresh_import: Callable[..., Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    found = fresh_import()
    assert sys.modules["vllm.v1.worker.utils"].visible_devices == ""
    assert not sys.modules["vllm.utils.torch_utils"].PIN_MEMORY
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "3"
    assert found.notes == (
        "vllm 0.33.0: vllm.v1.worker.utils.KVBlockZeroer, unmodified",
        f"vllm 0.33.0 asks for torch 0.0.1; this is {torch.__version__}",
        "no GPU: ids are staged in pageable memory, not in pinned memory",
    )


def test_a_vllm_without_its_compiled_part_is_imported_without_a_platform(
    fresh_import: Callable[..., Release], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    note = fresh_import().notes[-1]
    assert note == (
        "vllm._C_stable_libtorch is not here: vllm was imported as on an unknown "
        "platform"
    )
    platform = sys.modules["vllm.platforms"]._current_platform
    assert type(platform).__name__ == "UnspecifiedPlatform"


def test_a_newer_vllm_with_the_same_constructor_is_taken_with_a_note(
    fresh_import: Callable[..., Release],
) -> None:
    notes = fresh_import(version="0.34.1").notes
    assert "vllm 0.34.1 is newer than 0.33, the last that was read" in notes


# What the contract of such a class asks of the harness.


class WarmsUpOnBlock0(VllmZeroer):
    """Zeroes block 0 in its warm-up, as vLLM does."""

    def __init__(self, pool: Pool) -> None:
        self.inner = find_subject("masked-3d").build(pool)

    def warmup(self) -> None:
        self.inner.zero([0])

    def zero(self, block_ids: list[int]) -> None:
        self.inner.zero(block_ids)


@pytest.mark.slow
@pytest.mark.parametrize(("reserved", "holds"), [(0, True), (1, False), (None, False)])
def test_a_warm_up_may_zero_the_reserved_block_and_no_other(
    reserved: int | None, *, holds: bool
) -> None:
    contract = Contract(alignment_bytes=4, checks_ids=False, reserved_block=reserved)
    subject = MadeSubject("warms-up-on-0", contract, WarmsUpOnBlock0)
    layout = Layout(3, (Allocation(64),), (Run(8, 16),))
    case = Case(layout, (Call((IdRun(2),)),))
    seen = executor_named("footprint").run(subject, case)
    broken = [r for r in judge(case, seen, contract) if isinstance(r, Broken)]
    assert (not broken) == holds
    assert {r.property for r in broken} <= {"unlisted_bytes_are_untouched"}


def test_ids_of_a_preset_arrive_as_the_subject_takes_them() -> None:
    contract = Contract(4, arrivals=("list",), checks_ids=False)
    made = find_subject("masked-3d")
    subject = MadeSubject("lists-only", contract, made.build)
    (chosen,) = preset_cases("trtllm_llama3_8b_pool")
    tally = verify(
        Judge(subject, executor_named("footprint")), [chosen], lambda _: None
    )
    assert tally.judged["listed_pages_are_zero"] == 1


# With the real one.


@needs_vllm
@pytest.mark.slow
def test_vllm_zeroes_the_pages_of_a_real_layout() -> None:
    subject = find_subject("vllm")
    case = Case(
        Layout(8, (Allocation(8 * 1168),), (Run(1168, 1168),)), (Call((IdRun(3),)),)
    )
    seen = executor_named("footprint").run(subject, case)
    broken = [r for r in judge(case, seen, CONTRACT) if isinstance(r, Broken)]
    assert broken == []
    assert seen.calls[0].stored_bytes == 1168


def vllm_findings() -> list[Path]:
    files = sorted(REGRESSIONS.rglob("*.json"))
    return [
        f for f in files if getattr(read_case_file(f).found, "subject", 0) == "vllm"
    ]


@needs_vllm
@pytest.mark.slow
@pytest.mark.parametrize("path", vllm_findings(), ids=lambda path: path.stem)
def test_a_finding_of_vllm_still_shows(path: Path) -> None:
    file = read_case_file(path)
    assert file.found is not None
    judged = Judge(find_subject("vllm"), executor_named("footprint"))(file.case)
    shown = {(v.property, v.kind, v.what) for v in judged.violations}
    assert (file.found.property, file.found.kind, file.found.what) in shown
