"""The constraints on one node, in the order in which they are asked.

A filter answers with the rejection, or None when the node passes. The first one that rejects ends the
list, so each may rely on those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from llmgw_core.placement.asked import Room, Wanted, reject
from llmgw_core.placement.capability import capability_needed, capability_of
from llmgw_core.placement.fabrics import why_no_rail
from llmgw_core.placement.gpus import choose_gpus, free_of_class, group_on_node
from llmgw_core.placement.ports import ports_needed
from llmgw_core.spec.node import Gpu
from llmgw_core.spec.placement import Rejection

Filter = Callable[[Wanted, Room], Rejection | None]


def first_rejection(wanted: Wanted, room: Room) -> Rejection | None:
    """Why this node cannot take the profile; None when it can."""
    answers = (check(wanted, room) for check in FILTERS)
    return next((answer for answer in answers if answer is not None), None)


def fits(wanted: Wanted, room: Room) -> bool:
    """Whether no filter rejects the node."""
    # What is most often short is looked at first; the order of the filters only matters for the reason.
    profile, free = wanted.profile, room.free
    if profile.cpus > free.cpus or profile.memory_mib > free.memory_mib:
        return False
    if len(free.of_class(profile.gpu_class)) < profile.gpus_per_node:
        return False
    return first_rejection(wanted, room) is None


def _refuse(
    wanted: Wanted, room: Room, constraint: str, *, needs: object, has: object, detail: str = ""
) -> Rejection:
    return reject(wanted, room.name, constraint, needs=needs, has=has, detail=detail, fabric=room.fabric)


def _node_selector(wanted: Wanted, room: Room) -> Rejection | None:
    labels = room.report.labels
    for label, value in sorted(wanted.profile.node_selector.items()):
        if labels.get(label) != value:
            has = f"{label}={labels[label]}" if label in labels else f"no label {label}"
            return _refuse(wanted, room, "node selector", needs=f"{label}={value}", has=has)
    return None


def _engine(wanted: Wanted, room: Room) -> Rejection | None:
    name = wanted.profile.engine
    found = room.report.engine(name)
    if found is None:
        installed = ", ".join(engine.name for engine in room.report.engines) or "none"
        detail = f"install the plugin llmgw-{name} where this node's agent runs"
        return _refuse(wanted, room, "engine plugin", needs=name, has=installed, detail=detail)
    if not found.usable:
        why = "; ".join(found.problems) or f"no program found; {wanted.engine.binary.install_hint}".rstrip(
            "; "
        )
        return _refuse(wanted, room, "engine", needs=name, has="one that cannot run", detail=why)
    return None


def _engine_version(wanted: Wanted, room: Room) -> Rejection | None:
    needs = wanted.profile.engine_version
    found = room.report.engine(wanted.profile.engine)
    if needs is None or found is None:
        return None
    if found.version is None:
        return _refuse(wanted, room, "engine version", needs=needs, has="an unknown version")
    if wanted.takes(found.version):
        return None
    return _refuse(wanted, room, "engine version", needs=needs, has=found.version)


def _gpu_class(wanted: Wanted, room: Room) -> Rejection | None:
    profile = wanted.profile
    classes = {gpu.gpu_class for gpu in room.report.gpus}
    if profile.gpus_per_node == 0 or profile.gpu_class in classes:
        return None
    has = ", ".join(sorted(name or "one without a class" for name in classes)) or "no GPU"
    return _refuse(wanted, room, "GPU class", needs=profile.gpu_class, has=has)


def _free_gpus(wanted: Wanted, room: Room) -> Rejection | None:
    profile = wanted.profile
    free = len(free_of_class(profile, room))
    if free >= profile.gpus_per_node:
        return None
    ours = [gpu for gpu in room.report.gpus if gpu.gpu_class == profile.gpu_class]
    return _refuse(
        wanted, room, "free GPUs", needs=profile.gpus_per_node, has=free, detail=_why_not(ours, room)
    )


def _why_not(gpus: Iterable[Gpu], room: Room) -> str:
    """Who holds which GPU and which are out, like `0,1 held by qwen/r-0f3; 5 out: row remap pending`."""
    words: dict[str, list[int]] = {}
    for gpu in sorted(gpus, key=lambda gpu: gpu.index):
        holder = room.free.held.get(gpu.index)
        if holder is not None:
            words.setdefault(f"held by {holder.model}/{holder.replica}", []).append(gpu.index)
        elif not gpu.usable:
            words.setdefault(f"out: {_reasons(gpu)}", []).append(gpu.index)
    return "; ".join(f"{','.join(map(str, indices))} {why}" for why, indices in words.items())


def _reasons(gpu: Gpu) -> str:
    return ", ".join(reason.text or reason.code for reason in gpu.reasons) or "not usable"


def _nvlink(wanted: Wanted, room: Room) -> Rejection | None:
    profile = wanted.profile
    if profile.gpus_per_node == 0 or choose_gpus(profile, room) is not None:
        return None
    free = {gpu.index for gpu in free_of_class(profile, room)}
    left = [str(len(free & set(domain))) for domain in room.report.nvlink_domains]
    needs = f"groups of {group_on_node(profile)} in one domain"
    return _refuse(wanted, room, "NVLink", needs=needs, has=f"{', '.join(left)} free per domain")


def _cpus(wanted: Wanted, room: Room) -> Rejection | None:
    if wanted.profile.cpus <= room.free.cpus:
        return None
    detail = f"{room.report.cpus} in all"
    return _refuse(wanted, room, "CPUs", needs=wanted.profile.cpus, has=room.free.cpus, detail=detail)


def _memory(wanted: Wanted, room: Room) -> Rejection | None:
    needs, has = wanted.profile.memory_mib, room.free.memory_mib
    if needs <= has:
        return None
    detail = f"{room.report.memory_mib} MiB in all"
    return _refuse(wanted, room, "memory", needs=f"{needs} MiB", has=f"{has} MiB", detail=detail)


def _compute_capability(wanted: Wanted, room: Room) -> Rejection | None:
    if wanted.profile.gpus_per_node == 0:
        return None
    fact = room.report.paths.get(wanted.model.source)
    least = capability_needed(wanted, fact.quantization if fact else None)
    if least is None:
        return None
    (major, minor), number_format = least
    for gpu in free_of_class(wanted.profile, room):
        # Unknown is not too old: only old drivers do not tell.
        has = capability_of(gpu.compute_capability)
        if has is not None and has < (major, minor):
            needs = f"{major}.{minor}"
            return _refuse(
                wanted,
                room,
                "compute capability",
                needs=needs,
                has=gpu.compute_capability,
                detail=f"for {number_format}",
            )
    return None


def _weights(wanted: Wanted, room: Room) -> Rejection | None:
    # A hub id is no path: the engine loads it by itself. A path without a fact may well be there.
    source = wanted.model.source
    fact = room.report.paths.get(source) if source.startswith("/") else None
    if fact is None or fact.exists:
        return None
    return _refuse(wanted, room, "weights", needs=source, has="no such path", detail=fact.error or "")


def _fabric(wanted: Wanted, room: Room) -> Rejection | None:
    if wanted.profile.nodes == 1 or room.rails:
        return None
    unattached = room.fabric is None and not any(port.usable for port in room.report.fabric_ports)
    if unattached and not wanted.uses_fabric:
        return None
    needs = "a free port" if room.fabric else "a certain key"
    has, detail = why_no_rail(room)
    return _refuse(wanted, room, "fabric", needs=needs, has=has, detail=detail)


def _ports(wanted: Wanted, room: Room) -> Rejection | None:
    # Over several nodes any may be a worker; that one can lead is seen to when they are chosen.
    count = ports_needed(wanted, rank=0 if wanted.profile.nodes == 1 else 1)
    if room.free.ports.lowest_block(count) is not None:
        return None
    span = room.report.port_range
    return _refuse(
        wanted,
        room,
        "ports",
        needs=f"{count} in a row",
        has="none" if count == 1 else "no such block",
        detail=f"port_range {span.first}-{span.last} of the node",
    )


FILTERS: tuple[Filter, ...] = (
    _node_selector,
    _engine,
    _engine_version,
    _gpu_class,
    _free_gpus,
    _nvlink,
    _cpus,
    _memory,
    _compute_capability,
    _weights,
    _fabric,
    _ports,
)
