"""The page on campaigns says what the code does: options, events, folder."""

import re
from pathlib import Path

import typer.main

from kvzero.campaign import events
from kvzero.cli.app import app

PAGE = (Path(__file__).parents[1] / "docs" / "campaign.md").read_text()


def test_every_option_on_the_page_is_an_option_of_fuzz() -> None:
    command = typer.main.get_command(app)
    fuzz = command.commands["fuzz"]  # type: ignore[attr-defined]  # a group of commands
    known = {name for each in fuzz.params for name in each.opts}
    table = PAGE.split("## Options")[1].split("## ")[0]
    named = set(re.findall(r"`(--[a-z-]+|-n)", table))
    assert named
    assert named <= known


def test_every_event_on_the_page_is_one_that_the_log_names() -> None:
    table = PAGE.split("## The event log")[1].split("Resident memory")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)
    documented = re.findall(r"``([a-z-]+)``: ", events.__doc__ or "")
    assert rows == documented
