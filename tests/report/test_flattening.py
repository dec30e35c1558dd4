import pytest

from kvzero.errors import SubjectError
from kvzero.report.flattening import flatten
from kvzero.report.source_modules import Name

FAULT = Name("kvzero.subjects.faults.tail_not_written", "TailNotWrittenZeroer")
OURS = Name("kvzero.subjects.ours", "build")
STAND_INS = {
    Name("kvzero.memory", "Pool"): Name("kvzero.report.standalone.plain_case", "Pool")
}


def test_flatten_takes_the_kernel_and_what_it_needs_and_no_more() -> None:
    code = flatten([FAULT], STAND_INS).code
    for needed in (
        "def zero_tail_not_written",
        "def segment_row",
        "class Masked3DZeroer",
    ):
        assert needed in code
    for other in ("class Layout", "class Contract", "FAULT", "import kvzero"):
        assert other not in code


def test_flatten_keeps_comments_decorators_and_docstrings_of_constants() -> None:
    code = flatten([OURS], STAND_INS).code
    assert "@triton.jit(do_not_specialize=RUNTIME_ARGUMENTS)\ndef zero_chunks" in code
    assert "    # The aligned middle." in code
    assert 'CHUNK_BYTES = 4096\n"""Bytes of a window' in code


def test_flatten_names_the_imports_of_other_packages() -> None:
    imports = flatten([FAULT], STAND_INS).imports
    assert {"import triton", "import triton.language as tl"} <= set(imports)
    assert not any("kvzero" in statement for statement in imports)


def test_flatten_defines_every_name_before_its_use() -> None:
    flat = flatten([OURS], STAND_INS)
    order = [line.split()[1] for line in flat.code.splitlines() if line[:6] == "class "]
    assert order.index("KvzeroError(Exception):") < order.index("KVBlockZeroer:")


def test_flatten_leaves_out_methods_that_nothing_calls() -> None:
    code = flatten([OURS], STAND_INS).code
    assert "def from_segments(" in code
    assert "def from_tensors(" not in code


def test_flatten_renames_the_second_of_two_equal_names() -> None:
    first = Name("kvzero.zeroer.plan", "Launch")
    second = Name("kvzero.observation", "Launch")
    flat = flatten([first, second], STAND_INS)
    assert len({flat.names[first], flat.names[second]}) == 2
    for name in flat.names.values():
        assert f"class {name}:" in flat.code


def test_flatten_refuses_what_is_no_definition_of_the_module() -> None:
    with pytest.raises(SubjectError, match="must be a function, class or constant"):
        flatten([Name("kvzero.subjects.ours", "nowhere")], STAND_INS)
