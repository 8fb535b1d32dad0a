"""``Proposal``: a drafter with the best trees it can propose and their expected acceptance."""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from specmemo_sim.acceptance.profile import AcceptanceProfile, list_profiles, load_profile
from specmemo_sim.errors import InputError
from specmemo_sim.inputs.drafter import (
    VOCABULARY_PADDING,
    Drafter,
    DraftModel,
    EagleHead,
    MedusaHeads,
    MtpLayers,
    NgramDrafter,
)
from specmemo_sim.inputs.dtypes import DType
from specmemo_sim.inputs.model import ModelSpec
from specmemo_sim.memory.kv_cache import has_recurrent_state
from specmemo_sim.tree.optimize import GrowthSequence, best_first_sizes, largest_tree_size

MAX_CHAIN = 16
"""Longest chain of draft tokens that is considered without acceptance data per depth."""


class DrafterChoice(StrEnum):
    """Which drafter the user wants."""

    AUTO = "auto"
    """Medusa heads or none, whichever is faster."""
    NONE = "none"
    MEDUSA = "medusa"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    DRAFT_MODEL = "draft-model"
    MTP = "mtp"
    NGRAM = "ngram"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One drafter configuration and the best tree of every size for it."""

    drafter: Drafter
    growth: GrowthSequence | None
    """None when nothing is known about acceptance, so that no speed can be predicted."""
    acceptance_basis: str
    """Where the acceptance comes from, one phrase."""


def medusa_proposals(
    profile: AcceptanceProfile,
    target: ModelSpec,
    dtype: DType,
    *,
    max_heads: int,
    max_nodes: int,
) -> list[Proposal]:
    """Proposals with 1, 2, ... Medusa heads, each with its best trees of all sizes.

    A target with recurrent layers folds tokens into a state and cannot verify branches, so only the
    heads' first guesses count there, as a chain.
    """
    table = profile.rank_probabilities(profile.extended_to)
    if has_recurrent_state(target):
        table = table[:, :1]
    basis = acceptance_basis(profile, target)
    return [
        Proposal(
            MedusaHeads(num_heads=heads, dtype=dtype),
            best_first_sizes(
                table[:heads], min(max_nodes, largest_tree_size(heads, table.shape[1]))
            ),
            basis,
        )
        for heads in range(1, min(max_heads, len(table)) + 1)
    ]


def chain_proposal(drafter: Drafter, acceptance_rate: float | None, *, max_nodes: int) -> Proposal:
    """A chain drafter with one acceptance rate per drafted token, or without acceptance data."""
    if acceptance_rate is None:
        return Proposal(drafter, None, "unknown: give --acceptance-rate to predict speed")
    length = min(MAX_CHAIN, max_nodes - 1)
    table = np.full((length, 1), acceptance_rate)
    basis = f"constant acceptance rate {acceptance_rate:g} per drafted token, as given"
    return Proposal(drafter, best_first_sizes(table, length + 1), basis)


def acceptance_basis(profile: AcceptanceProfile, target: ModelSpec) -> str:
    """Whether the profile was measured on this target or borrowed from another."""
    first, last = profile.num_measured_ranks + 1, profile.extended_to
    extended = f", ranks {first} to {last} extrapolated" if last >= first else ""
    if _same_model(profile.target, target.name):
        return f"measured head accuracies of {profile.name}{extended}"
    return (
        f"borrowed from {profile.name}{extended}: no heads were measured for {target.name}, "
        "real acceptance may differ"
    )


def profile_for(target: ModelSpec, name: str | None) -> AcceptanceProfile:
    """The named profile, else the target's own, else the one of the model nearest in size.

    Raises:
        InputError: an unknown name or a damaged profile file.
    """
    if name is not None:
        return load_profile(name)
    profiles = [load_profile(entry) for entry in list_profiles()]
    for profile in profiles:
        if _same_model(profile.target, target.name):
            return profile
    return min(profiles, key=lambda profile: _size_distance(profile, target))


def _size_distance(profile: AcceptanceProfile, target: ModelSpec) -> float:
    """Ratio of the two models' sizes, the larger over the smaller; infinite when unknown."""
    if profile.target_num_parameters is None:
        return float("inf")
    sizes = sorted((profile.target_num_parameters, target.num_parameters))
    return sizes[1] / sizes[0]


def _same_model(first: str, second: str) -> bool:
    return first.split("/")[-1].lower() == second.split("/")[-1].lower()


def chain_drafter(
    choice: DrafterChoice, target: ModelSpec, head: EagleHead | None, draft: ModelSpec | None
) -> Drafter:
    """The chain drafter of a choice.

    Raises:
        InputError: the choice needs a model that was not given, or the target has no MTP layer.
    """
    if choice is DrafterChoice.NGRAM:
        return NgramDrafter()
    if choice is DrafterChoice.MTP:
        if not target.mtp:
            raise InputError(
                f"{target.name} has no multi-token-prediction layer; choose another --drafter"
            )
        return MtpLayers()
    if choice is DrafterChoice.DRAFT_MODEL:
        if draft is None:
            raise InputError("--drafter draft-model needs --drafter-model; name the small model")
        if draft.draft_head:
            raise InputError(
                f"{draft.name} is a draft head, not a model; use --drafter {draft.draft_head}"
            )
        if abs(draft.vocab_size - target.vocab_size) > VOCABULARY_PADDING:
            raise InputError(
                f"draft model {draft.name} has {draft.vocab_size:,} tokens and {target.name} "
                f"{target.vocab_size:,}; both must share one vocabulary, choose another draft model"
            )
        return DraftModel(model=draft)
    if head is None:
        raise InputError(f"--drafter {choice.value} needs the head's shape; give --drafter-model")
    return head
