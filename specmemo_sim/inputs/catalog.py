"""Devices and model configurations by name: the bundled ones, and a user's own device file."""

import difflib
import functools
import os
import re
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

import device_catalog
from specmemo_sim.errors import CatalogError
from specmemo_sim.inputs.device import DeviceSpec, device_from_dict
from specmemo_sim.inputs.files import read_toml, shown_path
from specmemo_sim.spec import Spec, validated

_MAX_SHOWN = 8
_NUM_NEAREST = 3
# Words of marketing and of nvidia-smi that no id contains.
_NOISE = frozenset({"geforce", "radeon", "gpu", "tm", "r"})


class ModelEntry(Spec):
    """The facts of one model's ``config.json`` that were found, and how far they can be trusted."""

    schema_version: Literal[1]
    id: str = Field(pattern=r"^[\w.-]+/[\w.-]+$", max_length=150)
    """Organisation and name as on the Hugging Face Hub."""
    source: str = Field(min_length=1, max_length=500)
    """Where the facts were read, or ``unverified``."""
    unverified: tuple[str, ...] = ()
    """Fields of ``config`` (or absent ones) that no text confirms; ``*`` means all."""
    kind: Literal["eagle-1/2 draft head", "eagle-3 draft head"] | None = None
    """Set for draft heads, which are no models of their own."""
    quantization: str | None = Field(default=None, max_length=40)
    """Method the checkpoint is quantised with; its settings are not known here."""
    tower_missing: str = Field(default="", max_length=200)
    """Why a vision or audio tower that the model has cannot be counted; empty without one."""
    note: str = Field(default="", max_length=500)
    config: dict[str, Any] = Field(min_length=1, max_length=200)
    """Keys and values as in ``config.json``; what is not known is absent."""
    nulls: tuple[str, ...] = ()
    """Keys that the file states as null, which TOML cannot write."""
    facts: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Counts that are known although the list behind them is not."""

    def __hash__(self) -> int:
        return hash((self.id, self.source))


def device_ids() -> tuple[str, ...]:
    """Ids of the bundled devices, sorted."""
    return _stems(device_catalog.DEVICES)


def model_ids() -> tuple[str, ...]:
    """Ids of the bundled models, ``organisation/name``, sorted."""
    return tuple(stem.replace("--", "/", 1) for stem in _stems(device_catalog.MODELS))


def load_device(name_or_path: str | os.PathLike[str]) -> DeviceSpec:
    """The bundled device of that id (upper or lower case), else the device a TOML file describes.

    A part of an id is never enough: ``A100`` fails and lists what it could mean.

    Raises:
        CatalogError: an unknown name, or a file that is missing, damaged or not a device.
    """
    name = os.fspath(name_or_path)
    found = match_name(name, device_ids())
    if found:
        return _bundled_device(found[0])
    if name.endswith(".toml") or "/" in name or os.sep in name or os.path.isfile(name):
        return device_from_dict(read_toml(name, error=CatalogError), shown_path(name))
    raise CatalogError(
        f"device {_short(name)!r} is not in the catalogue; {_suggest(name, device_ids())}, "
        f"or give the path of a device file (.toml)"
    )


def load_devices() -> tuple[DeviceSpec, ...]:
    """Every bundled device, sorted by id."""
    return tuple(_bundled_device(device_id) for device_id in device_ids())


def load_model_entry(name: str) -> ModelEntry:
    """The bundled model of that id, or of that name without its organisation, if only one has it.

    Raises:
        CatalogError: an unknown name, or one that several organisations use.
    """
    found = match_name(name, model_ids())
    if len(found) == 1:
        return _bundled_model(found[0])
    if found:
        raise CatalogError(
            f"model {_short(name)!r} is ambiguous: {', '.join(found)}; give the full id"
        )
    raise CatalogError(
        f"model {_short(name)!r} is not in the catalogue; {_suggest(name, model_ids())}, "
        f"or give its config.json"
    )


def match_name(name: str, ids: tuple[str, ...]) -> tuple[str, ...]:
    """The id equal to ``name``, else all ids whose part after ``/`` equals it; case is ignored."""
    wanted = name.strip().lower()
    exact = tuple(known for known in ids if known.lower() == wanted)
    return exact or tuple(known for known in ids if known.lower().rpartition("/")[2] == wanted)


def nearest_names(name: str, ids: tuple[str, ...]) -> tuple[str, ...]:
    """Ids that contain every word of ``name``; without any, up to three that are spelt alike."""
    lowered = name.strip().lower()[:100]
    words = [word for word in re.split(r"[^a-z0-9.]+", lowered) if word and word not in _NOISE]
    containing = tuple(known for known in ids if all(word in known.lower() for word in words))
    if words and containing:
        return containing
    # Compare with the short name too: "lama-3.1-8b" resembles no full id enough.
    by_form = {known.lower().rpartition("/")[2]: known for known in ids}
    by_form |= {known.lower(): known for known in ids}
    wanted = "-".join(words) or lowered
    close = difflib.get_close_matches(wanted, by_form, n=2 * _NUM_NEAREST, cutoff=0.5)
    return tuple(dict.fromkeys(by_form[form] for form in close))[:_NUM_NEAREST]


def _suggest(name: str, ids: tuple[str, ...]) -> str:
    near = nearest_names(name, ids)
    if not near:
        verb = "models" if "/" in ids[0] else "devices"
        return f"specmemo {verb} lists its {len(ids)} ids"
    more = f" and {len(near) - _MAX_SHOWN} more" if len(near) > _MAX_SHOWN else ""
    return f"did you mean {', '.join(near[:_MAX_SHOWN])}{more}"


def _short(name: str) -> str:
    return name if len(name) <= 80 else name[:77] + "..."


@functools.cache
def _stems(folder: Path) -> tuple[str, ...]:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    return tuple(sorted(name[:-5] for name in names if name.endswith(".toml")))


@functools.cache
def _bundled_device(device_id: str) -> DeviceSpec:
    data = read_toml(device_catalog.DEVICES / f"{device_id}.toml", error=CatalogError)
    return device_from_dict(data, f"device {device_id!r}")


# Not cached: the entry holds a mutable dictionary, and reading one costs a millisecond.
def _bundled_model(model_id: str) -> ModelEntry:
    path = device_catalog.MODELS / f"{model_id.replace('/', '--', 1)}.toml"
    data = read_toml(path, error=CatalogError)
    return validated(ModelEntry, data, f"model {model_id!r}", CatalogError)
