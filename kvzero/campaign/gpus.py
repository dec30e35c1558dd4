"""The machine's GPUs, as the caller may use them, without touching one here.

A process that has touched CUDA keeps a context and cannot be forked, so a child counts
the GPUs and is gone. A GPU is named by its entry in the caller's
``CUDA_VISIBLE_DEVICES``, which is what a worker gets as its own.
"""

import os

from kvzero.campaign.workers import worker_server
from kvzero.errors import EnvironmentMissingError
from kvzero.executors.channel import Channel, Json
from kvzero.executors.fork_server import ChildGoneError

COUNT_SECONDS = 120.0
VARIABLE = "CUDA_VISIBLE_DEVICES"


def count(channel: Channel, _arguments: Json) -> None:
    """Answer with the number of GPUs; what the child process runs."""
    import torch

    channel.receive()
    channel.send(torch.cuda.device_count())


def visible_gpus() -> tuple[str, ...]:
    """Return what to set ``CUDA_VISIBLE_DEVICES`` to for each GPU that is visible.

    Raises:
        EnvironmentMissingError: They cannot be counted.
    """
    child = worker_server("device").fork("kvzero.campaign.gpus:count", None)
    try:
        number = int(child.ask("count", deadline_seconds=COUNT_SECONDS))
    except ChildGoneError as error:
        raise EnvironmentMissingError(
            f"GPUs, but must be countable: the process that asked died: {error}"
        ) from None
    finally:
        child.stop()
    given = os.environ.get(VARIABLE)
    names = given.split(",") if given else [str(each) for each in range(number)]
    return tuple(name.strip() for name in names[:number])


def chosen_gpus(asked: str) -> tuple[str, ...]:
    """Return the GPUs that ``--gpus`` names.

    Args:
        asked: ``"all"``, or indexes into the visible ones, such as ``"0,1"``.

    Raises:
        EnvironmentMissingError: There is no such GPU.
    """
    names = visible_gpus()
    if asked == "all":
        chosen = names
    else:
        indexes = [part.strip() for part in asked.split(",")]
        known = {str(index): name for index, name in enumerate(names)}
        missing = [index for index in indexes if index not in known]
        if missing:
            raise EnvironmentMissingError(
                f"gpus={asked!r}, but must be all or indexes below {len(names)}: "
                f"that many GPUs are visible"
            )
        chosen = tuple(known[index] for index in indexes)
    if not chosen:
        raise EnvironmentMissingError(
            "gpus=none, but must be at least one: no GPU is visible here"
        )
    return chosen
