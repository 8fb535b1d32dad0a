"""Which tokens each attention layer can see: all, or a window (from ``layer_types`` or by rule)."""

from specmemo_sim.inputs.config_reader import ConfigReader

SLIDING = ("sliding_attention", "local", "sliding", "swa", "local_attention")
CHUNKED = ("chunked_attention",)
FULL = ("full_attention", "attention", "global", "full", "global_attention")

_PATTERNS: dict[str, tuple[int, bool]] = {
    # family: (every n-th layer is full attention, pattern length may be stated in the file)
    "gemma2": (2, False),
    "vaultgemma": (2, False),
    "gpt_oss": (2, False),
    "gemma3_text": (6, True),
    "gemma4_text": (6, False),
    "gemma3n_text": (5, False),
    "cohere2": (4, True),
    "olmo3": (4, False),
    "exaone4": (4, True),
    "exaone_moe": (4, True),
}
_UNIFORM = {
    "mistral", "mixtral", "phi3", "phimoe", "starcoder2", "ministral", "ministral3", "mistral3",
    "minimax", "zamba2", "qwen3_moe",
}  # fmt: skip
_OPT_IN = {
    "qwen2",
    "qwen3",
    "qwen2_moe",
    "qwen3_moe",
    "smollm3",
    "qwen2_vl_text",
    "qwen2_5_vl_text",
}


def read_layer_types(reader: ConfigReader, num_layers: int) -> list[str] | None:
    """The file's ``layer_types``, one per layer, or None.

    Raises:
        ModelConfigError: a list of another length than the number of layers.
    """
    for name in ("layer_types", "layers_block_type"):
        stated = reader.items(name)
        if stated is not None:
            if len(stated) != num_layers:
                raise reader.error(
                    f"{name} has {len(stated)} entries for {num_layers} layers; give one per layer"
                )
            return [str(entry)[:60] for entry in stated]
    return None


def attention_windows(reader: ConfigReader, num_layers: int) -> list[int | None]:
    """Per layer the number of tokens a query can see, None for all of them."""
    window = _window(reader)
    stated = read_layer_types(reader, num_layers)
    if stated is not None:
        return [_window_of_type(reader, kind, window) for kind in stated]
    if window is None:
        return [None] * num_layers
    return [window if slides else None for slides in _sliding_by_rule(reader, num_layers)]


def _window(reader: ConfigReader) -> int | None:
    if reader.model_type in _OPT_IN and not reader.flag("use_sliding_window"):
        return None
    value = reader.optional_integer("sliding_window", minimum=0)
    return value or None


def _window_of_type(reader: ConfigReader, kind: str, window: int | None) -> int | None:
    if kind in FULL:
        return None
    if kind in CHUNKED:
        return reader.optional_integer("attention_chunk_size")
    if kind in SLIDING:
        if window is None:
            raise reader.error(f"layer_types names {kind!r} but sliding_window is missing; add it")
        return window
    raise reader.error(
        f"layer_types names {kind!r}, which is unknown for {reader.model_type}; "
        f"known are {', '.join(FULL[:1] + SLIDING[:1] + CHUNKED)}"
    )


def _sliding_by_rule(reader: ConfigReader, num_layers: int) -> list[bool]:
    """Per layer whether it slides, as the family does it when the file lists no layer types."""
    family = reader.model_type
    if family in _UNIFORM:
        return [True] * num_layers
    if family in ("qwen2", "qwen3", "dots1"):
        first = reader.integer("max_window_layers", num_layers, minimum=0)
        return [layer >= first for layer in range(num_layers)]
    if family == "qwen2_moe":
        last = reader.integer("max_window_layers", num_layers, minimum=0)
        return [layer % 2 == 0 and layer < last for layer in range(num_layers)]
    if family == "cwm":
        return [layer % 4 != 0 for layer in range(num_layers)]
    if family == "afmoe":
        period = reader.integer("global_attn_every_n_layers", 4)
        return [(layer + 1) % period != 0 for layer in range(num_layers)]
    if family == "smollm3":
        return [layer % 4 == 3 for layer in range(num_layers)]
    if family in _PATTERNS:
        period, may_be_stated = _PATTERNS[family]
        stated = reader.given.get("sliding_window_pattern") if may_be_stated else None
        if isinstance(stated, str):
            letters = stated or "G"
            return [letters[layer % len(letters)] == "L" for layer in range(num_layers)]
        if stated is not None:
            period = reader.checked_integer("sliding_window_pattern", stated)
        return [(layer + 1) % period != 0 for layer in range(num_layers)]
    return [False] * num_layers
