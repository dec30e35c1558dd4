"""Who is called, and how."""

from typing import Any

import pytest
import torch

from kvzero.bench import contenders
from kvzero.bench.contenders import Contender, find_subjects, first_line
from kvzero.errors import SubjectError
from kvzero.subjects.protocol import Contract, MadeSubject

LIST_ONLY = Contract(arrivals=("list",))


class Zeroer:
    def __init__(self) -> None:
        self.got: list[Any] = []

    def zero(self, block_ids: Any) -> None:
        self.got.append(block_ids)


class Launcher(Zeroer):
    def launch(self, ids: torch.Tensor) -> None:
        self.got.append(("launch", ids))


def contender(zeroer: Zeroer, contract: Contract) -> Contender:
    return Contender(MadeSubject("made", contract, lambda _pool: zeroer), zeroer)


def test_ids_on_the_device_go_to_whoever_takes_them() -> None:
    zeroer, ids = Launcher(), torch.tensor([1, 2])
    call = contender(zeroer, Contract()).device_call(ids)
    call.run()
    assert call.on_device
    assert zeroer.got == [ids]


def test_a_launch_is_called_where_zero_would_copy_ids() -> None:
    zeroer, ids = Launcher(), torch.tensor([1, 2])
    call = contender(zeroer, LIST_ONLY).device_call(ids)
    call.run()
    assert call.on_device
    assert zeroer.got == [("launch", ids)]


def test_everyone_else_gets_a_list() -> None:
    zeroer = Zeroer()
    call = contender(zeroer, LIST_ONLY).device_call(torch.tensor([1, 2]))
    call.run()
    assert not call.on_device
    assert zeroer.got == [[1, 2]]


def test_a_subject_that_is_not_installed_is_told_not_raised(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contenders, "SUBJECTS", ("kvzero", "nowhere"))
    found, missing = find_subjects(None)
    assert [subject.name for subject in found] == ["kvzero"]
    assert "known are" not in missing["nowhere"]


def test_a_subject_that_was_named_must_be_there() -> None:
    with pytest.raises(SubjectError, match="nowhere"):
        find_subjects(["kvzero", "nowhere"])


def test_the_first_line_of_an_error_names_its_type() -> None:
    assert first_line(ValueError("one\ntwo")) == "ValueError: one"
    assert first_line(KeyError()) == "KeyError: "
