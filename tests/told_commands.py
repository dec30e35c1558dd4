"""Commands that pages and workflows tell, held against what the tools would take.

Nothing is run: kvzero's own parser reads the words, down to each option's type.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from itertools import product
from pathlib import Path

from typer.main import get_command

from kvzero.cli.app import app

ROOT = Path(__file__).parent.parent
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"\$\{\{.+?\}\}|\$\{?\w+\}?")
"""What a shell or GitHub puts in: a word, or the number of a seed."""
_PROGRAM = re.compile(r"(?:\.venv/bin/)?(kvzero|tox)")


def fenced_lines(page: str) -> Iterator[str]:
    """Yield the lines of a page's fenced blocks, continued ones joined."""
    for block in _FENCED.findall(page):
        yield from block.replace("\\\n", " ").splitlines()


def commands(lines: Iterator[str] | Sequence[str]) -> Iterator[list[str]]:
    """Yield the words of each command of kvzero or tox, the program's name first."""
    for line in lines:
        plain = _VARIABLE.sub("7", line.partition(" #")[0])
        for part in re.split(r"&&|;|\|", plain):
            words = shlex.split(part) if _PROGRAM.match(part.strip()) else []
            if words and (found := _PROGRAM.fullmatch(words[0])):
                yield [found[1], *_without_redirection(words[1:])]


def check(words: Sequence[str]) -> None:
    """Fail unless a command is one that its program takes."""
    if words[0] == "tox":
        _check_tox(words[1:])
    else:
        _check_kvzero(words[1:])


def verbs() -> set[str]:
    """Return the verbs of the command line."""
    return set(getattr(get_command(app), "commands"))  # noqa: B009 - a group has them


def tox_environments() -> set[str]:
    """Return the names of the environments in ``tox.ini``."""
    reader = ConfigParser(interpolation=None)
    reader.read(ROOT / "tox.ini", encoding="utf-8")
    sections = [name.partition(":")[2] for name in reader.sections() if ":" in name]
    listed = re.split(r"[\s,]+", reader["tox"]["env_list"])
    return {name for each in (*sections, *listed) for name in _expanded(each)}


def _without_redirection(words: list[str]) -> list[str]:
    places = [index for index, word in enumerate(words) if word.startswith(">")]
    return words[: places[0]] if places else words


def _expanded(name: str) -> Iterator[str]:
    """Yield the names that braces stand for: ``triton{36,37}`` is two."""
    pieces = [piece.split(",") for piece in re.split(r"[{}]", name)]
    yield from ("".join(chosen) for chosen in product(*pieces))


def _check_tox(words: Sequence[str]) -> None:
    """Fail unless ``-e`` names known environments; what follows ``--`` is theirs."""
    own = list(words[: words.index("--")] if "--" in words else words)
    if own[:1] == ["devenv"]:
        own = own[1:-1]
    assert own[:1] in ([], ["-e"]), f"tox {own}: only -e is told"
    for name in own[1].split(",") if own else ():
        assert name in tox_environments(), (
            f"tox -e {name}: there is no such environment"
        )
    if own == ["-e", "fuzz"] and "--" in words:
        _check_kvzero(["fuzz", *words[words.index("--") + 1 :]])


def _check_kvzero(words: Sequence[str]) -> None:
    """Fail unless kvzero's own parser takes the words."""
    command, rest = get_command(app), list(words)
    name = "kvzero"
    while (known := getattr(command, "commands", None)) is not None:
        assert rest, f"{name}: a verb is missing"
        name = rest.pop(0)
        assert name in known, f"kvzero {' '.join(words)}: there is no verb {name}"
        command = known[name]
    command.make_context(name, rest)  # raises what the command line would tell
