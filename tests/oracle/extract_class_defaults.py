"""Writes the class defaults of transformers' decoder configurations to the simulator's data file.

Run ``python tests/oracle/extract_class_defaults.py`` after a change of the pinned transformers
release; a test compares the file with a fresh extraction.
"""

import dataclasses
import json
from pathlib import Path

DATA_FILE = Path(__file__).parents[2] / "specmemo_sim" / "inputs" / "class_defaults.json"
COMMON_WORDS = (
    "token", "drop", "eps", "epsilon", "initializer", "rope", "use_cache", "output_", "summary_",
    "router_aux", "id2label", "label2id", "problem_type", "architectures", "transformers_version",
    "return_dict", "chunk_size_feed_forward", "is_encoder_decoder", "pretraining_tp", "time_step",
    "scaling_factor", "softcap", "multiplier", "init_", "_std", "_init", "jitter", "coef", "audio",
)  # fmt: skip

SIZES = {"time_step_rank", "output_proj_dims", "deepstack_visual_indexes"}
AUDIO = ("qwen2_audio", "voxtral")


def extract() -> dict[str, dict[str, object]]:
    """Per model type: defaults that can decide a shape, attribute aliases, nested text type."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as MULTIMODAL,
    )

    table = {}
    for model_type in sorted(_with_nested({*CAUSAL, *MULTIMODAL, *AUDIO}, CONFIG_MAPPING)):
        kind = CONFIG_MAPPING[model_type]
        entry: dict[str, object] = {"defaults": _defaults(kind)}
        if names := CAUSAL.get(model_type):
            entry["architectures"] = [names] if isinstance(names, str) else list(names)
        if aliases := dict(getattr(kind, "attribute_map", {}) or {}):
            entry["aliases"] = aliases
        if nested := _nested(kind):
            entry["nested"] = nested
        table[model_type] = entry
    return table


def _nested(kind: type) -> dict[str, str]:
    """Type of each nested configuration; for a free choice (AutoConfig) the wrapper's default."""
    stated = getattr(kind, "sub_configs_defaults", {}) or {}
    found = {name: spec.model_type or spec.config_class.model_type for name, spec in stated.items()}
    return {name: model_type for name, model_type in found.items() if model_type}


def _with_nested(names: set[str], mapping: object) -> set[str]:
    """The names and every model type nested in one of them."""
    found, todo = set(), list(names)
    while todo:
        name = todo.pop()
        if name in found or name not in mapping:
            continue
        found.add(name)
        todo += list(_nested(mapping[name]).values())
    return found


def _defaults(kind: type) -> dict[str, object]:
    values = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            value = field.default
        elif field.default_factory is not dataclasses.MISSING:
            value = field.default_factory()
        else:
            continue
        plain = isinstance(value, int | float | str | bool | list | tuple)
        if plain and (_is_size(field.name) or not any(w in field.name for w in COMMON_WORDS)):
            values[field.name] = list(value) if isinstance(value, tuple) else value
    return values


def _is_size(name: str) -> bool:
    """Whether a field holds a size although its name contains one of the common words."""
    return name.endswith(("_head_dim", "_output_dim")) or name in SIZES


def rendered() -> str:
    """The data file's text, one model type a line, so that a change is readable."""
    lines = [
        f"{json.dumps(model_type)}: {json.dumps(entry, sort_keys=True)}"
        for model_type, entry in extract().items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    DATA_FILE.write_text(rendered(), encoding="utf-8")
