"""``TokenTree``: the draft tokens of one verification step, as parents and child ranks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from specmemo_sim.errors import InvalidTreeError
from specmemo_sim.tree.shown import shown

MAX_NODES = 4096
"""Largest tree, root included; four times the widest tree in published use."""
MAX_RANKS = 2**20
"""Ranks are below this number, which is more than any vocabulary holds."""

Path = tuple[int, ...]
"""A node as the child ranks that lead to it from the root; the root is ``()``."""


@dataclass(frozen=True, slots=True)
class TokenTree:
    """A rooted tree whose node 0 is the last confirmed token; every other node is a draft token.

    Two trees with the same paths compare equal only in the same node order. `from_paths` gives the
    canonical order: by depth, then by path, which is also the order of Medusa's buffers.
    A tree of one node is plain decoding.

    Raises:
        InvalidTreeError: a node does not come after its parent, siblings share a rank, or the tree
            is empty or has more than 4096 nodes.
    """

    parents: tuple[int, ...]
    """[N] parent of each node; -1 for the root and smaller than the node for every other."""
    ranks: tuple[int, ...]
    """[N] rank of each node among the draft's guesses after its parent, best 0; 0 for the root."""

    def __post_init__(self) -> None:
        _check_lengths(self.parents, self.ranks)
        for name, numbers in (("parent", self.parents), ("rank", self.ranks)):
            for node, number in enumerate(numbers):
                if type(number) is not int:
                    raise InvalidTreeError(
                        f"{name} of node {node} is {shown(number)}; it must be a whole number"
                    )
        if self.parents[0] != -1 or self.ranks[0] != 0:
            raise InvalidTreeError(
                f"node 0 has parent {shown(self.parents[0])} and rank {shown(self.ranks[0])}; "
                "it is the root, with parent -1 and rank 0"
            )
        _check_edges(self.parents, self.ranks)

    @classmethod
    def from_paths(cls, paths: Iterable[Sequence[int]]) -> Self:
        """The tree of these paths in canonical order: by depth, then by path.

        Args:
            paths: Draft nodes as child ranks from the root, in any order, such as Medusa's choices
                ``[[0], [1], [0, 0]]``. The root is implied. No path at all is plain decoding.

        Raises:
            InvalidTreeError: a path is empty, repeated or lacks its prefix, a rank is negative or
                no whole number, or there are more than 4095 paths.
        """
        known: set[Path] = set()
        for path in paths:
            if len(known) == MAX_NODES - 1:
                raise InvalidTreeError(
                    f"the tree has more than {MAX_NODES} nodes (root included); give fewer paths"
                )
            checked = _checked_path(path)
            if checked in known:
                raise InvalidTreeError(f"path {shown(checked)} is given twice; give it once")
            known.add(checked)
        ordered = sorted(known, key=lambda path: (len(path), path))
        index: dict[Path, int] = {(): 0}
        parents, ranks = [-1], [0]
        for path in ordered:
            parent = index.get(path[:-1])
            if parent is None:
                raise InvalidTreeError(
                    f"path {shown(path)} needs its prefix {shown(path[:-1])}; add that path"
                )
            index[path] = len(parents)
            parents.append(parent)
            ranks.append(path[-1])
        return cls(tuple(parents), tuple(ranks))

    @property
    def num_nodes(self) -> int:
        """Nodes, root included: the tokens of one verification pass."""
        return len(self.parents)

    @property
    def depths(self) -> tuple[int, ...]:
        """[N] edges from the root to each node."""
        depths = [0]
        for parent in self.parents[1:]:
            depths.append(depths[parent] + 1)
        return tuple(depths)

    @property
    def depth(self) -> int:
        """Edges from the root to the deepest node: decoding heads used, 0 for a single node."""
        return max(self.depths)

    @property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """[N] children of each node, in node order."""
        children: list[list[int]] = [[] for _ in self.parents]
        for node, parent in enumerate(self.parents[1:], start=1):
            children[parent].append(node)
        return tuple(tuple(nodes) for nodes in children)

    @property
    def leaves(self) -> tuple[int, ...]:
        """Nodes without children, in node order; the root of a single-node tree is one."""
        inner = set(self.parents)
        return tuple(node for node in range(self.num_nodes) if node not in inner)

    @property
    def num_leaves(self) -> int:
        """Root-to-leaf candidates."""
        return len(self.leaves)

    @property
    def nodes_per_level(self) -> tuple[int, ...]:
        """[depth + 1] nodes at each depth; the first is the root's 1."""
        depths = self.depths
        counts = [0] * (max(depths) + 1)
        for depth in depths:
            counts[depth] += 1
        return tuple(counts)

    @property
    def num_ranks(self) -> int:
        """Guesses per head that the tree uses: its largest rank plus one, 0 for a single node."""
        return max(self.ranks[1:], default=-1) + 1

    def paths(self) -> tuple[Path, ...]:
        """[N - 1] path of each draft node in node order; the root is left out."""
        paths: list[Path] = [()]
        for parent, rank in zip(self.parents[1:], self.ranks[1:], strict=True):
            paths.append((*paths[parent], rank))
        return tuple(paths[1:])


def _check_lengths(parents: object, ranks: object) -> None:
    """Refuse anything but two tuples of one length in range."""
    if not isinstance(parents, tuple) or not isinstance(ranks, tuple):
        raise InvalidTreeError("parents and ranks must be tuples, such as (-1, 0) and (0, 0)")
    if len(parents) != len(ranks):
        raise InvalidTreeError(
            f"{len(parents)} parents and {len(ranks)} ranks; each node needs one of both"
        )
    if not 1 <= len(parents) <= MAX_NODES:
        raise InvalidTreeError(f"the tree has {len(parents)} nodes; allowed are 1 to {MAX_NODES}")


def _check_edges(parents: tuple[int, ...], ranks: tuple[int, ...]) -> None:
    """Refuse a node before its parent, a rank out of range and two siblings of one rank."""
    seen: set[tuple[int, int]] = set()
    for node in range(1, len(parents)):
        parent, rank = parents[node], ranks[node]
        if not 0 <= parent < node:
            raise InvalidTreeError(
                f"parent of node {node} is {shown(parent)}; it must be one of 0 to {node - 1}"
            )
        if not 0 <= rank < MAX_RANKS:
            raise InvalidTreeError(
                f"rank of node {node} is {shown(rank)}; it must be 0 to {MAX_RANKS - 1}"
            )
        if (parent, rank) in seen:
            raise InvalidTreeError(
                f"node {parent} has two children of rank {rank}; siblings need distinct ranks"
            )
        seen.add((parent, rank))


def _checked_path(path: object) -> Path:
    """``path`` as a tuple of ranks."""
    if not isinstance(path, list | tuple):
        raise InvalidTreeError(f"path {shown(path)} must be a list of child ranks, such as [0, 1]")
    if not path:
        raise InvalidTreeError("path [] is empty; the root is implied, leave it out")
    if len(path) >= MAX_NODES:
        raise InvalidTreeError(
            f"path {shown(path)} has {len(path)} ranks; allowed are up to {MAX_NODES - 1}"
        )
    for rank in path:
        if type(rank) is not int or not 0 <= rank < MAX_RANKS:
            raise InvalidTreeError(
                f"path {shown(path)} has rank {shown(rank)}; "
                f"a rank is a whole number from 0 to {MAX_RANKS - 1}"
            )
    return tuple(path)
