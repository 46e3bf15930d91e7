"""A TOML table -> a dataclass or a factory's arguments, and back: unknown keys and wrong types are one-line errors."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.registry import find
from prism_fcp.types import Choice

T = TypeVar("T")
LARGEST_INT: Final = 2**63 - 1
_LONG: Final = 80  # characters of a value that a message shows


def check_keys(table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise `SettingError` for the first key that is not known, naming the likely one."""
    for key in table:
        if key not in known:
            raise SettingError(f"{where}: unknown key {shown(key)}{did_you_mean(key[:_LONG], known)}")


def build(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Make the dataclass `cls` from a table whose keys are its fields."""
    hints = get_type_hints(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    check_keys(table, [field.name for field in fields], where)
    for field in fields:
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if not optional and field.name not in table:
            raise SettingError(f"{where}: {field.name} is missing; add `{field.name} = ...`")
    values = {key: convert(value, hints[key], f"{where}: {key}") for key, value in table.items()}
    try:
        return cls(**values)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from error


def choice(value: Any, registry: Mapping[str, Callable[..., Any]], kind: str, where: str) -> Choice:
    """Read `"krum"` or `{name = "krum", suspects = 2}` and check name, arguments and their types."""
    made: Choice = convert(value, Choice, where)
    options = dict(made.options)
    try:
        factory = find(registry, kind, made.name)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from error
    if factory is not None:
        hints = get_type_hints(getattr(factory, "func", factory))  # a partial has none of its own
        for key, parameter in inspect.signature(factory).parameters.items():
            if key in options:
                at = f"{where} {made.name!r}: {key}"
                options[key] = convert(options[key], hints.get(key, Any), at)
                if isinstance(options[key], Choice):  # a rule that follows another is one of the same registry
                    options[key] = choice(options[key], registry, kind, at)
            elif parameter.default is not parameter.empty and parameter.default is not None:
                options[key] = parameter.default  # written out, so that a stored experiment says all it did
    checked = Choice(made.name, options)
    try:
        checked.build(registry, kind)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from error
    return checked


def convert(value: Any, hint: Any, where: str) -> Any:
    """Return `value` as the type that `hint` names; anything else is a `SettingError` that says what was found."""
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(value, int) and abs(value) > LARGEST_INT and not isinstance(value, bool):
        raise SettingError(f"{where} = {shown(value)} is too large; must lie within +-2^63")
    if hint is Any:  # a factory of the user's own may not say
        return value
    if origin in (Union, UnionType):
        plain = [argument for argument in arguments if argument is not NoneType]
        return None if value is None else convert(value, plain[0], where)
    if origin is Literal:
        if value not in arguments:
            known = [str(argument) for argument in arguments]
            raise SettingError(f"{where} = {shown(value)} is not known{did_you_mean(str(value)[:_LONG], known)}")
        return value
    if origin is tuple:
        return _sequence(value, arguments, where)
    if hint is Choice:
        return _choice(value, where)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise SettingError(f"{where} = {value}; must be a finite number")
        return float(value)
    if hint is str and isinstance(value, str):
        return value
    raise _wrong(value, where, {bool: "true or false", int: "a whole number", float: "a number", str: "text"}.get(hint))


def _sequence(value: Any, arguments: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(value, where, "a list")
    if arguments[-1] is Ellipsis:
        arguments = (arguments[0],) * len(value)
    if len(value) != len(arguments):
        raise SettingError(f"{where} = {shown(list(value))} has {len(value)} entries; must have {len(arguments)}")
    return tuple(convert(entry, argument, where) for entry, argument in zip(value, arguments, strict=True))


def _choice(value: Any, where: str) -> Choice:
    if isinstance(value, Choice):
        return value
    if isinstance(value, str):
        return Choice(value)
    if not isinstance(value, Mapping):
        raise _wrong(value, where, "a name, or a table with a name: {name = ...}")
    if not isinstance(value.get("name"), str):
        raise SettingError(f"{where}: name is missing; write {{name = ...}}")
    return Choice(value["name"], {key: option for key, option in value.items() if key != "name"})


def _wrong(value: Any, where: str, expected: str | None) -> SettingError:
    original = type(value)
    found = {
        bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a table",
        datetime.date: "a date", datetime.time: "a time", datetime.datetime: "a date and time",
    }  # fmt: skip
    value = str(value) if isinstance(value, datetime.date | datetime.time) else value
    kind = found.get(original, f"of type {original.__name__}")
    return SettingError(f"{where} = {shown(value)} is {kind}; must be {expected or 'another type'}")


def shown(value: object) -> str:
    """Return a value as a message shows it: whole where it is short.

    >>> shown("text"), shown(2**100)
    ("'text'", 'an integer of 101 bits')
    """
    if isinstance(value, int) and value.bit_length() > 64:
        return f"an integer of {value.bit_length()} bits"
    try:
        text = repr(value)
    except ValueError:  # thousands of digits somewhere inside
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONG else f"{text[: _LONG - 20]}... ({len(text)} characters)"


def plain(value: Any) -> Any:
    """Return dataclasses, choices and tuples as what TOML and JSON can say."""
    if isinstance(value, Choice):
        return {"name": value.name, **{key: plain(option) for key, option in value.options.items()}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple | list):
        return [plain(entry) for entry in value]
    return value


def to_toml(table: Mapping[str, Any], prefix: str = "") -> str:
    """Write a dictionary of values, tables and lists of tables as TOML (None is left out)."""
    lines, later = [], []
    for key, value in table.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and not prefix:
            later.append(f"\n[{name}]\n{to_toml(value, name + '.')}")
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            later += [f"\n[[{name}]]\n{to_toml(entry, name + '.')}" for entry in value]
        elif value is not None:
            lines.append(f"{key} = {_literal(value)}\n")
    return "".join(lines + later)


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_literal(entry)}" for key, entry in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_literal(entry) for entry in value) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
        return '"' + "".join(f"\\u{ord(c):04X}" if c < " " or c == "\x7f" else c for c in escaped) + '"'
    return repr(value)
