"""Best trees of every size for a rank table, by one best-first pass."""

from dataclasses import dataclass
from heapq import heappop, heappush

from numpy.typing import ArrayLike

from specmemo_sim.errors import InvalidTreeError
from specmemo_sim.tree.rank_table import sorted_table
from specmemo_sim.tree.shown import shown
from specmemo_sim.tree.token_tree import MAX_NODES, Path, TokenTree


@dataclass(frozen=True, slots=True)
class GrowthPoint:
    """The best tree of one size, described by what the last added node changed."""

    num_nodes: int
    """Size of the tree, root included."""
    tokens_per_step: float
    """Expected tokens per step, bonus included."""
    depth: int
    """Edges from the root to the deepest node."""
    num_leaves: int
    """Root-to-leaf candidates."""
    added_path: Path
    """Node that the tree one smaller lacks; ``()`` is the root."""
    added_probability: float
    """Probability that this node and all its ancestors are accepted: its gain in tokens."""


@dataclass(frozen=True, slots=True)
class GrowthSequence:
    """Best trees of 1, 2, ... nodes; each contains the one before, so that scanning is cheap."""

    points: tuple[GrowthPoint, ...]
    """[max_nodes] one per size, smallest first."""

    @property
    def max_nodes(self) -> int:
        """Size of the largest tree, root included."""
        return len(self.points)

    def at(self, num_nodes: int) -> GrowthPoint:
        """The point of the best tree of ``num_nodes`` nodes, root included.

        Raises:
            InvalidTreeError: ``num_nodes`` is not from 1 to `max_nodes`.
        """
        if type(num_nodes) is not int or not 1 <= num_nodes <= self.max_nodes:
            raise InvalidTreeError(
                f"no tree of {shown(num_nodes)} nodes was grown; sizes are 1 to {self.max_nodes}"
            )
        return self.points[num_nodes - 1]

    def tree_of_size(self, num_nodes: int) -> TokenTree:
        """The best tree of ``num_nodes`` nodes, root included, in canonical order.

        Raises:
            InvalidTreeError: ``num_nodes`` is not from 1 to `max_nodes`.
        """
        self.at(num_nodes)
        return TokenTree.from_paths([point.added_path for point in self.points[1:num_nodes]])


def best_first(table: ArrayLike, num_nodes: int) -> TokenTree:
    """The tree of ``num_nodes`` nodes, root included, with the most expected tokens per step.

    Args:
        table: [heads, ranks] rank table, non-increasing in rank.
        num_nodes: Size of the tree, root included; at most what heads and ranks can fill.

    Raises:
        InputError: the table holds no probabilities or rises with rank.
        InvalidTreeError: ``num_nodes`` is out of range.
    """
    return best_first_sizes(table, num_nodes).tree_of_size(num_nodes)


def best_first_sizes(table: ArrayLike, max_nodes: int) -> GrowthSequence:
    """Best trees of all sizes up to ``max_nodes``, root included, from one pass.

    A node's probability is the product along its path. It does not rise towards the next sibling or
    towards a child, so the N likeliest nodes are connected: taking the likeliest neighbour of the
    tree N times is exact, at O(N log N) with a heap. Equal probabilities go to the shallower node,
    then to the smaller path.

    Args:
        table: [heads, ranks] rank table, non-increasing in rank.
        max_nodes: Largest size, root included, 1 to `largest_tree_size`.

    Raises:
        InputError: the table holds no probabilities or rises with rank.
        InvalidTreeError: ``max_nodes`` is out of range.

    Source: Medusa, arXiv:2401.10774, section on sparse trees, which rescans all neighbours for each
        node; the heap and the exactness argument replace that.
    """
    rows = sorted_table(table).tolist()
    num_heads, num_ranks = len(rows), len(rows[0])
    largest = largest_tree_size(num_heads, num_ranks)
    if type(max_nodes) is not int or not 1 <= max_nodes <= largest:
        raise InvalidTreeError(
            f"a tree of {shown(max_nodes)} nodes was asked for; "
            f"{num_heads} heads of {num_ranks} ranks allow 1 to {largest} nodes, root included"
        )
    points = [GrowthPoint(1, 1.0, 0, 1, (), 1.0)]
    # (-probability, depth, path, probability of the parent); each node is pushed exactly once, by
    # the sibling before it or, at rank 0, by its parent.
    frontier: list[tuple[float, int, Path, float]] = [(-rows[0][0], 1, (0,), 1.0)]
    while len(points) < max_nodes:
        negated, depth, path, parent_probability = heappop(frontier)
        last, probability, rank = points[-1], -negated, path[-1]
        points.append(
            GrowthPoint(
                last.num_nodes + 1,
                last.tokens_per_step + probability,
                max(last.depth, depth),
                # A first child takes the place of its parent among the leaves.
                last.num_leaves + (rank > 0),
                path,
                probability,
            )
        )
        if rank + 1 < num_ranks:
            sibling = parent_probability * rows[depth - 1][rank + 1]
            heappush(frontier, (-sibling, depth, (*path[:-1], rank + 1), parent_probability))
        if depth < num_heads:
            child = probability * rows[depth][0]
            heappush(frontier, (-child, depth + 1, (*path, 0), probability))
    return GrowthSequence(tuple(points))


def largest_tree_size(num_heads: int, num_ranks: int) -> int:
    """Nodes, root included, of the complete tree of these heads and ranks, or 4096 if that is less.

    Args:
        num_heads: Levels below the root, at least 0.
        num_ranks: Children per node, at least 1.
    """
    nodes = level = 1
    for _ in range(num_heads):
        level *= num_ranks
        nodes += level
        if nodes >= MAX_NODES:
            return MAX_NODES
    return nodes
