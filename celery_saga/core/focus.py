"""Which steps of a run a transition needs: all, those that are not folded, or only those around one part of a join.

Theory of operation. A key says where it belongs: `map[3]/label` lies in the region `map[3]/` of part `map[3]`, which
lies in the body's own region, the empty one. What happens inside a part needs the rows of its region, of the regions
around it, and nothing of its ten thousand siblings. A transition is first tried on the rows of its focus; where it
turns out to need more it raises `Incomplete`, and is tried again on more: it is pure, so that costs only time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

_UNDO = "!undo"


class Extent(IntEnum):
    """How many of a run's steps a snapshot holds."""

    PART = 1  # those of a focus
    LIVE = 2  # all that are not folded
    ALL = 3


class Incomplete(Exception):  # noqa: N818 - not an error: load more and do it again
    """A transition needs steps that its snapshot does not hold; nothing was written.

    Args:
        extent: what it needs at least.
        key: a single step that would do.
        stacks: tops of stacks that would do: of what lies within each prefix, as of `core.stack`.
    """

    def __init__(self, extent: Extent, key: str | None = None, *, stacks: tuple[str, ...] = ()) -> None:
        super().__init__(f"needs {key or stacks or extent.name.lower()}")
        self.extent = extent
        self.key = key
        self.stacks = stacks


@dataclass(frozen=True, slots=True)
class Focus:
    """The rows to load: those of these regions, these keys, and all within one region.

    `is_folded`: those of the keys alone, and of them also what is folded.
    """

    regions: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    within: str | None = None
    is_folded: bool = False


def region_of(key: str) -> str:
    """The region of a step: that of the innermost part in its key, up to `]/`; empty in the body itself.

    The row of a part, and its undo, lie in the region of that part.
    """
    end = key.rfind("]")
    return "" if end < 0 else key[: end + 1] + "/"


def part_of(region: str) -> str:
    """Key of the part that a region belongs to; empty for the body's own."""
    return region[:-1]


def join_of(part: str) -> str:
    """Key of the join that a part belongs to."""
    return part[: part.rfind("[")]


def regions_around(region: str) -> tuple[str, ...]:
    """A region and those around it, the body's own first."""
    around = [""]
    end = region.find("]/")
    while end >= 0:
        around.append(region[: end + 2])
        end = region.find("]/", end + 2)
    return tuple(around)


def focus_of(key: str, *, deciding: bool = True) -> Focus | None:
    """What the end of an attempt of this step needs; None: everything that is not folded.

    Args:
        deciding: a pass over its region may follow, which needs what lies around it too; a part that is a single step
            is followed by no pass.
    """
    if key.endswith(_UNDO):
        return focus_of_undone(key.removesuffix(_UNDO))
    region = region_of(key)
    if not region:
        return None
    if deciding:
        return Focus(regions_around(region)[:-1], within=region)
    join = join_of(part_of(region))
    keys = (join, *(path + "!rollback" for path in _paths(part_of(region))))
    return Focus((region,), (*keys, part_of(region_of(join))) if region_of(join) else keys)


def _paths(key: str) -> list[str]:
    """Every scope and part around a step, which may be rolled back."""
    pieces = key.split("/")
    return ["/".join(pieces[:number]) for number in range(1, len(pieces))]


def focus_of_undone(key: str) -> Focus:
    """A step and its undo, the joins and parts around them, and what may roll them back."""
    region = region_of(key)
    keys = [key, key + _UNDO]
    while region:
        part = part_of(region)
        keys += [part, join_of(part)]
        region = region_of(join_of(part))
    return Focus(keys=tuple(dict.fromkeys((*keys, *rollbacks_around(key)))), is_folded=True)


def rollbacks_around(key: str) -> tuple[str, ...]:
    """Keys of the rollbacks that a step, part or scope may lie within, its own first or last."""
    return tuple(path + "!rollback" for path in (*_paths(key), key))


def is_inside(key: str, part: str) -> bool:
    """The step is this part, its undo, or lies within it."""
    return key == part or key.startswith((part + "/", part + "!"))
