"""The verb `lifecycle`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvzero.cli import lifecycle as verb
from kvzero.cli.lifecycle import find_server
from kvzero.errors import SubjectError
from kvzero.subjects.block_server import BlockServer

Kvzero = Callable[..., Any]
ON_HOST = ("--subject", "torch-loop", "--executor", "host", "--max-examples", "10")


def test_lifecycle_exits_0_where_no_rule_is_broken(kvzero: Kvzero) -> None:
    ran = kvzero("lifecycle", *ON_HOST, "--json")
    assert ran.code == 0
    assert (ran.json["broken"], ran.json["not_judged"]) == (None, {})
    assert ran.json["checks"]["open"]


def test_lifecycle_exits_1_and_tells_the_history(kvzero: Kvzero) -> None:
    planted = ("--server", "leaves-the-null-block-dirty")
    ran = kvzero("lifecycle", *ON_HOST, *planted)
    assert ran.code == 1
    assert ran.out.startswith("the_null_block_is_zero: block 0, byte")
    assert "history  open; dummy step" in ran.out
    assert "torch-loop: rule broken (exit code 1), all bytes compared" in ran.out


def test_anyones_server_is_found_by_module_and_attribute(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = "from kvzero.subjects.block_server import BlockServer as Mine\nNONE = 3\n"
    (tmp_path / "own_server.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert find_server("own_server:Mine") is BlockServer
    with pytest.raises(SubjectError, match="must be callable with the number"):
        find_server("own_server:NONE")
    with pytest.raises(SubjectError, match="cannot be imported: AttributeError"):
        find_server("own_server:nothing")


def test_an_unknown_server_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SubjectError, match=r"server='zeros'.*zeroes-on-release"):
        find_server("zeros")


@pytest.mark.slow
def test_the_host_interprets_a_triton_subject_in_a_process_of_its_own() -> None:
    assert not verb._interprets()
    command = [sys.executable, "-m", "kvzero", "lifecycle", "--executor", "host"]
    ran = subprocess.run(
        [*command, "--max-examples", "3", "--json"],
        check=True,
        capture_output=True,
        timeout=300,
    )
    told = json.loads(ran.stdout)
    assert (told["subject"], told["executor"]) == ("kvzero", "host")
    assert told["checks"]
