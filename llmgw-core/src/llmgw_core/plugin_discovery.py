"""Where plugins come from: entry points of the installed distributions, read one distribution at a time.

`importlib.metadata.entry_points()` raises for the whole environment when a single `entry_points.txt` is
malformed, so one broken package would take every plugin with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, EntryPoint, distributions

from llmgw_core.spec import PluginRefused

__all__ = ["ENVIRONMENT", "Found", "discover", "found_of", "given", "limited", "name_taken"]

ENVIRONMENT = "LLMGW_PLUGINS"
"""Names, separated by commas, of the plugins that may load: unset all of them, empty none."""

UNNAMED = "(unnamed distribution)"


@dataclass(frozen=True)
class Found:
    """A plugin that is there but not imported yet: its entry point's name and who ships it.

    `load` imports it and gives the plugin object; whatever the import raises comes out of it.
    """

    name: str
    dist: str
    version: str
    load: Callable[[], object]


def found_of(entry_point: EntryPoint) -> Found:
    """What an entry point promises, without importing it."""
    dist = entry_point.dist
    name, version = _identity(dist) if dist else (UNNAMED, "")
    return Found(name=entry_point.name, dist=name, version=version, load=entry_point.load)


def given(plugin: object) -> Found:
    """A plugin object in the hands of the caller stands under the name that it gives itself."""
    try:
        name = plugin.llmgw_plugin_info().name  # type: ignore[attr-defined]
    except Exception:
        name = getattr(plugin, "__name__", type(plugin).__name__)
    return Found(name=name, dist="(given)", version="", load=lambda: plugin)


def discover(group: str) -> tuple[Found, ...]:
    """Every entry point of `group`. A distribution that is installed twice counts once, as for imports.

    A distribution whose entry points cannot be read is listed under its own name, and its `load` raises
    PluginRefused with the reason.
    """
    seen: set[str] = set()
    found: list[Found] = []
    for dist in distributions():
        name = re.sub(r"[-_.]+", "-", _identity(dist)[0]).lower()
        if name == UNNAMED or name not in seen:
            found += _of_distribution(dist, group)
        seen.add(name)
    return tuple(found)


def limited(everything: Iterable[Found], limit: str) -> tuple[Found, ...]:
    """What `limit` names; a name that nothing bears is kept, to be refused with that reason."""
    wanted = {name.strip() for name in limit.split(",")} - {""}
    there = tuple(found for found in everything if found.name in wanted)
    missing = sorted(wanted - {found.name for found in there})
    reason = f"not installed, but {ENVIRONMENT} asks for it; install the plugin, or take the name out"
    return there + tuple(_refusing(name, "", "", reason) for name in missing)


def name_taken(one: Found, claims: Iterable[Found]) -> str:
    """Why a plugin is refused whose name is claimed more than once."""
    dists = " and ".join(claim.dist for claim in claims if claim.name == one.name)
    return f"the name {one.name!r} is claimed by {dists}; neither is loaded, uninstall one of them"


def _of_distribution(dist: Distribution, group: str) -> Iterator[Found]:
    try:
        if f"[{group}]" not in (dist.read_text("entry_points.txt") or ""):
            return
        entry_points = tuple(dist.entry_points)
    except Exception as error:
        name, version = _identity(dist)
        reason = f"its entry_points.txt cannot be read: {type(error).__name__}: {error}"
        yield _refusing(name, name, version, reason)
        return
    for entry_point in entry_points:
        if entry_point.group == group:
            yield found_of(entry_point)


def _refusing(name: str, dist: str, version: str, reason: str) -> Found:
    def refuse() -> object:
        raise PluginRefused(name, reason)

    return Found(name=name, dist=dist, version=version, load=refuse)


def _identity(dist: Distribution) -> tuple[str, str]:
    """Name and version, also for a distribution whose METADATA is missing or damaged."""
    try:
        name, version = dist.metadata["Name"], dist.metadata["Version"]
    except Exception:
        return UNNAMED, ""
    return name or UNNAMED, version or ""
