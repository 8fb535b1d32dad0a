"""``ConfigReader``: typed look-up in a model's ``config.json``, with aliases and class defaults.

A value comes from the file; then from the default of the family's configuration class (noted, so
that a plan can say so); then from the rule's own fallback. A shape that none of them gives is an
error that names the missing field.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources

from specmemo_sim.errors import ModelConfigError

MAX_DIMENSION = 2**26
"""Larger sizes of one dimension (67 million) are typing errors."""
_MAX_LAYERS_LISTED = 4096
_MAX_NUMBER = 10**12

ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "dim", "model_dim", "n_embed"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads"),
    "num_key_value_heads": ("num_kv_heads", "n_head_kv", "n_kv_heads", "num_query_groups"),
    "intermediate_size": ("ffn_hidden_size", "n_inner", "ffn_dim", "inner_hidden_size"),
    "max_position_embeddings": (
        "n_positions", "max_seq_len", "seq_length", "n_ctx", "max_sequence_length",
        "model_max_length",
    ),
    "vocab_size": ("padded_vocab_size",),
    "tie_word_embeddings": ("tie_embedding",),
}  # fmt: skip
"""Names that families use for the same fact; the family's own attribute map comes on top."""


@cache
def class_defaults() -> Mapping[str, Mapping[str, Mapping[str, object]]]:
    """Defaults, aliases and nested types of the configuration classes, by model type.

    Source: transformers 5.24 (Apache-2.0), extracted by ``tests/oracle/extract_class_defaults.py``.
    """
    text = (resources.files("specmemo_sim.inputs") / "class_defaults.json").read_text("utf-8")
    table: dict[str, dict[str, dict[str, object]]] = json.loads(text)
    return table


class ConfigReader:
    """One configuration (or one nested part of it) with typed, bounded access."""

    def __init__(self, given: Mapping[str, object], model_type: str, *, where: str) -> None:
        entry = class_defaults().get(model_type, {})
        self.given = given
        self.model_type = model_type
        self.where = where
        self.notes: list[str] = []
        self._defaults = entry.get("defaults", {})
        self._class_aliases = entry.get("aliases", {})

    def error(self, problem: str) -> ModelConfigError:
        """An error line that starts with the file's name."""
        return ModelConfigError(f"{self.where}: {problem}")

    def _names(self, name: str) -> list[str]:
        alias = self._class_aliases.get(name)
        reverse = [key for key, value in self._class_aliases.items() if value == name]
        names = [name, *([alias] if isinstance(alias, str) else []), *reverse]
        return list(dict.fromkeys([*names, *ALIASES.get(name, ())]))

    def raw(self, name: str, *, note: bool = True) -> object:
        """The value under ``name`` or an alias, else the class default; None when neither exists.

        An explicit ``null`` counts as not given and hides the class default, as it does upstream.
        """
        names = self._names(name)
        for key in names:
            if key in self.given:
                if self.given[key] is not None:
                    return self.given[key]
                return None
        for key in names:
            default = self._defaults.get(key)
            if default is not None:
                if note:
                    self.notes.append(
                        f"{name} = {default} is the class default of {self.model_type}"
                    )
                return default
        return None

    def has(self, name: str) -> bool:
        """Whether the file gives a value for ``name`` or one of its aliases."""
        return any(self.given.get(key) is not None for key in self._names(name))

    def integer(self, name: str, default: int | None = None, *, minimum: int = 1) -> int:
        """A whole number in [minimum, 2^26].

        Raises:
            ModelConfigError: missing without a default, not a whole number, or out of range.
        """
        value = self.optional_integer(name, minimum=minimum)
        if value is not None:
            return value
        if default is None:
            raise self.error(
                f"{name} is missing ({self.model_type} models need it); add it to the configuration"
            )
        return default

    def optional_integer(self, name: str, *, minimum: int = 1) -> int | None:
        """A whole number in [minimum, 2^26], or None when neither file nor class gives one."""
        value = self.raw(name)
        return None if value is None else self.checked_integer(name, value, minimum=minimum)

    def checked_integer(self, name: str, value: object, *, minimum: int = 1) -> int:
        """``value`` as a whole number in [minimum, 2^26]."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.error(f"{name} must be a whole number, not {str(value)[:40]!r}")
        if not minimum <= value <= MAX_DIMENSION:
            raise self.error(
                f"{name} = {str(value)[:40]} is out of range; "
                f"allowed is {minimum} to {MAX_DIMENSION}"
            )
        return value

    def required_at_top(self, *names: str) -> None:
        """Refuse a file without a core dimension, although its class has a default for it."""
        for name in names:
            if not self.has(name):
                raise self.error(
                    f"{name} is missing; a {self.model_type} configuration states it, "
                    "so this file is incomplete"
                )

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean; the class default or ``default`` when the file does not say."""
        value = self.raw(name, note=False)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(f"{name} must be true or false, not {str(value)[:40]!r}")
        return value

    def text(self, name: str, default: str = "") -> str:
        """A short string, or ``default``."""
        value = self.raw(name, note=False)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > 200:
            raise self.error(f"{name} must be a short text, not {str(value)[:40]!r}")
        return value

    def number(self, name: str, default: float) -> float:
        """A finite number, or ``default``."""
        value = self.raw(name, note=False)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{name} must be a number, not {str(value)[:40]!r}")
        # Also false for NaN; a huge integer is compared as it is, since it has no float.
        if not -_MAX_NUMBER <= value <= _MAX_NUMBER:
            raise self.error(f"{name} is out of range; allowed is -10^12 to 10^12")
        return float(value)

    def items(self, name: str) -> list[object] | None:
        """A list of at most 4096 entries, or None."""
        value = self.raw(name, note=False)
        if value is None:
            return None
        if not isinstance(value, list | tuple) or len(value) > _MAX_LAYERS_LISTED:
            raise self.error(f"{name} must be a list of at most {_MAX_LAYERS_LISTED} entries")
        return list(value)

    def integers(self, name: str) -> list[int] | None:
        """A list of whole numbers >= 0, or None."""
        values = self.items(name)
        if values is None:
            return None
        return [self.checked_integer(name, value, minimum=0) for value in values]

    def nested(self, name: str) -> Mapping[str, object]:
        """A nested object, empty when absent."""
        value = self.raw(name, note=False)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.error(f"{name} must be an object, not {str(value)[:40]!r}")
        return value
