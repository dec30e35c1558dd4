"""Observations as JSON: how a worker process tells what it saw.

Every field is written; bytes are written in hexadecimal. Both ends are the same kvzero,
so a transcript needs no version and is never kept.
"""

from dataclasses import asdict
from typing import Any

from kvzero.limits import LaunchShape
from kvzero.observation import (
    ByteSpan,
    CallObservation,
    Death,
    Launch,
    Misstep,
    Observation,
    Queued,
    Raised,
    Replayed,
    Writer,
    WrongBytes,
)

Json = Any  # a JSON document


def to_json(observation: Observation) -> Json:
    """Return an observation as plain data."""
    return _plain(asdict(observation))


def from_json(value: Json) -> Observation:
    """Return the observation that `to_json` wrote."""
    return Observation(
        **{
            **value,
            "calls": tuple(_call(call) for call in value["calls"]),
            "launches": tuple(_launch(launch) for launch in value["launches"]),
            "built": _raised(value["built"]),
            "died": None if value["died"] is None else Death(**value["died"]),
            "not_judged": tuple((what, why) for what, why in value["not_judged"]),
            "queued": _queued(value["queued"]),
            "replayed": _replayed(value["replayed"]),
        }
    )


def _plain(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value.hex() if isinstance(value, bytes) else value


def _call(value: Json) -> CallObservation:
    return CallObservation(
        **{
            **value,
            "raised": _raised(value["raised"]),
            "missed": _wrong(value["missed"]),
            "touched": _wrong(value["touched"]),
            "missteps": tuple(
                Misstep(**{**each, "program": tuple(each["program"])})
                for each in value["missteps"]
            ),
            "again_by": _writer(value["again_by"]),
            "idle_program": value["idle_program"] and tuple(value["idle_program"]),
        }
    )


def _queued(value: Json) -> Queued | None:
    return None if value is None else Queued(**{**value, **_together(value)})


def _replayed(value: Json) -> Replayed | None:
    if value is None:
        return None
    return Replayed(**{**value, **_together(value), "ids": tuple(value["ids"])})


def _together(value: Json) -> Json:
    return {
        "missed": _wrong(value["missed"]),
        "touched": _wrong(value["touched"]),
        "raised": _raised(value["raised"]),
    }


def _raised(value: Json) -> Raised | None:
    return None if value is None else Raised(**value)


def _wrong(value: Json) -> WrongBytes:
    return WrongBytes(value["count"], tuple(_span(span) for span in value["spans"]))


def _span(value: Json) -> ByteSpan:
    seen = bytes.fromhex(value["seen"])
    return ByteSpan(**{**value, "seen": seen, "writer": _writer(value["writer"])})


def _writer(value: Json) -> Writer | None:
    return None if value is None else Writer(tuple(value["program"]), value["place"])


def _launch(value: Json) -> Launch:
    shape = value["shape"]
    return Launch(
        **{
            **value,
            "shape": LaunchShape(**{**shape, "grid": tuple(shape["grid"])}),
            "constants": tuple((name, each) for name, each in value["constants"]),
        }
    )
