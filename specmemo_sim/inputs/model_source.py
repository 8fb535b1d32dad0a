"""``load_model``: a bundled id, a ``config.json``, a model folder, or a safetensors index."""

import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from specmemo_sim.errors import CatalogError, InputError, ModelConfigError
from specmemo_sim.inputs.catalog import ModelEntry, load_model_entry
from specmemo_sim.inputs.files import read_json
from specmemo_sim.inputs.hf_config import model_from_config
from specmemo_sim.inputs.model import ModelSpec

_MAX_CONFIG_BYTES = 16 * 2**20
_MAX_INDEX_BYTES = 64 * 2**20
_MAX_HEADER_BYTES = 100 * 2**20
_MAX_SHARDS = 4096
_MAX_NAME = 150
_SIDE_FILES = {
    "hf_quant_config.json": "modelopt",
    "quantize_config.json": "gptq",
    "quant_config.json": "awq",
}
"""Settings beside a configuration that does not hold them, by the tool that wrote them."""
_INDEX_NAME = "model.safetensors.index.json"


def load_model(source: str) -> ModelSpec:
    """The model that ``source`` names.

    Args:
        source: A bundled id or unique short name; or the path of a ``config.json``, of a folder
            that holds one, or of a safetensors index beside one. An existing path wins.

    Raises:
        InputError: nothing of that name, or a file that cannot be used; one line.
    """
    if len(source) > 4096 or "\0" in source or not source.strip():
        raise InputError(
            f"model {source[:40]!r} is not a name or path; give an id or a config.json"
        )
    path = Path(source).expanduser()
    if _exists(path):
        return _from_path(path)
    if source.endswith(".json") or source.startswith((".", "~", os.sep)):
        raise InputError(
            f"{source}: no such file; give a config.json, a model folder, or a bundled id"
        )
    return model_from_entry(load_model_entry(source))


def model_from_entry(entry: ModelEntry) -> ModelSpec:
    """The model of a bundled entry, with its source and its doubts as notes.

    Raises:
        CatalogError: the entry's facts do not suffice.
    """
    config: dict[str, object] = {**entry.config, **dict.fromkeys(entry.nulls)}
    # An EAGLE head is one Llama layer whatever family it drafts for.
    if entry.kind:
        config["model_type"] = "llama"
    try:
        model = model_from_config(config, entry.id)
    except ModelConfigError as fault:
        raise CatalogError(
            f"the catalogue's facts are incomplete, give the config.json of {entry.id} ({fault})"
        ) from None
    unknown_format = bool(entry.quantization) and model.quantization is None
    heads: dict[str | None, str] = {None: "", "eagle-1/2 draft head": "eagle"}
    return model.replace(
        source=entry.source,
        notes=(*model.notes, *_doubts(entry, unknown_format=unknown_format)),
        draft_head=heads.get(entry.kind, "eagle3"),
        stored_quantized=unknown_format,
        tower_missing=entry.tower_missing or model.tower_missing,
    )


def _doubts(entry: ModelEntry, *, unknown_format: bool) -> list[str]:
    """What is not sure about the facts of a bundled entry, one sentence each."""
    doubts = []
    if entry.unverified == ("*",):
        doubts.append("the catalogue's facts of this model are unverified: no config.json was read")
    elif entry.unverified:
        doubts.append(f"unverified in the catalogue: {', '.join(entry.unverified)}")
    if unknown_format:
        doubts.append(
            f"the checkpoint is quantised ({entry.quantization}) but the catalogue does not know "
            "its settings: 16-bit weights are counted, an upper bound; its config.json gives more"
        )
    return doubts


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except PermissionError:
        raise InputError(f"{path}: permission denied; choose a file you may read") from None
    except OSError:
        return False  # a name too long for the file system is no path


def _from_path(path: Path) -> ModelSpec:
    if path.is_dir():
        config = path / "config.json"
        if not _exists(config):
            raise InputError(f"{path}: the folder has no config.json; give a model folder")
        model = _read_config(config, path.name or "model")
        return _with_checkpoint(_with_side_file(model, path), _stored_bytes(path))
    if path.name.endswith(".index.json"):
        config = path.parent / "config.json"
        if not _exists(config):
            raise InputError(
                f"{path}: an index names tensors but not their shapes; put config.json beside it"
            )
        model = _read_config(config, path.absolute().parent.name)
        return _with_checkpoint(model, _index_bytes(path))
    name = path.absolute().parent.name if path.name == "config.json" else path.stem
    return _read_config(path, name)


def _read_config(path: Path, name: str) -> ModelSpec:
    # A file name may hold bytes that are no text.
    name = name.encode("utf-8", "replace").decode("utf-8", "replace")[:_MAX_NAME]
    # Mamba-2 configurations write Infinity for an open limit of the time step.
    data = read_json(path, max_bytes=_MAX_CONFIG_BYTES, error=ModelConfigError, infinity=True)
    if "weight_map" in data:
        raise InputError(f"{path}: this is a safetensors index; give it its .index.json name")
    return model_from_config(data, name or "model").replace(source=path.name)


def _with_side_file(model: ModelSpec, folder: Path) -> ModelSpec:
    """The model with the quantisation that older tools write beside the configuration."""
    if model.quantization is not None:
        return model
    for file_name, method in _SIDE_FILES.items():
        path = folder / file_name
        if _exists(path):
            found = read_json(path, max_bytes=_MAX_CONFIG_BYTES, error=ModelConfigError)
            return model.replace(quantization={"quant_method": method, **found})
    return model


def _with_checkpoint(model: ModelSpec, stored_bytes: int | None) -> ModelSpec:
    return model if stored_bytes is None else model.replace(checkpoint_bytes=stored_bytes)


def _stored_bytes(folder: Path) -> int | None:
    """Tensor bytes of the checkpoint in a folder, from its index or its files' headers."""
    index = folder / _INDEX_NAME
    if index.is_file():
        return _index_bytes(index)
    shards = sorted(folder.glob("*.safetensors"))
    return _header_bytes(shards) if shards else None


def _index_bytes(path: Path) -> int:
    index = read_json(path, max_bytes=_MAX_INDEX_BYTES, error=ModelConfigError)
    metadata = index.get("metadata")
    size = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(size, float) and size.is_integer():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size < 2**60:
        raise ModelConfigError(
            f"{path}: metadata.total_size must be the checkpoint's size in bytes, "
            f"not {str(size)[:40]!r}"
        )
    return size


def _header_bytes(shards: Iterable[Path]) -> int:
    """Sum of the tensors' bytes in safetensors files, from the headers alone.

    Source: safetensors format: 8 bytes little-endian header length, then JSON whose entries give
        ``data_offsets`` [begin, end).
    """
    total = 0
    for number, path in enumerate(shards):
        if number >= _MAX_SHARDS:
            raise ModelConfigError(f"{path.parent}: more than {_MAX_SHARDS} weight files")
        total += sum(_tensor_sizes(path))
    return total


def _tensor_sizes(path: Path) -> Iterable[int]:
    if not path.is_file():
        raise ModelConfigError(f"{path}: not a regular file; a model folder holds its weight files")
    try:
        with path.open("rb") as file:
            prefix = file.read(8)
            length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
            if not 0 < length <= _MAX_HEADER_BYTES:
                raise ModelConfigError(f"{path}: no safetensors header; the file is damaged")
            header = json.loads(file.read(length))
    except (OSError, ValueError, RecursionError) as fault:
        if isinstance(fault, ModelConfigError):
            raise
        raise ModelConfigError(f"{path}: the safetensors header cannot be read") from None
    if not isinstance(header, dict):
        raise ModelConfigError(f"{path}: the safetensors header is no object")
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = _offsets(path, name, entry)
            yield end - begin


def _offsets(path: Path, name: str, entry: object) -> tuple[int, int]:
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    if isinstance(offsets, list) and len(offsets) == 2:
        begin, end = offsets
        if type(begin) is int and type(end) is int and 0 <= begin <= end < 2**60:
            return begin, end
    raise ModelConfigError(f"{path}: tensor {name[:60]!r} has no data_offsets; the file is damaged")
