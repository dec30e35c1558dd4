"""Errors: one root, the right second base, and no import."""

import ast
import inspect
import subprocess
import sys

import pytest

from kvzero import errors

PUBLIC = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, Exception)
]


@pytest.mark.parametrize("error", PUBLIC, ids=lambda e: e.__name__)
def test_every_error_has_one_root_and_says_what_it_is(error: type[Exception]) -> None:
    root = AssertionError if error is errors.PropertyFailure else errors.KvzeroError
    assert issubclass(error, root)
    assert error.__doc__
    assert error.__name__.endswith(("Error", "Failure"))


@pytest.mark.parametrize(
    "error", [errors.LayoutError, errors.CaseError, errors.BlockIdError]
)
def test_misuse_of_values_is_a_value_error(error: type[Exception]) -> None:
    assert issubclass(error, ValueError)


def test_a_broken_property_is_no_misuse() -> None:
    assert not issubclass(errors.PropertyFailure, errors.KvzeroError)


def test_errors_import_nothing() -> None:
    tree = ast.parse(inspect.getsource(errors))
    nodes = list(ast.walk(tree))
    assert not [n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))]


def test_the_data_layer_needs_neither_torch_nor_triton() -> None:
    modules = "kvzero.views, kvzero.presets, kvzero.casefile, kvzero.limits"
    code = (
        f"import sys, {modules}\n"
        "kvzero.presets.preset('vllm_llama3_8b_tp1_bf16', 3)\n"
        "sys.exit(repr({'torch', 'triton', 'hypothesis'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip() == "set()"
