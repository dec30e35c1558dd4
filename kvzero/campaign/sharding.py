"""One shard of a campaign as a plain function of plain data.

Whoever spreads a campaign over machines needs no more: settings and a number go in, the
result comes back, events go to a function on the way. Shards have other workers' seeds,
so that no two draw the same cases.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvzero.campaign.campaign import Campaign
from kvzero.campaign.settings import settings_from_json
from kvzero.campaign.watching import Watcher

Json = Any  # a JSON document


def run_shard(
    settings: Json,
    shard: int,
    *,
    shards: int = 1,
    path: str | None = None,
    regressions: str = "regressions",
    on_event: Callable[[str, Json], None] = lambda _event, _fields: None,
) -> Json:
    """Run one shard of a campaign: plain data in, plain data out.

    Args:
        settings: `Settings` as `Settings.as_json` tells them.
        shard: Which of the shards; each has other workers' seeds.
        shards: How many there are; they share the cases.
        path: Folder of this shard, or None.
        regressions: Folder of the case files of failures.
        on_event: Called with each event's name and fields, as the log has them.

    Returns:
        The result as ``kvzero fuzz --json`` prints it.
    """
    watcher = _Teller(on_event)
    mine = settings_from_json(settings).of_shard(shard, shards)
    folder = None if path is None else Path(path)
    campaign = Campaign(mine, folder, Path(regressions), watcher=watcher)
    result = campaign.run()
    if campaign.error is not None:
        raise campaign.error
    return result.as_json()


@dataclass
class _Teller(Watcher):
    """Tells events to a function."""

    on_event: Callable[[str, Json], None]

    def event(self, event: str, fields: Mapping[str, Any]) -> None:  # Any: JSON
        self.on_event(event, dict(fields))
