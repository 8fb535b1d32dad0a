"""``build_request``: the ``PlanRequest`` that the options of a command line add up to."""

import math

from specmemo_sim.cli.plan_options import MAX_NODES, PRECISIONS, PlanOptions
from specmemo_sim.errors import InputError
from specmemo_sim.inputs.catalog import load_device
from specmemo_sim.inputs.device import with_memory
from specmemo_sim.inputs.drafter import EagleHead, eagle_from_model, eagle_like
from specmemo_sim.inputs.dtypes import DType, parse_dtype
from specmemo_sim.inputs.model import ModelSpec, Role
from specmemo_sim.inputs.model_source import load_model
from specmemo_sim.inputs.workload import Workload
from specmemo_sim.memory.buffers import BufferModel
from specmemo_sim.planner.drafting import DrafterChoice
from specmemo_sim.planner.precision import KvPrecision
from specmemo_sim.planner.request import DEFAULT_MAX_HEADS, DEFAULT_MAX_NODES, PlanRequest
from specmemo_sim.spec import validated
from specmemo_sim.tree.tree_file import load_tree
from specmemo_sim.units import parse_bytes


def build_request(model_source: str, options: PlanOptions) -> PlanRequest:
    """The request of a command line.

    Raises:
        InputError: any value that cannot be used; one line.
    """
    device = load_device(options.device)
    if options.memory is not None:
        device = with_memory(device, parse_bytes(options.memory))
    model = load_model(model_source)
    half = options.precision if options.precision in ("fp16", "bf16") else options.dtype
    if options.dtype is not None and half != options.dtype:
        raise InputError(
            f"--dtype {options.dtype} contradicts --precision {half}; drop one of them"
        )
    if half is not None:
        model = model.replace(dtype=_half_type(half))
    if model.draft_head:
        raise InputError(
            f"{model.name} is a draft head, not a model; plan its target with "
            f"--drafter {model.draft_head} --drafter-model {model.name}"
        )
    _refuse_beyond_table(model, options.context)
    choice = DrafterChoice(options.drafter)
    _refuse_unused(options, choice)
    head, draft = _drafter_model(options, choice, model)
    return PlanRequest(
        model=model,
        device=device,
        workload=_workload(options),
        drafter=choice,
        head=head,
        draft_model=draft,
        acceptance_rate=_probability(options.acceptance_rate, choice),
        profile=options.profile,
        precision=PRECISIONS[options.precision],
        kv_precision=KvPrecision(options.kv_precision),
        max_heads=_within("--max-heads", _or(options.max_heads, DEFAULT_MAX_HEADS), 1, 16),
        max_nodes=_within("--max-nodes", _or(options.max_nodes, DEFAULT_MAX_NODES), 2, MAX_NODES),
        tree=None if options.tree is None else load_tree(options.tree),
        buffers=BufferModel(options.buffers),
        drop_outside_window=options.kv_cache == "window",
        expand_latent=options.mla_cache == "expanded",
        with_tower=options.tower,
        reserved_bytes=0 if options.reserved is None else parse_bytes(options.reserved),
    )


def _half_type(name: str) -> DType:
    try:
        dtype = parse_dtype(name)
    except InputError:
        dtype = DType.FP32  # no type at all is refused like a type of another size
    if dtype not in (DType.FP16, DType.BF16):
        raise InputError(f"--dtype {name[:40]!r} is no 16-bit type; give fp16 or bf16")
    return dtype


def _workload(options: PlanOptions) -> Workload:
    fields = {
        "batch": options.batch,
        "turns": options.turns,
        "prompt_tokens": options.prompt_tokens,
        "output_tokens": options.output_tokens,
        "context": options.context,
        "prefill_chunk": options.prefill_chunk,
    }
    for name, value in fields.items():
        if value is not None:
            _within("--" + name.replace("_", "-"), value, 1, _LIMITS[name])
    return validated(Workload, fields, "workload", InputError)


def _refuse_beyond_table(model: ModelSpec, context: int | None) -> None:
    """Refuse a context that a learned table of positions cannot reach."""
    limit = model.max_position_embeddings
    learned = any(tensor.role is Role.POSITION for tensor in model.outer)
    if learned and limit is not None and context is not None and context > limit:
        raise InputError(
            f"--context {context:,} passes the {limit:,} learned positions of {model.name}; "
            f"give at most {limit}"
        )


def _refuse_unused(options: PlanOptions, choice: DrafterChoice) -> None:
    """Refuse an option that the others make meaningless, instead of ignoring it."""
    heads = choice in (DrafterChoice.AUTO, DrafterChoice.MEDUSA)
    unused = {
        "--profile": options.profile is not None and not heads,
        "--max-heads": options.max_heads is not None and (not heads or options.tree is not None),
        "--max-nodes": options.max_nodes is not None
        and (choice is DrafterChoice.NONE or options.tree is not None),
    }
    for option, is_unused in unused.items():
        if is_unused:
            other = "--tree" if options.tree is not None else f"--drafter {choice.value}"
            raise InputError(f"{option} has no effect with {other}; drop one of them")


_LIMITS = {
    "batch": 65_536,
    "turns": 10**6,
    "prompt_tokens": 2**26,
    "output_tokens": 2**26,
    "context": 2**26,
    "prefill_chunk": 2**26,
}


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _within(option: str, value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise InputError(f"{option} {str(value)[:30]} is out of range; give {low} to {high:,}")
    return value


def _probability(rate: float | None, choice: DrafterChoice) -> float | None:
    if rate is None:
        return None
    if choice in (DrafterChoice.AUTO, DrafterChoice.MEDUSA, DrafterChoice.NONE):
        raise InputError(
            f"--acceptance-rate goes with a chain drafter, not with --drafter {choice.value}; "
            "name one, such as --drafter draft-model"
        )
    if not math.isfinite(rate) or not 0 <= rate <= 1:
        raise InputError(f"--acceptance-rate {rate} is no probability; give a number from 0 to 1")
    return rate


def _drafter_model(
    options: PlanOptions, choice: DrafterChoice, target: ModelSpec
) -> tuple[EagleHead | None, ModelSpec | None]:
    """(shape of an EAGLE head, draft model) as far as the choice needs one."""
    if choice is DrafterChoice.DRAFT_MODEL and options.drafter_model is not None:
        return None, load_model(options.drafter_model)
    if choice not in (DrafterChoice.EAGLE, DrafterChoice.EAGLE3):
        if options.drafter_model is not None and choice is not DrafterChoice.DRAFT_MODEL:
            raise InputError(
                f"--drafter-model goes with --drafter draft-model, eagle or eagle3, "
                f"not {choice.value}; drop it or name the drafter"
            )
        return None, None
    third = choice is DrafterChoice.EAGLE3
    if options.drafter_model is None:
        return eagle_like(target, "eagle3" if third else "eagle"), None
    head = load_model(options.drafter_model)
    vocab = head.draft_vocab_size or head.vocab_size
    return eagle_from_model(head, target, third=third, draft_vocab=vocab), None
