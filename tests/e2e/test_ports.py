"""A port of the node's range that somebody else holds costs nothing but another port."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.engine]


def test_an_engine_gets_another_port_when_the_first_is_taken(up: Callable[..., Any]) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = holder.getsockname()[1]
        one = up(
            env={
                "LLMGW_AGENT__PORT_RANGE__FIRST": str(taken),
                "LLMGW_AGENT__PORT_RANGE__LAST": str(min(taken + 200, 65535)),
            }
        )
        one.says("curl ")
        (replica,) = one.replicas()
        assert (replica["state"], replica["url"] != f"http://127.0.0.1:{taken}") == ("Ready", True)
