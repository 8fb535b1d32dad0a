"""Trees of a regular shape."""

from specmemo_sim.errors import InvalidTreeError
from specmemo_sim.tree.shown import shown
from specmemo_sim.tree.token_tree import MAX_NODES, TokenTree


def chain(num_draft_tokens: int) -> TokenTree:
    """Each head's best guess after the other: one leaf, ``num_draft_tokens + 1`` nodes.

    Args:
        num_draft_tokens: Length of the chain, 0 (plain decoding) to 4095.

    Raises:
        InvalidTreeError: the length is out of range.
    """
    _check("num_draft_tokens", num_draft_tokens, 0)
    nodes = num_draft_tokens + 1
    if nodes > MAX_NODES:
        raise InvalidTreeError(
            f"a chain of {shown(num_draft_tokens)} draft tokens is too long; "
            f"allowed are 0 to {MAX_NODES - 1}"
        )
    return TokenTree(tuple(range(-1, num_draft_tokens)), (0,) * nodes)


def k_ary(depth: int, arity: int) -> TokenTree:
    """The complete tree in which every node above the last level has ``arity`` children.

    Nodes are in canonical order; there are sum over levels of ``arity**level`` of them.

    Args:
        depth: Levels below the root, at least 0.
        arity: Children per inner node, at least 1.

    Raises:
        InvalidTreeError: an argument is out of range or the tree has more than 4096 nodes.

    Source: SpecMemo, arXiv:2506.01986, Eq. 2 (depth = l, arity = k).
    """
    _check("depth", depth, 0)
    _check("arity", arity, 1)
    parents, ranks = [-1], [0]
    level = range(1)
    for _ in range(depth):
        if len(parents) + len(level) * arity > MAX_NODES:
            raise InvalidTreeError(
                f"a tree of depth {shown(depth)} and arity {shown(arity)} has more than "
                f"{MAX_NODES} nodes; lower one of them"
            )
        start = len(parents)
        for parent in level:
            parents.extend([parent] * arity)
            ranks.extend(range(arity))
        level = range(start, len(parents))
    return TokenTree(tuple(parents), tuple(ranks))


def _check(name: str, number: object, least: int) -> None:
    if type(number) is not int or number < least:
        raise InvalidTreeError(
            f"{name} is {shown(number)}; it must be a whole number from {least} up"
        )
