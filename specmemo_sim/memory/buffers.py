"""Runtime buffers of tree verification: the paper's Eq. 3, and verification by node."""

from dataclasses import dataclass
from enum import StrEnum


class BufferModel(StrEnum):
    """How verification holds its logits."""

    BY_NODE = "by-node"
    """One row of logits per tree node; decoding heads run on the accepted node only."""
    PAPER = "paper"
    """Eq. 3 as published: logits gathered again for every candidate and every head."""
    REFERENCE = "reference"
    """What the reference Medusa code really holds: more than Eq. 3 counts."""


@dataclass(frozen=True, slots=True)
class TreeShape:
    """What buffer sizes depend on."""

    num_nodes: int
    """Nodes, root included."""
    num_leaves: int
    """Root-to-leaf candidates."""
    depth: int
    """Levels below the root, which is the number of heads in use."""


def paper_buffer_bytes(shape: TreeShape, vocab_size: int, element_bytes: int, batch: int) -> int:
    """Bytes of the reference implementation's verification buffers.

    Source: SpecMemo, arXiv:2506.01986, Eq. 3: b*N*w + b*S*l*w + b*S*l^2*w elements. At fp16,
        w = 32000: (N, S, l) = (64, 42, 4) gives 57,856,000 B and (44, 23, 3) gives 20,480,000 B,
        the paper's 55 MB and 19.5 MB (in units of 2^20).
    """
    leaves, depth = shape.num_leaves, shape.depth
    rows = shape.num_nodes + leaves * depth + leaves * depth * depth
    return batch * rows * vocab_size * element_bytes


def reference_buffer_bytes(
    shape: TreeShape, num_heads: int, vocab_size: int, element_bytes: int, batch: int
) -> int:
    """Bytes of logits alive together in the reference Medusa code.

    All nodes' rows of the target and of every head, and both gathered again for every candidate
    of depth + 1 tokens: N + l*N + S*(d + 1) + l*S*(d + 1) rows. Eq. 3 leaves out the heads' rows
    before the gather and the root of each candidate: for (64, 42, 4) it counts 904 of 1,370 rows.

    Source: ``tree_decoding`` of the public Medusa code.
    """
    gathered = shape.num_leaves * (shape.depth + 1)
    rows = (1 + num_heads) * (shape.num_nodes + gathered)
    return batch * rows * vocab_size * element_bytes


def by_node_logits_bytes(
    num_nodes: int, num_heads: int, vocab_size: int, element_bytes: int, batch: int
) -> int:
    """Bytes of logits alive at once when every node is verified on its own row.

    The heads run on the one accepted node after the nodes' rows are freed, so the larger of the
    two sets counts.
    """
    return batch * max(num_nodes, num_heads) * vocab_size * element_bytes


def tree_structure_bytes(
    shape: TreeShape, context_tokens: int, element_bytes: int, batch: int
) -> int:
    """Bytes of what describes the tree on the device, alive from the first step to the last.

    Counted: the [N, N] boolean ancestor mask, int64 positions, parents and candidate tokens of the
    nodes, the int64 [S, depth + 1] path table, and per sequence the [N, context + N] attention
    mask as booleans and cast to the scores' type.
    """
    nodes = shape.num_nodes
    index_bytes = 8
    fixed = nodes * nodes + 2 * nodes * index_bytes
    fixed += shape.num_leaves * (shape.depth + 1) * index_bytes
    per_sequence = nodes * index_bytes + nodes * (context_tokens + nodes) * (1 + element_bytes)
    return fixed + batch * per_sequence
