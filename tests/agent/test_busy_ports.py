"""Ports that others hold are reported, so that placement hands out others."""

from __future__ import annotations

import socket

from hypothesis import given
from hypothesis import strategies as st
from llmgw_agent.busy_ports import busy_ports
from llmgw_agent.host import LinuxHost
from llmgw_core.spec import CommandResult, PortRange

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


class Tables:
    """A host that has these texts and nothing else."""

    def __init__(self, **texts: str) -> None:
        self._texts = {f"/proc/net/{name}": text for name, text in texts.items()}

    def read_text(self, path: str) -> str | None:
        return self._texts.get(path)

    def list_dir(self, path: str) -> tuple[str, ...] | None:
        return None

    def run(self, argv: tuple[str, ...], timeout: float) -> CommandResult | None:
        return None


def _line(port: int, state: str = "0A") -> str:
    return f"   0: 0100007F:{port:04X} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 0 0 1\n"


def test_listening_ports_of_the_range_are_busy_and_connections_are_not() -> None:
    host = Tables(
        tcp=HEAD + _line(20001) + _line(20002, "01") + _line(80), tcp6=HEAD + _line(20003) + _line(20001)
    )
    assert busy_ports(host, PortRange(first=20000, last=20003)) == (20001, 20003)


def test_a_machine_without_the_tables_has_no_busy_ports() -> None:
    assert busy_ports(Tables(), PortRange()) == ()


def test_a_real_listener_is_seen() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert busy_ports(LinuxHost(), PortRange(first=port, last=port)) == (port,)


@given(st.text(max_size=300))
def test_garbage_is_no_port_and_no_error(text: str) -> None:
    for port in busy_ports(Tables(tcp=HEAD + text), PortRange()):
        assert PortRange().first <= port <= PortRange().last
