"""The JSON Schema of case files, from the same hints and rules that reading obeys."""

from dataclasses import MISSING
from typing import Any, get_args, get_origin

from kvzero.case import IdRun
from kvzero.codec import (
    RULES,
    Json,
    Range,
    Rule,
    Text,
    choices_of,
    class_in,
    fields_of,
    hints_of,
)


def schema(kind: type) -> Json:
    """Return the JSON Schema (draft 2020-12) of a dataclass."""
    classes: dict[str, Json] = {}
    root = _schema_of_class(kind, classes)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A kvzero case file",
        **root,
        "$defs": {name: classes[name] for name in sorted(classes)},
    }


def _schema_of_class(kind: type, classes: dict[str, Json]) -> Json:
    """Return the schema of an object; those of its parts go into `classes`."""
    known = fields_of(kind)
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name in known if known[name].default is MISSING],
        "properties": {
            name: _schema_of_field(
                hints_of(kind)[name], RULES.get((kind, name)), classes
            )
            for name in known
        },
    }


def _schema_of_field(
    hint: Any,  # Any: a type hint
    rule: Rule | None,
    classes: dict[str, Json],
) -> Json:
    """Return the schema of one field."""
    if get_origin(hint) is tuple:
        element = _schema_of_field(get_args(hint)[0], rule, classes)
        return {"type": "array", "items": element}
    kind = class_in(hint)
    if kind is not None:
        return _reference(kind, classes)
    choices = choices_of(hint, rule)
    if choices is not None:
        return {"enum": list(choices)}
    if isinstance(rule, Text):
        pattern = f"^(?:{rule.pattern})$"
        return {"type": "string", "maxLength": rule.max_length, "pattern": pattern}
    if isinstance(rule, Range):
        return {"type": "integer", "minimum": rule.minimum, "maximum": rule.maximum}
    return {"type": {bool: "boolean", int: "integer", str: "string"}[hint]}


def _reference(kind: type, classes: dict[str, Json]) -> Json:
    if kind.__name__ not in classes:
        classes[kind.__name__] = {}  # breaks a cycle, should there be one
        described = _schema_of_class(kind, classes)
        if kind is IdRun:
            described = {"anyOf": [described["properties"]["start"], described]}
        classes[kind.__name__] = described
    return {"$ref": f"#/$defs/{kind.__name__}"}
