"""How options are declared, so that every release of typer understands them alike."""

import inspect
from collections.abc import Iterator

import typer
from typer.models import OptionInfo

from kvzero.cli.app import app


def options(group: typer.Typer) -> Iterator[tuple[str, OptionInfo]]:
    """Yield the options of a group's commands, with their parameters' names."""
    for command in group.registered_commands:
        assert command.callback is not None
        for parameter in inspect.signature(command.callback).parameters.values():
            for told in getattr(parameter.annotation, "__metadata__", ()):
                if isinstance(told, OptionInfo):
                    yield f"{command.callback.__name__}:{parameter.name}", told
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from options(inner.typer_instance)


def names_itself(option: OptionInfo) -> bool:
    # Inside Annotated the first name is what typer takes for the default at first.
    return str(option.default).startswith("-") or bool(option.param_decls)


def test_an_option_with_a_metavar_says_its_own_name() -> None:
    # typer 0.27.0 to 0.27.2 take the metavar for the name of one that does not.
    told = list(options(app))
    assert len(told) > 50
    assert [
        n for n, option in told if option.metavar and not names_itself(option)
    ] == []
