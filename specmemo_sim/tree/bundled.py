"""Trees and profiles of the catalogue by name, or the user's own files of the same form by path."""

import os
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import Field

import device_catalog
from specmemo_sim.errors import CatalogError, InputError
from specmemo_sim.inputs.catalog import nearest_names
from specmemo_sim.inputs.files import read_toml, shown_path
from specmemo_sim.spec import Spec, validated
from specmemo_sim.tree.shown import shown

_CATALOGUE = Path(device_catalog.__file__).parent

Status = Literal["computed", "transcribed", "derived", "measured"]
"""How a number was obtained: computed from published raw data, copied from a published table,
derived by computed from other published figures, or measured by the author of the file."""
Folder = Literal["acceptance", "trees"]


class SourceNote(Spec):
    """Where a number comes from."""

    title: str = Field(min_length=1, max_length=300)
    url: str = Field(min_length=1, max_length=300)


Entry = TypeVar("Entry", bound=Spec)


def load_entry(
    kind: type[Entry], folder: Folder, name: str | Path, error: type[InputError]
) -> Entry:
    """The entry ``name`` of the catalogue's ``folder``, or that of a file if ``name`` is a path.

    A path is a `Path`, or text that ends in ``.toml``.

    Raises:
        CatalogError: unknown name; the message tells the nearest ones.
        InputError: as ``error``; the file cannot be read or is not a ``kind``.
    """
    if isinstance(name, Path) or str(name).endswith(".toml"):
        return validated(kind, read_toml(name, error=error), shown_path(name), error)
    if os.path.exists(name):
        raise CatalogError(
            f"{shown_path(name)} is no .toml file; give a TOML file or a bundled name"
        )
    known = list_entries(folder)
    if name not in known:
        nearest = nearest_names(str(name), known) or known
        raise CatalogError(
            f"no entry {shown(name)} in the catalogue's {folder} folder; "
            f"nearest: {', '.join(nearest)}; give one of these or the path of a .toml file"
        )
    file = _CATALOGUE / folder / f"{name}.toml"
    return validated(kind, read_toml(file, error=error), f"{folder}/{name}.toml", error)


def list_entries(folder: Folder) -> tuple[str, ...]:
    """Names in a folder of the catalogue, sorted."""
    return tuple(sorted(file.stem for file in (_CATALOGUE / folder).glob("*.toml")))
