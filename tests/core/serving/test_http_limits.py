"""What a connection may send before anybody knows who it is: sizes, and that others are served meanwhile."""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING

import anyio
import pytest
from llmgw_core.http_limits import HttpLimits
from llmgw_core.http_protocol import PIECE

if TYPE_CHECKING:
    from .conftest import Answer, Client, Serve

pytestmark = pytest.mark.anyio
LIMITS = HttpLimits()
GET = b"GET /echo HTTP/1.1\r\nhost: a\r\n\r\n"
POST = b"POST /echo HTTP/1.1\r\nhost: a\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


def fields(count: int) -> bytes:
    return b"".join(b"x-%d: y\r\n" % number for number in range(count))


async def test_an_endless_header_is_cut_at_the_limit_and_others_are_answered_meanwhile(serve: Serve) -> None:
    async with serve() as served, served.client() as hostile:
        await hostile.send(b"GET /echo HTTP/1.1\r\nx: ")
        sent = 0
        while sent <= LIMITS.field_block + PIECE:
            await hostile.send(b"a" * 1024)
            sent += 1024
            if sent % PIECE == 0:
                assert (await served.ask(GET)).status == 200
        refused = await hostile.answer()
        assert refused.error == (431, "headers_too_large")
        assert refused.headers["connection"] == "close"
        assert await hostile.closed() == b""


async def test_a_refused_client_that_goes_on_sending_is_cut_off(serve: Serve) -> None:
    limits = HttpLimits(linger_time=3600, linger_bytes=100_000)
    async with serve(limits) as served, served.client() as hostile:
        await hostile.send(b"GET /echo HTTP/1.1\r\nx: ")
        with pytest.raises(anyio.BrokenResourceError):
            await hostile.send(*itertools.repeat(b"a" * 65536, 10_000))


@pytest.mark.parametrize(
    "request_",
    (
        b"GET /echo HTTP/1.1\r\nx: " + b"a" * LIMITS.field_block + b"\r\n\r\n",
        b"GET /echo HTTP/1.1\r\n" + b"a" * LIMITS.field_block + b": y\r\n\r\n",
        b"GET /echo HTTP/1.1\r\n" + (b"x: " + b"a" * 4000 + b"\r\n") * 9 + b"\r\n",
        b"GET /echo HTTP/1.1\r\nx:" + b" " * (LIMITS.field_block + PIECE),
        b"\r\n" * (LIMITS.field_block // 2 + PIECE),
        b"GET /echo HTTP/1.1\r\n" + fields(LIMITS.fields + 1) + b"\r\n",
        CHUNKED + b"1;" + b"a" * (LIMITS.field_block + PIECE),
        CHUNKED + b"1\r\na\r\n0\r\nx: " + b"a" * (LIMITS.field_block + PIECE),
        CHUNKED + b"1\r\na\r\n0\r\n" + fields(LIMITS.fields + 1) + b"\r\n",
    ),
    ids=(
        "a value",
        "a name",
        "many values",
        "blanks",
        "empty lines",
        "101 fields",
        "a chunk's extension",
        "a trailer",
        "101 trailers",
    ),
)
async def test_too_much_of_headers_is_refused(serve: Serve, request_: bytes) -> None:
    async with serve() as served:
        assert (await served.ask(request_)).error == (431, "headers_too_large")


async def test_a_head_up_to_the_limits_passes(serve: Serve) -> None:
    target = b"/echo?n=" + b"a" * (LIMITS.target - len("/echo?n="))
    large = b"x: " + b"b" * (LIMITS.field_block - 5) + b"\r\n"
    async with serve() as served:
        for head in (fields(LIMITS.fields), large):
            answer = await served.ask(b"GET " + target + b" HTTP/1.1\r\n" + head + b"\r\n")
            assert answer.status == 200
            assert len(answer.json["n"]) == LIMITS.target - len("/echo?n=")


async def test_a_long_target_is_refused(serve: Serve) -> None:
    async with serve() as served:
        whole = b"GET /" + b"a" * LIMITS.target + b" HTTP/1.1\r\n\r\n"
        assert (await served.ask(whole)).error == (414, "uri_too_long")
        assert (await served.ask(b"GET /" + b"a" * 3 * LIMITS.target)).error == (414, "uri_too_long")


@pytest.mark.parametrize(
    "garbage",
    (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"GET /echo HTTP/1.1\nhost: a\n\n",
        b"GET /echo HTTP/1.1\r\nhost : a\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nx: a\r\n b\r\n\r\n",
        b"GET http://[/ HTTP/1.1\r\n\r\n",
        POST + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab",
        POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"transfer-encoding: xchunked\r\n\r\nabc",
        CHUNKED + b"z\r\n",
    ),
)
async def test_what_is_no_valid_http_gets_an_error_in_json(serve: Serve, garbage: bytes) -> None:
    async with serve() as served, served.client() as client:
        await client.send(garbage)
        refused = await client.answer()
        assert refused.error == (400, "invalid_framing")
        assert refused.json["error"].keys() == {"message", "type", "param", "code"}
        assert refused.headers["content-type"] == "application/json"
        assert refused.headers["x-request-id"].startswith("req-")
        assert await client.closed() == b""


async def test_a_body_that_breaks_in_the_middle_is_refused_and_its_application_told(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        await client.send(CHUNKED + b"1\r\na\r\n")
        await client.send(b"z\r\n")
        assert (await client.answer()).error == (400, "invalid_framing")
        await served.site.broken_off.wait()


@pytest.mark.parametrize("protocol", (b"h2c", b"tls/1.2"))
async def test_an_upgrade_to_what_is_not_spoken_is_refused_and_its_body_never_taken_for_a_request(
    serve: Serve, protocol: bytes
) -> None:
    upgrade = b"connection: upgrade\r\nupgrade: " + protocol + b"\r\n"
    async with serve() as served, served.client() as client:
        await client.send(POST + upgrade + b"content-length: %d\r\n\r\n" % len(GET) + GET)
        assert (await client.answer()).error == (400, "upgrade_not_supported")
        assert await client.closed() == b""


async def answers(client: Client, count: int) -> list[Answer]:
    return [await client.answer() for _ in range(count)]


async def test_requests_in_one_packet_are_counted_one_by_one_and_all_answered(serve: Serve) -> None:
    """Together they are far over every limit that holds for one."""
    large = b"x: " + b"a" * (LIMITS.field_block - 5) + b"\r\n"
    requests = [
        b"POST /echo?n=%d HTTP/1.1\r\n" % number + head + body
        for number in range(4)
        for head, body in (
            (large, b"\r\n"),
            (fields(LIMITS.fields - 1), b"content-length: 3\r\n\r\nabc"),
            (b"", b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n" + fields(LIMITS.fields) + b"\r\n"),
        )
    ]
    async with serve() as served, served.client() as client:
        await client.send(b"".join(requests))
        received = await answers(client, len(requests))
    assert [answer.json["n"] for answer in received] == [str(n) for n in range(4) for _ in range(3)]
    assert [answer.json["size"] for answer in received] == [0, 3, 3] * 4


async def test_fields_after_a_body_are_no_headers(serve: Serve) -> None:
    async with serve() as served:
        answer = await served.ask(CHUNKED + b"1\r\na\r\n0\r\nauthorization: b\r\n\r\n")
        assert answer.json["fields"] == ["host", "transfer-encoding"]


async def test_requests_that_came_in_single_bytes_are_all_answered(serve: Serve) -> None:
    async with serve() as served, served.client() as client:
        await client.send(*(bytes([byte]) for byte in (GET + CHUNKED + b"1\r\na\r\n0\r\n\r\n" + GET)))
        assert [answer.status for answer in await answers(client, 3)] == [200, 200, 200]


@pytest.mark.parametrize("bad", (b"garbage\r\n\r\n", CHUNKED + b"z\r\n"), ids=("head", "body"))
async def test_a_refusal_waits_for_the_answers_that_are_due_before_it(serve: Serve, bad: bytes) -> None:
    async with serve() as served, served.client() as client:
        await client.send(b"GET /stream HTTP/1.1\r\n\r\n")
        await served.site.streaming.wait()
        await client.send(GET + bad)
        assert (await served.ask(GET)).status == 200
        served.site.gate.set()
        streamed, echoed, refused = await answers(client, 3)
        assert (streamed.body, echoed.status) == (b"first last", 200)
        assert refused.error == (400, "invalid_framing")
        assert await client.closed() == b""


async def test_a_large_body_passes(serve: Serve) -> None:
    body = os.urandom(32 * 1024 * 1024)
    async with serve() as served, served.client() as client:
        await client.send(POST + b"content-length: %d\r\n\r\n" % len(body), body, GET)
        assert [answer.json["size"] for answer in await answers(client, 2)] == [len(body), 0]


async def test_json_of_a_refusal_says_what_the_limit_is(serve: Serve) -> None:
    async with serve(HttpLimits(fields=2)) as served:
        refused = await served.ask(b"GET /echo HTTP/1.1\r\n" + fields(3) + b"\r\n")
        assert "2 fields" in json.dumps(refused.json)
