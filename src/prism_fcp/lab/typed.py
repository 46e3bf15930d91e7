"""A TOML table -> a dataclass or a factory's arguments, and back: unknown keys and wrong types are one-line errors."""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Collection, Mapping
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from prism_fcp.errors import SettingError, did_you_mean
from prism_fcp.types import Choice

T = TypeVar("T")


def check_keys(table: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Raise `SettingError` for the first key that is not known, naming the likely one."""
    for key in table:
        if key not in known:
            raise SettingError(f"{where}: unknown key {key!r}{did_you_mean(key, known)}")


def build(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Make the dataclass `cls` from a table whose keys are its fields."""
    hints = get_type_hints(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]
    check_keys(table, [field.name for field in fields], where)
    for field in fields:
        optional = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        if not optional and field.name not in table:
            raise SettingError(f"{where}: {field.name} is missing; add `{field.name} = ...`")
    return cls(**{key: convert(value, hints[key], f"{where}: {key}") for key, value in table.items()})


def choice(value: Any, registry: Mapping[str, Callable[..., Any]], where: str) -> Choice:
    """Read `"krum"` or `{name = "krum", suspects = 2}` and check name, arguments and their types."""
    made: Choice = convert(value, Choice, where)
    if made.name not in registry:
        raise SettingError(f"{where}: unknown name {made.name!r}{did_you_mean(made.name, registry)}")
    factory = registry[made.name]
    check_keys(made.options, list(inspect.signature(factory).parameters), f"{where} {made.name!r}")
    hints = get_type_hints(factory)
    options = {
        key: parameter.default
        for key, parameter in inspect.signature(factory).parameters.items()
        if parameter.default is not parameter.empty and parameter.default is not None
    }  # defaults are written out, so that a stored experiment says all it did
    for key, option in made.options.items():
        options[key] = convert(option, hints[key], f"{where} {made.name!r}: {key}")
    checked = Choice(made.name, options)
    try:
        checked.build(registry, where)
    except SettingError as error:
        raise SettingError(f"{where}: {error}") from error
    return checked


def convert(value: Any, hint: Any, where: str) -> Any:
    """Return `value` as the type that `hint` names; anything else is a `SettingError` that says what was found."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        plain = [argument for argument in arguments if argument is not NoneType]
        return None if value is None else convert(value, plain[0], where)
    if origin is Literal:
        if value not in arguments:
            known = [str(argument) for argument in arguments]
            raise SettingError(f"{where} = {value!r} is not known{did_you_mean(str(value), known)}")
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
        raise SettingError(f"{where} = {list(value)} has {len(value)} entries; must have {len(arguments)}")
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
    found = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    shown = value if isinstance(value, int | float) else repr(value)
    return SettingError(
        f"{where} = {shown} is {found.get(type(value), 'a table')}; must be {expected or 'another type'}"
    )


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
        return f'"{escaped}"'
    return repr(value)
