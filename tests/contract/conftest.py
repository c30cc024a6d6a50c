"""The golden files: what other versions of llmgw and other people's plugins rely on.

They may be added to, never edited: a golden that no longer passes tells of a peer that no longer works.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from llmgw_core.spec import AgentMessage, GatewayMessage, Unknown, Value, decode, decode_gateway

GOLDEN = Path(__file__).with_name("golden")


@dataclass(frozen=True)
class Channel:
    """One of the two streams: how its messages are decoded, and which there are."""

    decode: Callable[[str], Any]
    messages: Mapping[str, type[Value]]


def messages_of(union: Any) -> dict[str, type[Value]]:
    return {message.model_fields["type"].default: message for message in get_args(union)}


CHANNELS = {
    "agent": Channel(decode, messages_of(AgentMessage)),
    "gateway": Channel(decode_gateway, messages_of(GatewayMessage)),
}


@dataclass(frozen=True)
class GoldenMessage:
    """One recorded message of a stream."""

    name: str
    channel: Channel
    text: str

    def data(self) -> dict[str, Any]:
        """The JSON object, a new one each time."""
        data: dict[str, Any] = json.loads(self.text)
        return data

    def decoded(self) -> Value:
        """The message; an unknown type is not one."""
        message = self.channel.decode(self.text)
        assert isinstance(message, Value)
        assert not isinstance(message, Unknown)
        return message


def golden_messages() -> Iterator[GoldenMessage]:
    for name, channel in CHANNELS.items():
        for file in sorted((GOLDEN / name).glob("*.json")):
            yield GoldenMessage(f"{name}-{file.stem}", channel, file.read_text())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `golden` runs for every recorded message, one with `channel` for both."""
    if "golden" in metafunc.fixturenames:
        messages = tuple(golden_messages())
        metafunc.parametrize("golden", messages, ids=[message.name for message in messages])
    if "channel" in metafunc.fixturenames:
        metafunc.parametrize("channel", tuple(CHANNELS.values()), ids=tuple(CHANNELS))


@pytest.fixture
def all_golden() -> tuple[GoldenMessage, ...]:
    """Every recorded message."""
    return tuple(golden_messages())


@pytest.fixture
def golden_file() -> Callable[[str], Any]:
    """Reads one of the other golden files."""
    return lambda name: json.loads((GOLDEN / name).read_text())
