"""JSON and TOML files of unknown origin to dictionaries; text to files, whole or not at all.

Every fault is one line: the file, what is wrong with it, what to do. Sizes, depths and numbers are
bounded before anything else looks at them.
"""

import functools
import json
import math
import os
import re
import secrets
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from specmemo_sim.errors import InputError
from specmemo_sim.units import format_bytes

MAX_JSON_BYTES = 8 * 1024**2
"""A config.json has kilobytes; one with a per-module quantisation list has a few megabytes."""
MAX_TOML_BYTES = 256 * 1024
"""The bundled device files have 3 kB; tomllib takes a thousand times the size of a hostile file."""
MAX_DEPTH = 64
"""Deepest nesting of tables and lists that is accepted."""
MAX_INTEGER = 2**63
"""Whole numbers from -2^63 to 2^63 are accepted; anything larger is a typing error or an attack."""


MAX_KEY_PARTS = 16
"""Most dotted parts of a TOML key."""
_TOML_TOKEN = re.compile(
    r"""(?P<part>[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')|(?P<dot>[ \t]*\.[ \t]*)|(?P<other>.)"""
)


class _RefusedError(ValueError):
    """A value the parser accepts and we do not."""


def read_json(
    path: str | os.PathLike[str],
    max_bytes: int = MAX_JSON_BYTES,
    error: type[InputError] = InputError,
    *,
    infinity: bool = False,
) -> dict[str, Any]:
    """The object a JSON file holds.

    Args:
        path: A regular file in UTF-8, with or without byte order mark.
        max_bytes: Larger files are refused unread.
        error: Class of the one-line error.
        infinity: Accept the word Infinity, which Python writes for an open limit.

    Raises:
        InputError: as ``error``; missing, not a regular file, empty, too large, not UTF-8, invalid
            or cut off, duplicate keys, NaN or infinite or huge numbers, too deep, or not an object.
    """
    return _load(path, max_bytes, error, functools.partial(_parse_json, infinity=infinity))


def read_toml(
    path: str | os.PathLike[str],
    max_bytes: int = MAX_TOML_BYTES,
    error: type[InputError] = InputError,
) -> dict[str, Any]:
    """The tables a TOML file holds; arguments and errors are those of ``read_json``."""
    return _load(path, max_bytes, error, _parse_toml)


def _load(
    path: str | os.PathLike[str],
    max_bytes: int,
    error: type[InputError],
    parse: Callable[[str], object],
) -> dict[str, Any]:
    shown = shown_path(path)
    text = _read_text(path, shown, max_bytes, error)
    try:
        value = parse(text)
        _check_values(value)
    except RecursionError:
        raise error(f"{shown} is nested deeper than {MAX_DEPTH} levels; flatten it") from None
    except _RefusedError as fault:
        raise error(f"{shown} {fault}") from None
    if not isinstance(value, dict):
        raise error(f"{shown} holds {_kind_of(value)} at top level; it must hold an object {{...}}")
    return value


def _read_text(
    path: str | os.PathLike[str], shown: str, max_bytes: int, error: type[InputError]
) -> str:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise error(f"{shown} is a folder; give a file")
        # A pipe or device could block for ever or never end.
        if not stat.S_ISREG(mode):
            raise error(f"{shown} is not a regular file; give a file on disk")
        with open(path, "rb") as stream:
            data = stream.read(max_bytes + 1)
    except FileNotFoundError:
        raise error(f"{shown} does not exist; check the path") from None
    except OSError as fault:
        raise error(f"{shown} cannot be read: {fault.strerror or 'unknown reason'}") from None
    except ValueError as fault:
        if isinstance(fault, InputError):
            raise
        raise error(f"{shown} is not a usable path") from None
    if len(data) > max_bytes:
        raise error(f"{shown} is larger than {format_bytes(max_bytes)}; this is not the right file")
    if not data.strip():
        raise error(f"{shown} is empty; it must hold an object")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise error(f"{shown} is not UTF-8 text (byte {fault.start}); save it as UTF-8") from None


def _parse_json(text: str, *, infinity: bool) -> object:
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique_keys,
            parse_int=_integer,
            parse_float=_finite,
            parse_constant=_open_limit if infinity else _refuse_constant,
        )
    except json.JSONDecodeError as fault:
        at_end = fault.pos >= len(text.rstrip())
        hint = "; the file seems cut off" if at_end or "Unterminated" in fault.msg else ""
        where = f"line {fault.lineno}, column {fault.colno}"
        raise _RefusedError(f"is not valid JSON at {where}: {fault.msg}{hint}") from None


def _parse_toml(text: str) -> object:
    _check_key_lengths(text)
    try:
        return tomllib.loads(text, parse_float=_finite)
    except tomllib.TOMLDecodeError as fault:
        message = str(fault)
        raise _RefusedError(f"is not valid TOML: {message[0].lower()}{message[1:200]}") from None
    except _RefusedError:
        raise
    except ValueError:
        # Python refuses to convert integers of thousands of digits, tomllib dates such as month 13.
        raise _RefusedError("holds a number or date that is out of range") from None


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise _RefusedError(f"holds the key {repeated[:60]!r} twice; keep one")
    return table


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise _RefusedError(f"holds a whole number of {len(digits)} digits; the limit is 2^63")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _RefusedError(f"holds {digits[:20]!r}, which is not a finite number")
    return value


def _open_limit(name: str) -> object:
    return _refuse_constant(name) if name == "NaN" else float(name.replace("Infinity", "inf"))


def _refuse_constant(name: str) -> object:
    raise _RefusedError(f"holds {name}, which is not a finite number")


def _check_values(root: object) -> None:
    """Refuse what is too deep, too large or not text; iterative, so that depth costs no stack."""
    pending: list[tuple[dict[str, object] | list[object], int]] = [([root], 0)]
    while pending:
        container, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise RecursionError
        if isinstance(container, dict):
            for key in container:
                _check_text(key)
        for child in container.values() if isinstance(container, dict) else container:
            if isinstance(child, dict | list):
                pending.append((child, depth + 1))
            else:
                _check_scalar(child)


def _check_scalar(value: object) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
        raise _RefusedError("holds a whole number beyond 2^63; check the number")


def _check_key_lengths(text: str) -> None:
    """Refuse keys of very many dotted parts: tomllib needs memory by the square of their number."""
    for line in text.split("\n"):
        if line.count(".") < MAX_KEY_PARTS:
            continue
        parts = 0
        for token in _TOML_TOKEN.finditer(line):
            if token.lastgroup == "part":
                parts += 1
            elif token.lastgroup == "other":
                parts = 0
            if parts > MAX_KEY_PARTS:
                raise _RefusedError(f"has a key of more than {MAX_KEY_PARTS} dotted parts")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _RefusedError("holds half of a surrogate pair, which is not text") from None


def _kind_of(value: object) -> str:
    names = {list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def shown_path(path: str | os.PathLike[str]) -> str:
    """The path as a one-line message may show it: quoted, control characters escaped, bounded."""
    text = os.fspath(path)
    return repr(text if len(text) <= 200 else text[:90] + "..." + text[-90:])


def write_text_atomically(
    path: str | os.PathLike[str], text: str, error: type[InputError] = InputError
) -> None:
    """Write ``text`` as UTF-8 so that ``path`` holds either its old content or all of the new.

    A temporary file in the same folder is written, flushed to disk and renamed over ``path``; a
    symbolic link is followed, so the file it names is replaced and not the link.

    Raises:
        InputError: as ``error``; the folder is missing or not writable, ``path`` is a folder or a
            device, or the text cannot be encoded.
    """
    shown = shown_path(path)
    try:
        data = text.encode()
        target = Path(os.path.realpath(path))
        # Renaming over a pipe or a device would replace it, which is never meant.
        if os.path.exists(path) and not os.path.isfile(path):
            kind = "a folder" if os.path.isdir(path) else "not a regular file"
            raise error(f"{shown} is {kind}; give the path of a file")
        if not target.parent.is_dir():
            raise error(f"the folder of {shown} does not exist; create it first")
        _write_and_rename(target, data)
    except UnicodeEncodeError:
        raise error(
            f"text for {shown} holds half of a surrogate pair and cannot be saved"
        ) from None
    except OSError as fault:
        raise error(f"{shown} cannot be written: {fault.strerror or 'unknown reason'}") from None
    except ValueError as fault:
        if isinstance(fault, InputError):
            raise
        raise error(f"{shown} is not a usable path") from None


def _write_and_rename(target: Path, data: bytes) -> None:
    temporary = target.parent / f".specmemo-{secrets.token_hex(8)}.tmp"
    mode = stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666
    # Exclusive creation: a file that somebody placed there is never followed or overwritten.
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
