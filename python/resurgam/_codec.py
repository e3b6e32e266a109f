"""Values as JSON, and back by annotation.

What is written is plain JSON that other programs can read; which class a value had is known from
the annotation where it is read. pydantic models are written and read by pydantic, everything else
is done here, so that a dataclass means the same with and without pydantic. So are those fields of
models that pydantic would write otherwise: bytes, which are base64 everywhere, and what has no
annotation.
"""

from __future__ import annotations

import base64
import collections
import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import inspect
import json
import math
import pathlib
import sys
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

Converter = Callable[[Any], Any]

_write = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def _model_class() -> Any:
    """pydantic's ``BaseModel``, where somebody has imported it."""
    return getattr(sys.modules.get("pydantic"), "BaseModel", None)


def encode(value: Any) -> str:
    """A value as JSON text. Raises ``TypeError`` or ``ValueError`` for what has no JSON form."""
    if value is None:
        return "null"
    text = _write(plain(value))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a text with a lone surrogate has no JSON form") from None
    return text


def plain(value: Any) -> Any:
    """A value made of nothing but what JSON has."""
    cls = type(value)
    if cls is str or cls is int or cls is bool or value is None:
        return value
    if cls is float:
        if not math.isfinite(value):
            raise ValueError(f"{value} has no JSON form; use None, or a text")
        return value
    if cls is list or cls is tuple:
        return [plain(item) for item in value]
    if cls is dict:
        return _object(value)
    return _plain_object(value)


def _object(value: collections.abc.Mapping[Any, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(key, enum.Enum) and isinstance(key.value, str):
            key = key.value
        elif not isinstance(key, str):
            raise TypeError(
                f"a dict with the key {key!r} has no JSON form: keys are texts; use str({key!r}), "
                "or a list of pairs"
            )
        made[str(key)] = plain(item)
    return made


def _plain_object(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        try:
            return plain(value.value)
        except TypeError:
            return value.name
    if isinstance(value, (dt.datetime, dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return value.total_seconds()
    if isinstance(value, (uuid.UUID, decimal.Decimal, pathlib.PurePath)):
        return str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    if isinstance(value, (set, frozenset)):
        return sorted((plain(item) for item in value), key=_write)
    model = _model_class()
    if model is not None and isinstance(value, model):
        return _plain_model(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    attributes = getattr(type(value), "__attrs_attrs__", None)
    if attributes is not None:
        return {a.name: plain(getattr(value, a.name)) for a in attributes}
    if isinstance(value, (str, int, float)):
        return plain(_base_of(value))
    if isinstance(value, (list, tuple, collections.deque)):
        return [plain(item) for item in value]
    if isinstance(value, collections.abc.Mapping):
        return _object(value)
    if inspect.iscoroutine(value):
        value.close()
        raise TypeError("a coroutine has no JSON form: await it first")
    name = type(value).__qualname__
    if hasattr(value, "get_secret_value"):
        raise TypeError(
            f"a {name} is not stored, and stars would come back in its place: pass the name of the "
            "secret, and let the activity look it up"
        )
    raise TypeError(
        f"{name} has no JSON form: make it a dataclass or a pydantic model, or pass something that "
        "it can be found by, such as its id"
    )


def _plain_model(value: Any) -> Any:
    cls = type(value)
    own, extra = _own_fields(cls), value.model_extra or {}
    if "root" in own and _is_root(cls):
        return plain(value.root)
    left_out = {*own, *extra}
    made = value.model_dump(mode="json", by_alias=True, round_trip=True, exclude=left_out or None)
    for name, key in own.items():
        made[key] = plain(getattr(value, name))
    for name, item in extra.items():
        made[name] = plain(item)
    return made


def _is_root(cls: Any) -> bool:
    return bool(getattr(cls, "__pydantic_root_model__", False))


def _base_of(value: Any) -> Any:
    for base in (bool, int, float, str):
        if isinstance(value, base):
            return base(value)
    return value


# Reading.

_IDENTITY: set[Any] = {
    str, int, bool, type(None), None, Any, object, inspect.Parameter.empty, dict, list,
    collections.abc.Mapping, collections.abc.Sequence, collections.abc.Iterable,
    collections.abc.MutableMapping, collections.abc.MutableSequence, typing.NoReturn,
}
_SEQUENCES: dict[Any, Callable[[Any], Any]] = {
    list: list, collections.abc.Sequence: list, collections.abc.Iterable: list,
    collections.abc.Collection: list, collections.abc.MutableSequence: list,
    set: set, collections.abc.Set: set, collections.abc.MutableSet: set,
    frozenset: frozenset, collections.deque: collections.deque,
}
_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping, collections.OrderedDict,
             collections.defaultdict)

_cache: dict[Any, Converter | None] = {}


def converter(hint: Any) -> Converter | None:
    """What makes a value of this annotation out of JSON's; ``None`` when it stays as it is."""
    try:
        if hint in _IDENTITY:
            return None
        if hint in _cache:
            return _cache[hint]
    except TypeError:  # an annotation that cannot be hashed
        return _converter(hint, {})
    # Classes that contain themselves find this.
    _cache[hint] = lambda value: _cache_call(hint, value)
    try:
        made = _converter(hint, {})
    except BaseException:
        del _cache[hint]
        raise
    _cache[hint] = made
    return made


def _cache_call(hint: Any, value: Any) -> Any:
    convert = _cache[hint]
    return value if convert is None else convert(value)


def decoder(hint: Any) -> Callable[[str], Any]:
    """What reads a text as a value of this annotation."""
    convert = converter(hint)
    if convert is None:
        return json.loads
    return lambda text: convert(json.loads(text))


def _converter(hint: Any, bound: dict[Any, Any]) -> Converter | None:
    if isinstance(hint, typing.TypeVar):
        known = bound.get(hint)
        return None if known is None else converter(known)
    value_of = getattr(hint, "__value__", None)  # type X = ...
    if value_of is not None and type(hint).__name__ == "TypeAliasType":
        return converter(value_of)
    supertype = getattr(hint, "__supertype__", None)  # NewType
    if supertype is not None:
        return converter(supertype)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _annotated(hint, args)
    if origin in (typing.Literal, typing.ClassVar):
        return None
    if origin in (typing.Union, types.UnionType):
        return _union([_substitute(arg, bound) for arg in args])
    if origin in _SEQUENCES or hint in _SEQUENCES:
        make = _SEQUENCES[origin or hint]
        item = converter(_substitute(args[0], bound)) if args else None
        return _sequence(make, item)
    if origin is tuple or hint is tuple:
        return _tuple([_substitute(arg, bound) for arg in args])
    if origin in _MAPPINGS:
        return _mapping([_substitute(arg, bound) for arg in args])
    return _of_class(hint, origin or hint, args)


def _annotated(hint: Any, args: tuple[Any, ...]) -> Converter | None:
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and any("pydantic" in type(a).__module__ for a in args[1:]):
        validate: Converter = pydantic.TypeAdapter(hint).validate_python
        try:
            convert = converter(args[0])
        except TypeError:  # a class that only pydantic can read
            return validate
        return validate if convert is None else lambda value: validate(convert(value))
    return converter(args[0])


def _substitute(hint: Any, bound: dict[Any, Any]) -> Any:
    """An annotation with the parameters of a generic class filled in."""
    if not bound:
        return hint
    if isinstance(hint, typing.TypeVar):
        return bound.get(hint, Any)
    parameters = getattr(hint, "__parameters__", ())
    if parameters:
        return hint[tuple(bound.get(p, Any) for p in parameters)]
    return hint


def _sequence(make: Callable[[Any], Any], item: Converter | None) -> Converter | None:
    if item is None:
        return None if make is list else lambda value: make(_is(value, list))
    return lambda value: make([item(one) for one in _is(value, list)])


def _is(value: Any, cls: type) -> Any:
    if not isinstance(value, cls):
        raise TypeError(f"{value!r:.60} is not a {cls.__name__}")
    return value


def _tuple(args: list[Any]) -> Converter:
    if not args:
        return lambda value: tuple(_is(value, list))
    if len(args) == 2 and args[1] is Ellipsis:
        each = converter(args[0])
        if each is None:
            return lambda value: tuple(_is(value, list))
        return lambda value: tuple(each(one) for one in _is(value, list))
    items = [converter(arg) or _same for arg in args]

    def read(value: Any) -> Any:
        if len(_is(value, list)) != len(items):
            raise TypeError(f"{value!r:.60} does not have {len(items)} items")
        return tuple(convert(one) for convert, one in zip(items, value))

    return read


def _same(value: Any) -> Any:
    return value


def _mapping(args: list[Any]) -> Converter | None:
    key, item = (converter(args[0]), converter(args[1])) if len(args) == 2 else (None, None)
    if key is None and item is None:
        return None
    key, item = key or _same, item or _same
    return lambda value: {key(k): item(v) for k, v in _is(value, dict).items()}


def _union(args: list[Any]) -> Converter | None:
    members = [(arg, converter(arg)) for arg in args]
    if all(convert is None for _, convert in members):
        return None

    def read(value: Any) -> Any:
        if value is None and any(arg is type(None) for arg, _ in members):
            return None
        for arg, convert in members:
            if convert is None:
                if _fits(arg, value):
                    return value
                continue
            try:
                return convert(value)
            except Exception:  # none of this one; the next may fit
                continue
        names = " | ".join(getattr(arg, "__name__", str(arg)) for arg, _ in members)
        raise TypeError(f"{value!r:.60} is none of {names}")

    return read


def _fits(hint: Any, value: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return not isinstance(origin, type) or origin is object or isinstance(value, origin)


def _float(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r:.60} is not a float")
    return float(value)


def _bytes(value: Any) -> bytes:
    return base64.b64decode(_is(value, str), validate=True)


_SCALARS: dict[Any, Converter] = {
    float: _float,
    dt.datetime: lambda value: dt.datetime.fromisoformat(_is(value, str)),
    dt.date: lambda value: dt.date.fromisoformat(_is(value, str)),
    dt.time: lambda value: dt.time.fromisoformat(_is(value, str)),
    dt.timedelta: lambda value: dt.timedelta(seconds=_float(value)),
    uuid.UUID: lambda value: uuid.UUID(_is(value, str)),
    decimal.Decimal: lambda value: decimal.Decimal(_is(value, str)),
    bytes: _bytes,
    bytearray: lambda value: bytearray(_bytes(value)),
}


def _of_class(hint: Any, cls: Any, args: tuple[Any, ...]) -> Converter | None:
    if cls in _SCALARS:
        return _SCALARS[cls]
    if not isinstance(cls, type):
        return None  # ParamSpec and other things that are no values
    model = _model_class()
    if model is not None and issubclass(cls, model):
        return _model(hint, cls)
    if issubclass(cls, enum.Enum):
        return _enum(cls)
    if dataclasses.is_dataclass(cls):
        return _dataclass(cls, args)
    if hasattr(cls, "__attrs_attrs__"):
        return _fields(cls, {a.name: a.type for a in cls.__attrs_attrs__})
    if typing.is_typeddict(cls):
        return _typed_dict(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        hints, fields = typing.get_type_hints(cls), getattr(cls, "_fields")
        read = _tuple([hints.get(name, Any) for name in fields])
        return lambda value: cls(*read(value))
    if issubclass(cls, pathlib.PurePath):
        return lambda value: cls(_is(value, str))
    if issubclass(cls, (str, int)):
        return lambda value: cls(value)
    if getattr(cls, "_is_protocol", False) or inspect.isabstract(cls):
        return None
    raise TypeError(
        f"{cls.__qualname__} cannot be read from JSON: make it a dataclass or a pydantic model, or "
        "annotate with what it is made of"
    )


# Models of pydantic.

_own: dict[Any, dict[str, str]] = {}

#: Among the leaves of an annotation: a dict whose keys are no texts, which pydantic can store.
_ODD_KEYS = object()


def _own_fields(cls: Any) -> dict[str, str]:
    """The fields of a model that are written and read here, and under which name: where bytes may
    be, or a secret, or anything at all. Not those for which the model has a serializer."""
    known = _own.get(cls)
    if known is not None:
        return known
    decorators = cls.__pydantic_decorators__
    written = {
        name for made in decorators.field_serializers.values() for name in made.info.fields
    }
    found: dict[str, str] = {}
    if not decorators.model_serializers and "*" not in written:
        for name, field in cls.model_fields.items():
            if name not in written and not field.exclude and _is_own(field.annotation):
                found[name] = field.serialization_alias or field.alias or name
    _own[cls] = found
    return found


def _is_own(hint: Any) -> bool:
    leaves = set(_leaves(hint, set()))
    if any(hasattr(leaf, "get_secret_value") for leaf in leaves):
        return True
    has_bytes = not leaves.isdisjoint((bytes, bytearray))
    if not has_bytes and (_ODD_KEYS in leaves or leaves.isdisjoint((Any, object))):
        return False
    try:
        converter(hint)
    except TypeError:  # there is something beside it that only pydantic can read
        return False
    return True


def _leaves(hint: Any, seen: set[Any]) -> collections.abc.Iterator[Any]:
    """What an annotation is made of in the end."""
    value_of = getattr(hint, "__value__", None) or getattr(hint, "__supertype__", None)
    if value_of is not None:
        yield from _leaves(value_of, seen)
        return
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, typing.TypeVar):
        yield Any
    elif origin is typing.Annotated:
        yield from _leaves(args[0], seen)
    elif origin is not typing.Literal:
        cls = origin or hint
        if cls in _MAPPINGS and args and args[0] not in (str, Any):
            yield _ODD_KEYS
        for arg in args:
            yield from _leaves(arg, seen)
        if isinstance(cls, type) and cls not in seen:
            seen.add(cls)
            parts = _parts(cls)
            for part in parts:
                yield from _leaves(part, seen)
            if not parts and not args:
                yield Any if cls in _MAPPINGS or cls in _SEQUENCES or cls is tuple else cls
        elif hint is Any:
            yield Any


def _parts(cls: Any) -> list[Any]:
    """The annotations of the fields of a class that has some."""
    model = _model_class()
    if model is not None and issubclass(cls, model):
        return [field.annotation for field in cls.model_fields.values()]
    if dataclasses.is_dataclass(cls) or typing.is_typeddict(cls) or hasattr(cls, "_fields"):
        return list(typing.get_type_hints(cls).values())
    return []


def _model(hint: Any, cls: Any) -> Converter:
    validate: Converter = hint.model_validate
    reads = {}
    for name, key in _own_fields(cls).items():
        convert = _readable(cls.model_fields[name].annotation)
        if convert is not None:
            reads[key] = convert
    if not reads:
        return validate
    if _is_root(cls):
        return lambda value: validate(reads["root"](value))

    def read(value: Any) -> Any:
        given = _is(value, dict)
        return validate({k: reads[k](v) if k in reads else v for k, v in given.items()})

    return read


def _readable(hint: Any) -> Converter | None:
    try:
        return converter(hint)
    except TypeError:  # a secret: it is never written, so nothing is read
        return None


def _enum(cls: type[enum.Enum]) -> Converter:
    by_value = {json.dumps(_enum_value(member)): member for member in cls}

    def read(value: Any) -> Any:
        member = by_value.get(json.dumps(value))
        if member is None:
            raise ValueError(f"{value!r:.60} is no {cls.__qualname__}")
        return member

    return read


def _enum_value(member: enum.Enum) -> Any:
    return plain(member)


def _dataclass(cls: Any, args: tuple[Any, ...]) -> Converter:
    bound = dict(zip(getattr(cls, "__parameters__", ()), args))
    hints = typing.get_type_hints(cls, include_extras=True)
    reads = {
        f.name: converter(_substitute(hints[f.name], bound)) or _same
        for f in dataclasses.fields(cls)
    }
    late = [f.name for f in dataclasses.fields(cls) if not f.init]
    needed = {
        f.name
        for f in dataclasses.fields(cls)
        if f.init and f.default is f.default_factory is dataclasses.MISSING
    }

    def read(value: Any) -> Any:
        given = _is(value, dict)
        missing = needed - given.keys()
        if missing or not given.keys() <= reads.keys():
            unknown = sorted(given.keys() - reads.keys())
            raise TypeError(
                f"{cls.__qualname__}: " + (f"{sorted(missing)} is missing" if missing
                                           else f"there is no field {unknown}")
            )
        values = {name: reads[name](item) for name, item in given.items()}
        made = cls(**{name: item for name, item in values.items() if name not in late})
        for name in late:
            if name in values:
                object.__setattr__(made, name, values[name])
        return made

    return read


def _fields(cls: Any, hints: dict[str, Any]) -> Converter:
    reads = {name: converter(hint or Any) or _same for name, hint in hints.items()}
    return lambda value: cls(
        **{name.lstrip("_"): reads[name](item) for name, item in _is(value, dict).items()}
    )


def _typed_dict(cls: Any) -> Converter:
    hints = typing.get_type_hints(cls)
    reads = {name: converter(_unwrapped(hint)) or _same for name, hint in hints.items()}
    return lambda value: {k: reads.get(k, _same)(v) for k, v in _is(value, dict).items()}


def _unwrapped(hint: Any) -> Any:
    name = getattr(typing.get_origin(hint), "_name", None)
    return typing.get_args(hint)[0] if name in ("Required", "NotRequired", "ReadOnly") else hint


def reader(hints: dict[str, Any]) -> Callable[[str], dict[str, Any]]:
    """What reads arguments by name."""
    special: dict[str, Converter] = {}
    for name, hint in hints.items():
        try:
            convert = converter(hint)
        except TypeError as error:
            raise TypeError(f"the parameter {name}: {error}") from None
        if convert is not None:
            special[name] = convert
    if not special:
        return json.loads

    def read(text: str) -> dict[str, Any]:
        values: dict[str, Any] = json.loads(text)
        for name, convert in special.items():
            if name in values:
                try:
                    values[name] = convert(values[name])
                except Exception as error:
                    raise TypeError(f"the argument {name}: {error}") from error
        return values

    return read
