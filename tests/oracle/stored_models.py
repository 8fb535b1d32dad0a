"""Names and shapes in the checkpoint that transformers writes for a tiny model."""

import re
from collections import defaultdict
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import AutoModelForCausalLM

from specmemo_sim.inputs.model import ModelSpec

Inventory = dict[str, tuple[int, set[tuple[int, ...]]]]
"""Per name (experts numbered ``*``): elements of all tensors together, and their shapes."""


def _collected(tensors: list[tuple[str, tuple[int, ...], int]]) -> Inventory:
    sizes: dict[str, int] = defaultdict(int)
    shapes: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for name, shape, count in tensors:
        elements = count
        for size in shape:
            elements *= size
        sizes[name] += elements
        shapes[name].add(shape)
    return {name: (sizes[name], shapes[name]) for name in sizes}


def stored_tensors(config: Any, folder: Path) -> Inventory:
    """What ``save_pretrained`` writes, which reverses the conversions done on loading."""
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    found = []
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for key in tensors.keys():  # noqa: SIM118 - the handle is no mapping
                name = re.sub(r"experts\.\d+\.", "experts.*.", key)
                found.append((name, tuple(tensors.get_slice(key).get_shape()), 1))
    return _collected(found)


def our_stored_tensors(spec: ModelSpec) -> Inventory:
    """What our inventory says the checkpoint holds, stored buffers included."""
    found = [(t.name, t.shape, t.count) for t in spec.outer + spec.shared_layer_tensors]
    for number, layer in enumerate(spec.layer_sequence()):
        prefix = f"{spec.layer_prefix}.{number}."
        found += [(prefix + t.name, t.shape, t.count) for t in layer.tensors]
    return _collected(found)


def stacked(inventory: Inventory) -> dict[str, int]:
    """Elements per name for checkpoints that stack the experts of a layer into one tensor."""
    return {name.replace(".*", ""): size for name, (size, _) in inventory.items()}
