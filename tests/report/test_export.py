"""Exported scripts, read and run: each alone, where kvzero cannot be imported."""

import ast
import builtins
import dis
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType

import pytest
import torch

from kvzero.campaign.verify import preset_case
from kvzero.case import Call, Case, IdRun, Placement
from kvzero.codec import Finding
from kvzero.errors import SubjectError
from kvzero.layout import Allocation, Axis, Layout, Run, Tile
from kvzero.presets import load_preset
from kvzero.report.export import Export, script
from kvzero.subjects.registry import find_subject, subject_names

PACKED = Layout(2, (Allocation(32),), (Run(8, 16), Run(8, 16, 8)))
LONG_PAGE = Layout(2, (Allocation(16400),), (Run(4100, 8200),))
ALONE = (
    "import runpy, sys; sys.modules['kvzero'] = None; sys.path.insert(0, sys.argv[2]); "
    "runpy.run_path(sys.argv[1], run_name='__main__')"
)
WITHOUT_GPU = pytest.mark.skipif(
    torch.cuda.is_available(), reason="says what shows without a GPU"
)


def exported(name: str, layout: Layout, *calls: Call, found: str = "") -> str:
    case = Case(layout, calls or (Call((IdRun(1),)),))
    return script(export_of(name, case, found))


def export_of(name: str, case: Case, found: str = "") -> Export:
    finding = Finding(found, "fault", "what", name, "footprint") if found else None
    return Export(case, find_subject(name), name, finding, "case.json")


def run_alone(text: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a script in a fresh interpreter in which kvzero cannot be imported."""
    path = folder / "exported.py"
    path.write_text(text, encoding="utf-8")
    command = [sys.executable, "-I", "-c", ALONE, str(path), str(folder)]
    return subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env={},
        cwd=folder,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layout", "first"),
    [
        ("tail-not-written", LONG_PAGE, "byte 4096 of its page) = 0x"),
        (
            "page-as-stride",
            PACKED,
            "byte 8 (block 0, segment 1, byte 0 of its page) = 0x00",
        ),
        ("view-page-as-stride", PACKED, "but must stay untouched"),
    ],
)
def test_script_shows_a_fault_by_itself(
    tmp_path: Path, name: str, layout: Layout, first: str
) -> None:
    ran = run_alone(exported(name, layout), tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert ran.stdout.endswith("THE FAULT SHOWS\n")
    assert first in ran.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kvzero", "masked-3d", "view-table"])
def test_script_of_a_correct_subject_shows_no_fault(tmp_path: Path, name: str) -> None:
    layout = Layout(
        4,
        (Allocation(4096, 2),),
        (Run(24, 64, 8, axes=(Axis(2, 1024), Axis(2, 0, 1))),),
    )
    ids = (IdRun(3), IdRun(0, 3))
    calls = (
        Call(ids),
        Call((), "array"),
        Call((IdRun(2, 2, 0),), "tensor", "int16", 1, 2),
    )
    ran = run_alone(exported(name, layout, *calls), tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.endswith("the fault does not show: all bytes are right\n")


@pytest.mark.slow
@WITHOUT_GPU
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("narrow-z", "on NVIDIA it is skipped, with no error"),
        ("flat-1d", "on NVIDIA it is rejected"),
    ],
)
def test_script_says_what_becomes_of_a_launch_that_this_machine_cannot_make(
    tmp_path: Path, name: str, words: str
) -> None:
    preset = load_preset("vllm_pr52058_dsv4_181seg_9344_292")
    text = script(export_of(name, preset_case(preset), "launches_fit_the_platform"))
    ran = run_alone(text, tmp_path)
    assert (ran.returncode, ran.stderr) == (3, "")
    assert "2,904,745,920 programs, -1,390,221,376 as a signed 32-bit int" in ran.stdout
    assert words in ran.stdout
    assert "CANNOT SHOW IT HERE: what becomes of these launches shows on" in ran.stdout


@pytest.mark.slow
@WITHOUT_GPU
def test_script_says_that_a_false_promise_needs_a_gpu(tmp_path: Path) -> None:
    text = exported("kvzero", PACKED, found="promises_hold")
    ran = run_alone(text, tmp_path)
    assert ran.returncode == 3
    assert "CANNOT SHOW IT HERE: Triton's interpreter ignores promises" in ran.stdout


@pytest.mark.slow
def test_script_shows_that_bad_ids_are_accepted(tmp_path: Path) -> None:
    text = exported("ids-not-validated", PACKED, Call((IdRun(2),)))
    ran = run_alone(text, tmp_path)
    assert ran.returncode == 1
    assert "bad ids were accepted, but must be refused" in ran.stdout


@pytest.mark.slow
@WITHOUT_GPU
def test_script_survives_a_zeroer_that_kills_its_process(tmp_path: Path) -> None:
    text = exported("masked-3d", PACKED).replace("CALLS = [([1]", "CALLS = [([2**40]")
    ran = run_alone(text, tmp_path)
    assert ran.returncode == 1
    assert ran.stdout.endswith("the process died of signal 11\nTHE FAULT SHOWS\n")


FOREIGN = """\
from kvzero import Contract, MadeSubject

class Half:
    def __init__(self, pool):
        self.pool = pool

    def zero(self, ids):
        for run in self.pool.layout.runs:
            memory = self.pool.tensors[run.allocation]
            for i in ids:
                begin = run.offset_bytes + i * run.stride_bytes
                memory[begin : begin + run.page_bytes // 2] = 0

ZEROER = MadeSubject("half", Contract(uses_triton=False), Half)
"""


@pytest.mark.slow
def test_script_imports_a_foreign_subject_without_kvzero(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_zeroer.py").write_text(FOREIGN)
    monkeypatch.syspath_prepend(str(tmp_path))
    ran = run_alone(exported("half_zeroer:ZEROER", PACKED), tmp_path)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "byte 20 (block 1, segment 0, byte 4 of its page)" in ran.stdout
    reading_more = FOREIGN.replace(".layout.runs", ".layout.tiles")
    (tmp_path / "half_zeroer.py").write_text(reading_more)
    ran = run_alone((tmp_path / "exported.py").read_text(), tmp_path)
    assert ran.returncode == 3
    assert "the zeroer reads CaseLayout.tiles, which is not offered here" in ran.stdout
    (tmp_path / "half_zeroer.py").unlink()
    ran = run_alone((tmp_path / "exported.py").read_text(), tmp_path)
    assert ran.returncode == 3
    assert "No module named 'half_zeroer'" in ran.stdout


@pytest.mark.parametrize("name", sorted({*subject_names()} - {"vllm"}))
def test_script_of_every_subject_defines_all_that_it_uses(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "exported.py"
    path.write_text(exported(name, PACKED), encoding="utf-8")
    assert not imports_kvzero(path.read_text())
    # Only now: kvzero's own kernels, once defined so, would stay interpreted.
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    module = loaded(path, monkeypatch)
    code = compile(path.read_text(), str(path), "exec")
    known = {*vars(module), *vars(builtins)}
    assert {used for used in globals_used(code) if used not in known} == set()


def imports_kvzero(text: str) -> bool:
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in getattr(node, "names", [])]
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        if any(str(each).split(".")[0] == "kvzero" for each in names):
            return True
    return False


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = spec_from_file_location("exported", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "exported", module)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


def globals_used(code: CodeType) -> Iterator[str]:
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and isinstance(step.argval, str):
            inside_class = step.opname == "LOAD_NAME" and code.co_name != "<module>"
            if not inside_class:
                yield step.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from globals_used(constant)


def test_script_holds_the_case_as_plain_numbers() -> None:
    layout = load_preset("vllm_pr52058_dsv4_181seg_9344_292").layout()
    text = exported("masked-3d", layout, Call((IdRun(6870, 6870, -1),)))
    assert "NUM_BLOCKS = 6871\nALLOCATION_BYTES = [24478349760]\n" in text
    assert (
        "    (90, 39168, 0, [(0, 0, 3562560, 37376), (0, 37440, 3562560, 1168)]),\n"
        in text
    )
    assert "    ([*range(6870, 0, -1)], 'list', 'int64', 0, 1, False),\n" in text


def test_script_of_65536_segments_stays_small() -> None:
    layout = load_preset("lhbnc_mha_block2048_65536_segments").layout()
    text = exported("masked-3d", layout)
    assert len(text.splitlines()) < 2500


def test_script_says_where_gaps_were_cut() -> None:
    layout = Layout(1, (Allocation(8, 2),), (Run(8, 8, axes=(Axis(2, 0, 1),)),))
    case = Case(layout, (Call((IdRun(0),)),), placement=Placement(gap_bytes=2**40))
    text = script(export_of("masked-3d", case))
    assert "# Their distance was cut; in the case they lie farther apart." in text


def test_script_holds_padding_only_where_it_may_be_touched() -> None:
    layout = Layout(2, (Allocation(32),), (Run(8, 16),), (Tile(16, 2),))
    for may_be, padding in ((True, "[(1, 0, 0, [(0, 0, 16, 2)])]"), (False, "[]")):
        case = Case(layout, (), padding_may_be_touched=may_be)
        assert f"PADDING = {padding}\n" in script(export_of("masked-3d", case))


@pytest.mark.parametrize(
    "words", ['"""\nimport os', "\\", "é\u2028import os", "x" * 900]
)
def test_script_keeps_words_of_a_file_in_comments(words: str) -> None:
    case = Case(PACKED, (Call((IdRun(1),)),))
    found = Finding("p", "fault", "w", "masked-3d", "footprint", failure=words)
    export = Export(case, find_subject("masked-3d"), "masked-3d", found, words)
    lines = script(export).splitlines()
    ast.parse("\n".join(lines))
    first = next(i for i, line in enumerate(lines) if line.startswith("# case "))
    last = lines.index("", first)
    assert all(line.startswith("# ") and len(line) <= 88 for line in lines[first:last])


def test_script_refuses_a_foreign_subject_that_cannot_be_imported_by_name() -> None:
    half = find_subject("masked-3d")
    unnamed = type("Unnamed", (), {"name": "x", "contract": half.contract})()
    case = Case(PACKED, (Call((IdRun(1),)),))
    with pytest.raises(SubjectError, match="must be module:attribute"):
        script(Export(case, unnamed, "x", None, "case.json"))
