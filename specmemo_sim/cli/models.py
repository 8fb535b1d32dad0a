"""``specmemo models``: the bundled models as a table, or the facts of one model."""

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from specmemo_sim.cli.output import (
    JSON_OPTION,
    NARROW,
    plain,
    print_json,
    screen,
    times_sign,
)
from specmemo_sim.errors import InputError, SpecMemoError
from specmemo_sim.inputs.catalog import load_model_entry, model_ids
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.families.registry import RULES
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.inputs.model_source import load_model, model_from_entry
from specmemo_sim.inputs.quantization import cast_format, parse_quantization
from specmemo_sim.memory.kv_cache import CachePolicy, has_latent, kv_bytes, kv_bytes_per_token
from specmemo_sim.memory.weights import WeightBytes, weight_bytes
from specmemo_sim.units import format_bytes, format_count


@click.command("models", epilog="Example: specmemo models google/gemma-2-9b --context 8192")
@click.argument("model", required=False)
@click.option("--search", help="Only models whose id contains this text.")
@click.option("--families", is_flag=True, help="List the architectures that can be read.")
@click.option("--context", type=int, default=8192, show_default=True, help="Tokens per sequence.")
@click.option("--batch", type=int, default=1, show_default=True, help="Sequences.")
@JSON_OPTION
def command(
    model: str | None,
    search: str | None,
    families: bool,
    context: int,
    batch: int,
    as_json: bool,
) -> int:
    """List the bundled models, or print the facts of MODEL (an id, a config.json, a folder)."""
    if families and (model is not None or search is not None):
        raise InputError("--families lists architectures and goes with no model or --search")
    if families:
        _print_families(as_json)
    elif model is not None:
        if not 1 <= context <= 2**26 or not 1 <= batch <= 65_536:
            raise InputError("--context must be 1 to 67,108,864 and --batch 1 to 65,536")
        _print_one(load_model(model), context, batch, as_json)
    else:
        _print_list(search, as_json)
    return 0


def _print_families(as_json: bool) -> None:
    names = sorted(RULES)
    if as_json:
        print_json(names)
        return
    with screen() as out:
        out.print(f"{len(names)} architectures (the model_type of a config.json):")
        out.print(", ".join(names))


def _print_list(search: str | None, as_json: bool) -> None:
    chosen = [name for name in model_ids() if search is None or search.lower() in name.lower()]
    if not chosen:
        raise InputError(f"no bundled model contains {search!r}; give less, or a config.json")
    rows = [_list_row(name) for name in chosen]
    if as_json:
        print_json(rows)
        return
    with screen() as out:
        out.print(_list_table(rows, narrow=out.width < NARROW))
        out.print(f"[dim]{len(rows)} models; * marks facts that no source confirms[/]")


def _list_table(rows: list[dict[str, Any]], *, narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("id", no_wrap=not narrow, overflow="fold")
    table.add_column("type", overflow="fold")
    for name in ("params", "KV/token") if narrow else ("params", "16-bit weights", "KV/token"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        if row.get("incomplete"):
            table.add_row(plain(row["id"]), "[dim]facts incomplete[/]")
            continue
        sizes = [
            format_count(row["num_parameters"]),
            format_bytes(row["weights_16bit_bytes"]),
            format_bytes(row["kv_bytes_per_token"]),
        ]
        name = plain(row["id"]) + (" *" if row["unverified"] else "")
        kind = plain(row["kind"] or row["model_type"])
        table.add_row(name, kind, *(sizes[::2] if narrow else sizes))
    return table


def _list_row(name: str) -> dict[str, Any]:
    entry = load_model_entry(name)
    try:
        model = model_from_entry(entry)
    except SpecMemoError as fault:
        return {"id": entry.id, "incomplete": str(fault)}
    return {
        "id": entry.id,
        "model_type": model.model_type,
        "kind": entry.kind,
        "num_parameters": model.num_parameters,
        "weights_16bit_bytes": weight_bytes(model, cast_format(DType.FP16)).total,
        "kv_bytes_per_token": kv_bytes_per_token(model, CachePolicy(DType.FP16)),
        "unverified": list(entry.unverified),
    }


def _print_one(model: ModelSpec, context: int, batch: int, as_json: bool) -> None:
    stored = weight_bytes(model, parse_quantization(model.quantization))
    facts = _facts(model, stored, context, batch)
    if as_json:
        print_json(facts)
        return
    with screen() as out:
        head = f" ({model.draft_head} draft head)" if model.draft_head else ""
        out.print(f"[bold]{plain(model.name)}[/]  {plain(model.model_type)}{head}")
        upper = ", an upper bound" if model.stored_quantized else ""
        out.print(
            f"{model.num_parameters:,} parameters, {format_bytes(stored.total)} of weights "
            f"({stored.bits_per_weight:.2f} bits each{upper})"
        )
        out.print()
        _print_facts(out, facts)
        for note in model.notes:
            out.print(f"[dim]note[/] {plain(note)}")


def _facts(model: ModelSpec, stored: WeightBytes, context: int, batch: int) -> dict[str, Any]:
    """What follows from the configuration alone."""
    dtype = model.dtype if model.dtype.bits == 16 else DType.FP16
    full, windowed = CachePolicy(dtype), CachePolicy(dtype, drop_outside_window=True)
    facts: dict[str, Any] = {
        "name": model.name,
        "model_type": model.model_type,
        "num_parameters": model.num_parameters,
        "num_active_parameters": model.num_active_parameters,
        "num_mtp_parameters": model.num_mtp_parameters,
        "num_tower_parameters": model.num_tower_parameters,
        "tower_missing": model.tower_missing,
        "num_layers": model.num_layers,
        "hidden_size": model.hidden_size,
        "vocab_size": model.vocab_size,
        "max_position_embeddings": model.max_position_embeddings,
        "dtype": model.dtype.value,
        "tie_word_embeddings": model.tie_word_embeddings,
        "weights_bytes": stored.total,
        "weights_by_role_bytes": {role.value: size for role, size in stored.by_role},
        "tower_weights_bytes": stored.tower_bytes,
        "mtp_weights_bytes": stored.mtp_bytes,
        "bits_per_weight": stored.bits_per_weight,
        "checkpoint_bytes": model.checkpoint_bytes,
        "kv_bytes_per_token": kv_bytes_per_token(model, full),
        "state_bytes": kv_bytes(model, 1, 1, full) - kv_bytes_per_token(model, full),
        "context": context,
        "batch": batch,
        "kv_full_bytes": kv_bytes(model, context, batch, full),
        "kv_windowed_bytes": kv_bytes(model, context, batch, windowed),
        "source": model.source,
        "notes": list(model.notes),
    }
    if has_latent(model):
        expanded = CachePolicy(dtype, expand_latent=True)
        facts["kv_expanded_bytes"] = kv_bytes(model, context, batch, expanded)
    return facts


def _print_facts(out: Console, facts: dict[str, Any]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column(style="dim")
    context = f"{facts['context']:,} tokens {times_sign()} {facts['batch']}"
    rows: list[tuple[str, str, str]] = [
        ("active parameters", f"{facts['num_active_parameters']:,}", "one token passes through"),
        ("layers", str(facts["num_layers"]), f"hidden {facts['hidden_size']:,}"),
        ("vocabulary", f"{facts['vocab_size']:,}", _tied(facts)),
        ("positions", _positions(facts), facts["dtype"]),
        ("KV per token", format_bytes(facts["kv_bytes_per_token"]), "16 bits"),
        *_state_row(facts),
        ("KV, all kept", format_bytes(facts["kv_full_bytes"], 3), context),
    ]
    if facts["kv_windowed_bytes"] != facts["kv_full_bytes"]:
        rows.append(("KV, windowed", format_bytes(facts["kv_windowed_bytes"], 3), "windows only"))
    if "kv_expanded_bytes" in facts:
        rows.append(("KV, expanded", format_bytes(facts["kv_expanded_bytes"], 3), "MLA heads"))
    for key, label in (("mtp_weights_bytes", "MTP layer"), ("tower_weights_bytes", "tower")):
        if facts[key]:
            rows.append((label, format_bytes(facts[key]), "not in the weights above"))
    if facts["tower_missing"]:
        rows.append(("tower", "not counted", facts["tower_missing"]))
    for name, value, detail in rows:
        table.add_row(name, plain(value), plain(detail))
    out.print(table)


def _state_row(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    size = facts["state_bytes"]
    return [("recurrent states", format_bytes(size), "per sequence")] if size else []


def _tied(facts: dict[str, Any]) -> str:
    return "LM head tied to the embedding" if facts["tie_word_embeddings"] else "own LM head"


def _positions(facts: dict[str, Any]) -> str:
    stated = facts["max_position_embeddings"]
    return "not stated" if stated is None else f"{stated:,}"
