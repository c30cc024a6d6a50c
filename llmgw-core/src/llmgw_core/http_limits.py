"""What a client may cost before anybody knows who it is: sizes and times of an HTTP request."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HttpLimits:
    """Limits of a request as it arrives. Sizes are in bytes, times in seconds.

    How large a body may be is not among them: that is the application's to say.
    """

    target: int = 8 * 1024
    """Of the request target. Ours have a path and a model's name."""
    fields: int = 100
    """Header fields, or fields after a chunked body. Browsers behind proxies send about thirty."""
    field_block: int = 32 * 1024
    """Of all fields together. Clients that drag cookies along have 8 or 16 KiB."""
    head_time: float = 10.0
    """From a request's first byte to the end of its head: a packet or two, if the client means it."""
    body_window: float = 30.0
    """How long a body is watched at a time; longer than a network's hiccup."""
    body_rate: float = 1024.0
    """Bytes a second that a body must have over a window. A modem has more."""
    linger_time: float = 2.0
    """How long a refused client may take to read why, before the connection closes."""
    linger_bytes: int = 1024 * 1024
    """What is still taken, and thrown away, from a refused client in that time."""
