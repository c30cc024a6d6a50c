"""Nodes from the fullest to the emptiest, kept sorted so that a decision need not look at all of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from llmgw_core.inventory.free import Free

Entry = tuple[int, int, int, str]
"""Free GPUs, free CPUs, free memory in MiB, name of the node: sorts the fullest first."""


@dataclass(frozen=True)
class Ranking:
    """Every node that has reported, and for each GPU class those that have a free one of it."""

    everyone: tuple[Entry, ...] = ()
    by_class: Mapping[str, tuple[Entry, ...]] = field(default_factory=dict)

    @staticmethod
    def of(free: Mapping[str, Free]) -> Ranking:
        """The ranking of nodes by what is free on them."""
        everyone: list[Entry] = []
        by_class: dict[str, list[Entry]] = {}
        for name, left in free.items():
            entry = (*left.fullness, name)
            everyone.append(entry)
            for gpu_class in left.by_class:
                by_class.setdefault(gpu_class, []).append(entry)
        return Ranking(
            tuple(sorted(everyone)), {name: tuple(sorted(entries)) for name, entries in by_class.items()}
        )

    def fullest(self, gpu_class: str | None = None, at_least: int = 0) -> Iterator[str]:
        """Names from the fullest on, of nodes that could have `at_least` free GPUs of a class.

        Some may have fewer: GPUs of other classes count for how full a node is.
        """
        entries = self.everyone if gpu_class is None else self.by_class.get(gpu_class, ())
        for place in range(bisect_left(entries, (at_least, 0, 0, "")), len(entries)):
            yield entries[place][3]

    def changed(self, name: str, before: Free | None, after: Free | None) -> Ranking:
        """The ranking after what is free on one node has changed; None for a node that is not ranked."""
        classes = {*(before.by_class if before else ()), *(after.by_class if after else ())}
        by_class = dict(self.by_class)
        for gpu_class in classes:
            by_class[gpu_class] = _moved(
                by_class.get(gpu_class, ()),
                (*before.fullness, name) if before and gpu_class in before.by_class else None,
                (*after.fullness, name) if after and gpu_class in after.by_class else None,
            )
        everyone = _moved(
            self.everyone,
            (*before.fullness, name) if before else None,
            (*after.fullness, name) if after else None,
        )
        return Ranking(everyone, by_class)


def _moved(entries: tuple[Entry, ...], old: Entry | None, new: Entry | None) -> tuple[Entry, ...]:
    moved = list(entries)
    if old is not None:
        del moved[bisect_left(moved, old)]
    if new is not None:
        insort(moved, new)
    return tuple(moved)
