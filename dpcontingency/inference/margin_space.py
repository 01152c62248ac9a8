"""The space that a release of margins is modelled in: a joint table, or a junction tree."""

from __future__ import annotations

from dpcontingency.errors import ModelError
from dpcontingency.inference.junction import JunctionTree
from dpcontingency.inference.space import CellSpace, JointSpace, TreeSpace
from dpcontingency.release.margins import MarginRelease

MAX_CELLS = 10**7
MAX_CLIQUES = 10**6  # cells of all cliques of a junction tree
MAX_EXPECTATIONS = 5 * 10**7  # measured numbers times those cells, which are held


def space_of(release: MarginRelease) -> CellSpace:
    """The joint table, or a junction tree where that is too large."""
    if release.domain.size <= MAX_CELLS:
        return JointSpace(release.domain.shape)
    tree = junction_tree(release)
    if obstacle := _tree_obstacle(release, tree):
        raise ModelError(
            f"The joint table of these factors has {release.domain.size:,} cells, more than the "
            f"{MAX_CELLS:,} that are written down, and no junction tree takes its place: "
            f"{obstacle}. Take fewer margins, by release.restrict(...), or fewer factors, by "
            "release.collapse(...)."
        )
    return TreeSpace(tree)


def junction_tree(release: MarginRelease) -> JunctionTree:
    """A junction tree of which some clique holds each released margin."""
    axis = release.domain.axis
    return JunctionTree(
        release.domain.shape, [[axis(name) for name in margin] for margin in release.margins]
    )


def fits_in_memory(release: MarginRelease) -> bool:
    """Whether the interactions of a release have a likelihood here, by a table or by a tree."""
    return release.domain.size <= MAX_CELLS or _tree_obstacle(release, junction_tree(release)) == ""


def _tree_obstacle(release: MarginRelease, tree: JunctionTree) -> str:
    """Why a junction tree is too large to work with; empty where it is not."""
    measured = measured_numbers(release)
    if release.domain.structural_zeros:
        return "it has structural zeros, which only a joint table shows"
    if tree.size > MAX_CLIQUES:
        return (
            f"the margins hang together in cliques of {tree.size:,} cells, more than "
            f"{MAX_CLIQUES:,}"
        )
    if tree.size * measured > MAX_EXPECTATIONS:
        return (
            f"{measured:,} measured numbers on cliques of {tree.size:,} cells would need arrays of "
            f"{measured * tree.size * 8 / 1e9:,.1f} GB"
        )
    return ""


def measured_numbers(release: MarginRelease) -> int:
    """How many numbers a release of margins holds."""
    return sum(values.size for values in release.contrasts.values())
