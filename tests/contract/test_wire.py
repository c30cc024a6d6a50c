"""Messages of both streams: what was sent yesterday is understood today, and nothing breaks the decoder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from llmgw_core.spec import (
    MAX_MESSAGE_BYTES,
    Ack,
    Reply,
    Unknown,
    Value,
    WireError,
    decode,
    decode_gateway,
    encode,
)

if TYPE_CHECKING:
    from .conftest import Channel, GoldenMessage

SECRET = "open-sesame"


def values_in(value: object) -> Iterator[Value]:
    """Every frozen value within a message, itself included."""
    if isinstance(value, Value):
        yield value
        for name in type(value).model_fields:
            yield from values_in(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from values_in(item)
    elif hasattr(value, "values"):
        for item in value.values():
            yield from values_in(item)


def is_kept(recorded: Any, now: Any) -> bool:
    """Whether everything that was recorded is still there; a newer version may have added fields."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        return all(name in now and is_kept(item, now[name]) for name, item in recorded.items())
    if isinstance(recorded, list) and isinstance(now, list):
        return len(recorded) == len(now) and all(map(is_kept, recorded, now))
    return type(recorded) is type(now) and bool(recorded == now)


def with_extras(value: Any, data: Any) -> Any:
    """The JSON of a message as a newer peer would send it: an unknown field in every object."""
    if isinstance(value, Value):
        known = {name: with_extras(getattr(value, name), item) for name, item in data.items()}
        return known | {"added_in_a_later_version": {"a": [1]}}
    if isinstance(value, tuple) and data and isinstance(value[0], Value):
        return [with_extras(one, item) for one, item in zip(value, data, strict=True)]
    return data


def test_a_recorded_message_decodes_and_encodes_to_the_same_json(golden: GoldenMessage) -> None:
    message = golden.decoded()
    assert type(message) is golden.channel.messages[golden.data()["type"]]
    assert is_kept(golden.data(), json.loads(encode(message)))
    assert golden.channel.decode(encode(message)) == message


def test_fields_of_a_later_version_are_ignored_everywhere(golden: GoldenMessage) -> None:
    message = golden.decoded()
    later = with_extras(message, golden.data())
    assert later != golden.data()
    assert golden.channel.decode(json.dumps(later)) == message


def test_every_message_type_is_recorded(channel: Channel, all_golden: tuple[GoldenMessage, ...]) -> None:
    recorded = {golden.data()["type"] for golden in all_golden if golden.channel is channel}
    assert recorded == set(channel.messages)


def test_every_field_of_every_value_on_the_wire_is_recorded(all_golden: tuple[GoldenMessage, ...]) -> None:
    """A new field needs a new golden file, so that later versions keep it too."""
    seen: dict[type[Value], set[str]] = {}
    for golden in all_golden:
        for value in values_in(golden.decoded()):
            seen.setdefault(type(value), set()).update(value.model_fields_set)
    missing = {kind.__name__: set(kind.model_fields) - fields for kind, fields in seen.items()}
    assert {name: fields for name, fields in missing.items() if fields} == {}


def test_a_message_of_an_unknown_type_is_unknown_and_no_error(channel: Channel) -> None:
    message = channel.decode('{"type": "sing", "song": {"verses": 3}}')
    assert message == Unknown(type="sing")


def test_the_two_streams_do_not_take_each_others_messages(all_golden: tuple[GoldenMessage, ...]) -> None:
    by_name = {golden.name: golden for golden in all_golden}
    assert isinstance(decode_gateway(by_name["agent-assign"].text), Unknown)
    assert isinstance(decode(by_name["gateway-secrets"].text), Unknown)


def required_fields(golden: GoldenMessage) -> set[str]:
    kind = golden.channel.messages[golden.data()["type"]]
    return {name for name, field in kind.model_fields.items() if field.is_required()}


def test_a_missing_field_is_named(golden: GoldenMessage) -> None:
    for name in required_fields(golden):
        data = golden.data()
        del data[name]
        with pytest.raises(WireError, match=rf"\b{name}: Field required"):
            golden.channel.decode(json.dumps(data))


def test_a_field_of_the_wrong_type_is_named_and_its_value_never_quoted(golden: GoldenMessage) -> None:
    for name in golden.data().keys() - {"type"}:
        data = golden.data() | {name: {SECRET: [SECRET]}}
        with pytest.raises(WireError) as caught:
            golden.channel.decode(json.dumps(data))
        assert f"{data['type']}.{name}" in str(caught.value)
        # The key of a map is part of the place; what stands under it is a value.
        assert SECRET not in str(caught.value).replace(f"{name}.{SECRET}", "")
        assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("text", "place"),
    (
        (
            '{"type": "assign", "epoch": {"number": 1, "control": "c"}, "number": 1, "keys": {"r": ["%s"]}}',
            "keys",
        ),
        ('{"type": "assign", "epoch": {"number": 1, "control": "c"}, "number": 1, "keys": "%s"}', "keys"),
        ('{"type": "assign", "epoch": "%s", "number": 1}', "epoch"),
        ('{"type": "secrets", "pepper": ["%s"]}', "pepper"),
        ('{"type": "secrets", "pepper": "p", "engine_keys": {"1": ["%s"]}}', "engine_keys"),
        ('{"type": "secrets", "pepper": "%s', "message"),
        ('["%s"]', "message"),
        ('"%s"', "message"),
    ),
)
def test_an_error_about_a_secret_does_not_hold_it(text: str, place: str) -> None:
    decoder = decode_gateway if "secrets" in text else decode
    with pytest.raises(WireError) as caught:
        decoder(text % SECRET)
    assert place in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("text", ("", "{", "null", "[]", "7", "{}", "\x00", "[" * 100_000))
def test_what_is_not_a_message_is_a_wire_error(channel: Channel, text: str) -> None:
    with pytest.raises(WireError):
        channel.decode(text)


def test_a_message_over_the_limit_is_refused_on_both_sides(channel: Channel) -> None:
    with pytest.raises(WireError, match="over the limit"):
        channel.decode(" " * (MAX_MESSAGE_BYTES + 1))
    with pytest.raises(WireError, match=r"a unknown of \d+ bytes is over the limit"):
        encode(Unknown(type="x" * MAX_MESSAGE_BYTES))
    assert channel.decode(" " * 1000 + encode(Ack(seq=1))) in (Ack(seq=1), Unknown(type="ack"))


def test_keys_are_in_the_wire_form_only(all_golden: tuple[GoldenMessage, ...]) -> None:
    by_name = {golden.name: golden for golden in all_golden}
    for name in ("agent-assign", "gateway-secrets"):
        message = by_name[name].decoded()
        assert "example-" in encode(message)
        assert "example-" not in f"{message!r} {message!s}"
        assert "example-" not in repr(message.model_dump())


@pytest.mark.parametrize("number", ("1e999", "-1e999", "NaN", "Infinity"))
def test_a_number_that_json_cannot_hold_is_refused(number: str) -> None:
    fields = '"cluster": "c", "control": "x", "leader": true'
    text = f'{{"type": "welcome", {fields}, "report_every": {number}}}'
    with pytest.raises(WireError):
        decode(text)


def test_the_limit_counts_bytes_and_not_characters() -> None:
    text = "\u20ac" * (MAX_MESSAGE_BYTES // 3 + 1)
    with pytest.raises(WireError, match="over the limit"):
        encode(Reply(request="r", text=text))
    with pytest.raises(WireError, match="over the limit"):
        decode('{"type": "reply", "request": "r", "text": "' + text + '"}')
