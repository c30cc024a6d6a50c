"""What dies and comes back costs no model reload: the engine goes on, and so do streams."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.engine]
LONG: dict[str, Any] = {
    "model": "smollm2-135m-instruct",
    "messages": [{"role": "user", "content": "Tell me a long story about the sea."}],
    "stream": True,
    "max_tokens": 400,
    "ignore_eos": True,
}


class Stream(threading.Thread):
    """A stream through the gateway, read to its end."""

    def __init__(self, one: Any) -> None:
        super().__init__(daemon=True)
        self._one = one
        self.first = threading.Event()
        self.events: list[str] = []
        self.error: Exception | None = None
        self.start()
        assert self.first.wait(60), "the stream did not begin"

    def run(self) -> None:
        try:
            self._read()
        except httpx2.HTTPError as error:
            self.error = error
        self.first.set()

    def _read(self) -> None:
        headers = {"Authorization": f"Bearer {self._one.key}"}
        url = f"http://127.0.0.1:{self._one.port}/v1/chat/completions"
        with (
            httpx2.Client(trust_env=False, timeout=60) as client,
            client.stream("POST", url, json=LONG, headers=headers) as response,
        ):
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self.events.append(line.removeprefix("data: "))
                    self.first.set()

    def whole(self) -> bool:
        """Whether it ran to its end, with a finish reason and all of its tokens."""
        self.join(60)
        reasons = [
            c["choices"][0]["finish_reason"] for c in map(json.loads, self.events[:-1]) if c["choices"]
        ]
        return self.error is None and self.events[-1] == "[DONE]" and reasons[-1] == "length"


@pytest.mark.parametrize("victims", (("agent",), ("server",), ("agent", "server")))
def test_killing_daemons_costs_no_reload_and_cuts_no_stream(
    victims: tuple[str, ...],
    up: Callable[..., Any],
    until: Callable[..., Any],
    started_at: Callable[[int], int | None],
) -> None:
    one = up()
    one.says("curl ")
    engine = one.engine()
    born = started_at(engine)
    stream = Stream(one)
    pids = {name: one.child(name) for name in victims}
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    for name, pid in pids.items():
        until(lambda name=name, pid=pid: one.has_another(name, pid), f"a new {name}")

    def adopted() -> bool:
        rows = one.replicas()
        assert not [row for row in rows if row["state"] == "Failed"], rows
        return [(row["state"], row["adopted"]) for row in rows] == [("Ready", "agent" in victims)]

    until(adopted, "the replica Ready again")
    assert (one.engine(), started_at(engine)) == (engine, born)
    assert stream.whole(), stream.error or stream.events[-3:]
    assert one.answers()
    events = one.admin("events")["events"]
    assert not [event for event in events if "Failed" in event["message"]], events


def test_kept_engines_are_adopted_by_the_next_up(
    up: Callable[..., Any], started_at: Callable[[int], int | None]
) -> None:
    first = up("--keep-engines")
    first.says("curl ")
    engine = first.engine()
    born = started_at(engine)
    first.interrupt()
    assert first.wait() == 0
    assert str(engine) in first.text
    assert started_at(engine) == born
    second = up()
    second.says("curl ")
    assert (second.engine(), started_at(engine)) == (engine, born)
    assert second.answers()
    second.interrupt()
    assert second.wait() == 0
    assert started_at(engine) is None


def test_a_second_up_on_one_state_directory_says_who_holds_it(up: Callable[..., Any]) -> None:
    first = up()
    first.says("curl ")
    second = up()
    assert second.wait() == 2
    assert str(first.process.pid) in second.text
    assert first.answers()


def test_the_next_up_takes_over_from_a_killed_one(
    up: Callable[..., Any], started_at: Callable[[int], int | None]
) -> None:
    first = up()
    first.says("curl ")
    engine, children = first.engine(), [first.child(name) for name in ("server", "gateway", "agent")]
    first.process.kill()
    first.wait()
    assert first.answers()
    second = up()
    second.says("curl ")
    assert [second.child(name) for name in ("server", "gateway", "agent")] == children
    assert second.engine() == engine
    second.interrupt()
    assert second.wait() == 0
    assert [pid for pid in (*children, engine) if started_at(pid) is not None] == []
