"""``AcceptanceProfile``: how often each decoding head's guesses were right, as a file."""

from itertools import pairwise
from math import exp, fsum, log
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from specmemo_sim.errors import InputError
from specmemo_sim.spec import Count, Spec
from specmemo_sim.tree.bundled import SourceNote, Status, list_entries, load_entry
from specmemo_sim.tree.rank_table import ROUNDING
from specmemo_sim.tree.shown import shown

MAX_HEADS = 64
"""More heads than any published drafter has levels."""
MAX_PROFILE_RANKS = 4096
"""Most ranks per head of a profile or table; a tree cannot use more."""
_FIT_RANKS = range(2, 6)
"""Ranks (best 1) through which the extension line goes."""

Fraction = Annotated[float, Field(ge=0, le=1, strict=True)]
"""Number in [0, 1]; no text and no true or false."""


class MeasuredTokens(Spec):
    """Tokens per step that a run with these heads really gave, to judge a prediction by."""

    setting: Literal["mt-bench-all", "mt-bench-t0"]
    """MT-Bench, all categories at the harness temperatures, or those at temperature 0 only."""
    tree: str = Field(min_length=1, max_length=100)
    """Name of the static tree of the run."""
    num_new_tokens: Count
    num_steps: Count
    source: str
    """Key of ``sources``."""
    status: Status

    @property
    def tokens_per_step(self) -> float:
        """Mean tokens committed per step, bonus included."""
        return self.num_new_tokens / self.num_steps


class AcceptanceProfile(Spec):
    """Top-k accuracies of independent decoding heads, measured with one target.

    The accuracies are *marginal*: each head is measured over all positions, conditional on nothing,
    neither on the heads before it nor on rejected siblings. Treating heads as independent makes the
    probability of a path the product of its heads' rank probabilities. Real heads are right
    together on easy text, so long paths come out too unlikely.
    """

    schema_version: Literal[1]
    kind: Literal["independent_heads"]
    name: str = Field(min_length=1, max_length=100)
    target: str = Field(min_length=1, max_length=200)
    """Model whose tokens the heads were measured against."""
    target_num_parameters: Count | None = None
    """Parameters of that model, for choosing a profile to borrow by size."""
    cumulative_top_k: tuple[
        Annotated[tuple[Fraction, ...], Field(min_length=1, max_length=MAX_PROFILE_RANKS)], ...
    ] = Field(min_length=1, max_length=MAX_HEADS)
    """[heads, ranks] fraction of positions where the token is among the head's k best guesses.

    Head 1 guesses the first token after the one that the target itself decides.
    """
    extended_to: int = Field(ge=1, le=MAX_PROFILE_RANKS, strict=True)
    """Ranks up to which probabilities are extrapolated; the number of measured ranks means none."""
    source: str
    """Key of ``sources`` for the accuracies."""
    status: Status
    note: str = Field(default="", max_length=2000)
    measured: tuple[MeasuredTokens, ...] = Field(default=(), max_length=100)
    sources: dict[str, SourceNote] = Field(min_length=1, max_length=20)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len({len(row) for row in self.cumulative_top_k}) > 1:
            raise ValueError("all heads in cumulative_top_k need the same number of ranks")
        for head, row in enumerate(self.cumulative_top_k, start=1):
            for rank, (before, after) in enumerate(pairwise(row), start=2):
                if after < before:
                    raise ValueError(
                        f"cumulative_top_k of head {head} falls from {before} to {after} at rank "
                        f"{rank}; the best k guesses include the best k - 1"
                    )
        for key in (self.source, *(run.source for run in self.measured)):
            if key not in self.sources:
                raise ValueError(
                    f"source {key[:40]!r} is not among sources; add [sources.{key[:40]}]"
                )
        self._check_extension()
        return self

    def _check_extension(self) -> None:
        if self.extended_to < self.num_measured_ranks:
            raise ValueError(
                f"extended_to is {self.extended_to}; it must be at least the "
                f"{self.num_measured_ranks} measured ranks"
            )
        if self.extended_to == self.num_measured_ranks:
            return
        for head, row in enumerate(self._marginals(), start=1):
            total = fsum((*row, *self._extension(head, row)))
            if total > 1 + ROUNDING:
                raise ValueError(
                    f"probabilities of head {head} sum to {total:.4f} when extended to "
                    f"{self.extended_to} ranks; lower extended_to"
                )

    @property
    def num_heads(self) -> int:
        """Decoding heads measured: the deepest tree that the profile can judge."""
        return len(self.cumulative_top_k)

    @property
    def num_measured_ranks(self) -> int:
        """Guesses per head that were measured."""
        return len(self.cumulative_top_k[0])

    def rank_probabilities(self, max_rank: int, extrapolate: bool = True) -> NDArray[np.float64]:
        """[heads, max_rank] probability that the head's guess of this rank is right, best first.

        Args:
            max_rank: Guesses per head, at least 1; at most `extended_to` if ``extrapolate``.
            extrapolate: False uses measured ranks only: any further rank gets probability 0, which
                makes every expectation a lower bound.

        Raises:
            InputError: ``max_rank`` is out of range.

        Source: a rank's probability is the difference of successive top-k accuracies. Beyond the
            measured ranks: straight line in log(rank), log(probability) through ranks 2 to 5 of
            the same head by least squares. Rank 1 is left out, since heads are trained for it.
        """
        allowed = self.extended_to if extrapolate else MAX_PROFILE_RANKS
        if type(max_rank) is not int or not 1 <= max_rank <= allowed:
            raise InputError(
                f"profile {self.name}: max_rank is {shown(max_rank)}; allowed are 1 to {allowed}"
                + (": use measured ranks only or a narrower tree" if extrapolate else "")
            )
        table = np.zeros((self.num_heads, max_rank))
        for head, row in enumerate(self._marginals(), start=1):
            full = (*row, *self._extension(head, row)) if extrapolate else row
            used = full[:max_rank]
            table[head - 1, : len(used)] = used
        return table

    def _marginals(self) -> list[tuple[float, ...]]:
        """[heads][measured ranks] probability of each rank."""
        return [
            tuple(after - before for before, after in pairwise((0.0, *row)))
            for row in self.cumulative_top_k
        ]

    def _extension(self, head: int, row: tuple[float, ...]) -> tuple[float, ...]:
        """Probabilities of the ranks after the measured ones."""
        extra = range(len(row) + 1, self.extended_to + 1)
        if not extra:
            return ()
        fitted = [row[rank - 1] for rank in _FIT_RANKS] if len(row) >= _FIT_RANKS[-1] else []
        if not fitted or min(fitted) <= 0:
            raise ValueError(
                f"extended_to needs measured probabilities above 0 at ranks {_FIT_RANKS[0]} to "
                f"{_FIT_RANKS[-1]}, which head {head} lacks; set it to {len(row)}"
            )
        xs = [log(rank) for rank in _FIT_RANKS]
        ys = [log(probability) for probability in fitted]
        mean_x, mean_y = fsum(xs) / len(xs), fsum(ys) / len(ys)
        slope = fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / fsum(
            (x - mean_x) ** 2 for x in xs
        )
        return tuple(exp(mean_y + slope * (log(rank) - mean_x)) for rank in extra)


def load_profile(name: str | Path) -> AcceptanceProfile:
    """The bundled profile of this name, such as ``"medusa-vicuna-7b"``, or that of a TOML file.

    Args:
        name: Name from `list_profiles`, or a path (a `Path`, or text that ends in ``.toml``).

    Raises:
        CatalogError: no bundled profile has this name.
        InputError: the file cannot be read or holds no valid profile.
    """
    return load_entry(AcceptanceProfile, "acceptance", name, InputError)


def list_profiles() -> tuple[str, ...]:
    """Names of the bundled profiles, sorted."""
    return list_entries("acceptance")
