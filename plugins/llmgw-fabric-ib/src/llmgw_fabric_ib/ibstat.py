"""What `ibstat` prints, for ports whose files in sysfs cannot be read.

It knows no GIDs, so an InfiniBand port that is known by it alone has no fabric until the operator labels it,
and a RoCE port cannot be used.
"""

from __future__ import annotations

import re
from dataclasses import replace

from llmgw_core.spec import HostView

from llmgw_fabric_ib.adapter import Adapter, Port

__all__ = ["ask", "merged", "parse"]

_TIME_LIMIT = 5.0
_STATES = {"down": 1, "initializing": 2, "init": 2, "armed": 3, "active": 4}
_FACT = re.compile(r"\s+([A-Za-z ]+): *(.*)")


def ask(host: HostView) -> tuple[Port, ...]:
    """Run ibstat. Its exit code is ignored: it prints every adapter and then fails when one has vanished."""
    answer = host.run(("ibstat",), _TIME_LIMIT)
    return parse(answer.stdout) if answer else ()


def parse(text: str) -> tuple[Port, ...]:
    """The ports of a listing; lines that are not understood are passed over."""
    ports: dict[tuple[str, int], Port] = {}
    for block in re.split(r"^CA '", text, flags=re.MULTILINE)[1:]:
        name, quote, facts = block.partition("'")
        head, *bodies = re.split(r"^\s+Port (\d{1,3}):\s*$", facts, flags=re.MULTILINE | re.ASCII)
        adapter = Adapter(name=name, card=_facts(head).get("CA type", ""))
        if quote:
            for number, body in zip(bodies[::2], bodies[1::2], strict=True):
                port = _port(adapter, int(number), _facts(body))
                ports.setdefault(port.key, port)
    return tuple(ports.values())


def merged(ports: tuple[Port, ...], told: tuple[Port, ...]) -> tuple[Port, ...]:
    """Ports of sysfs, those that are not readable there replaced by what ibstat told of them."""
    lost = {port.adapter.name: port.adapter for port in ports if not port.readable}
    known = {port.key for port in ports if port.readable}
    filled = {
        port.key: replace(port, adapter=_joined(lost[port.adapter.name], port.adapter))
        for port in told
        if port.adapter.name in lost and port.key not in known
    }
    rest = [port for port in ports if port.key not in filled]
    return tuple(sorted((*rest, *filled.values()), key=lambda port: port.key))


def _joined(of_sysfs: Adapter, of_ibstat: Adapter) -> Adapter:
    return replace(of_sysfs, card=of_sysfs.card or of_ibstat.card)


def _facts(text: str) -> dict[str, str]:
    return {found[1]: found[2].strip() for line in text.splitlines() if (found := _FACT.fullmatch(line))}


def _port(adapter: Adapter, number: int, facts: dict[str, str]) -> Port:
    rate = facts.get("Rate", "")
    return Port(
        adapter=adapter,
        number=number,
        state=_STATES.get(facts.get("State", "").lower()),
        physical_state=facts.get("Physical state", ""),
        link_layer=facts.get("Link layer") or None,
        rate_gbps=float(rate) if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", rate, re.ASCII) else 0.0,
        lid=_lid(facts.get("Base lid", "")),
        sm_lid=_lid(facts.get("SM lid", "")),
    )


def _lid(text: str) -> int | None:
    lid = int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else 0
    return lid if 0 < lid < 0xFFFF else None
