"""Static trees that ship with the package, by name, or the user's own, by path."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StrictInt

from specmemo_sim.errors import InvalidTreeError
from specmemo_sim.spec import Spec
from specmemo_sim.tree.bundled import SourceNote, Status, list_entries, load_entry
from specmemo_sim.tree.token_tree import MAX_NODES, TokenTree


class TreeFile(Spec):
    """A static tree as a file: paths of child ranks, the root implied."""

    schema_version: Literal[1]
    kind: Literal["token_tree"]
    name: str = Field(min_length=1, max_length=100)
    source: SourceNote
    status: Status
    note: str = Field(default="", max_length=2000)
    paths: tuple[Annotated[tuple[StrictInt, ...], Field(max_length=MAX_NODES)], ...] = Field(
        max_length=MAX_NODES
    )
    """One path per draft node in any order; the prefix of each is among them."""


def load_tree(name: str | Path) -> TokenTree:
    """The bundled tree of this name, such as ``"mc_sim_7b_63"``, or the tree of a TOML file.

    Args:
        name: Name from `list_trees`, or a path (a `Path`, or text that ends in ``.toml``).

    Raises:
        CatalogError: no bundled tree has this name.
        InvalidTreeError: the file cannot be read, is damaged, or its paths form no tree.
    """
    entry = load_entry(TreeFile, "trees", name, InvalidTreeError)
    try:
        return TokenTree.from_paths(entry.paths)
    except InvalidTreeError as fault:
        raise InvalidTreeError(f"tree {entry.name}: {fault}") from None


def list_trees() -> tuple[str, ...]:
    """Names of the bundled trees, sorted."""
    return list_entries("trees")
