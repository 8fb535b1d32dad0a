"""Rank tables: the probability that a head's guess of some rank is the accepted one.

A rank table is a [heads, ranks] array whose entry (i, k) is the probability that the guess of rank
k at depth i + 1 is the target's token, given that its parent was accepted. Guesses of different
rank exclude each other, so a row sums to at most 1.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from specmemo_sim.errors import InputError

TIE = 1e-12
"""A rise with rank up to this much is a tie: equal accuracies can differ in the last bit."""
ROUNDING = 1e-9
"""Slack on sums of probabilities that were rounded in a file or in floating point."""


def checked_table(table: ArrayLike) -> NDArray[np.float64]:
    """``table`` as [heads, ranks] float64, known to hold probabilities.

    Raises:
        InputError: not two-dimensional, empty, an entry is no number in [0, 1], or a row sums to
            more than 1.
    """
    try:
        array = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("a rank table must be rows of numbers of equal length") from None
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"a rank table has shape [heads, ranks], at least 1 each; given: {array.shape}"
        )
    # The negated form is also true for NaN.
    wrong = np.argwhere(~((array >= 0) & (array <= 1)))
    if len(wrong):
        head, rank = (int(index) for index in wrong[0])
        raise InputError(
            f"probability of head {head + 1}, rank {rank + 1} is {array[head, rank]}; "
            "it must be in [0, 1]"
        )
    sums = array.sum(axis=1)
    if sums.max() > 1 + ROUNDING:
        head = int(sums.argmax())
        raise InputError(
            f"probabilities of head {head + 1} sum to {sums[head]:.6f}; at most 1 is possible"
        )
    return array


def sorted_table(table: ArrayLike) -> NDArray[np.float64]:
    """``table`` as [heads, ranks] float64, known to be non-increasing in rank.

    Raises:
        InputError: no rank table, or a guess is likelier than the one of the rank before.
    """
    array = checked_table(table)
    rising = np.argwhere(np.diff(array, axis=1) > TIE)
    if len(rising):
        head, rank = (int(index) for index in rising[0])
        raise InputError(
            f"head {head + 1} has probability {array[head, rank + 1]:.6g} at rank {rank + 2} but "
            f"{array[head, rank]:.6g} at rank {rank + 1}; best-first search needs probabilities "
            "that do not rise with rank: measure on more tokens or smooth the table"
        )
    return array
