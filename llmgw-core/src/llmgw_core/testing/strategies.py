"""Hypothesis strategies for what a plugin may be asked: profiles and shards that nobody would think of.

Needs Hypothesis, which comes with the extra `testing`; nothing of it is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llmgw_core.engine_check.sample import sample_launch, sample_shard
from llmgw_core.engine_check.variety import Request
from llmgw_core.spec import EngineInfo, Profile

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

__all__ = ["profiles", "requests_of"]

_NUMBERS = (1, 2, 3, 4, 8)
_KINDS = ("chat", "embedding", "rerank", "transcription")


def texts() -> SearchStrategy[str]:
    """Texts of an operator: plain, odd, and those that try to be something else."""
    from hypothesis import strategies as st

    return st.one_of(
        st.sampled_from(
            ("fp8", "auto", "mp", "ray", "", "-x", "--port=1", "a b", "a\nb", "a,b", "a=b", "'\"")
        ),
        st.text(max_size=12),
    )


def profiles(engine: str, engine_args: Mapping[str, Any]) -> SearchStrategy[Profile]:
    """Profiles of every size, with any options; `engine_args` are always among the arguments."""
    from hypothesis import strategies as st

    number, text = st.sampled_from(_NUMBERS), texts()
    maybe = st.one_of(st.none(), text)
    value = st.one_of(st.none(), st.booleans(), st.integers(), text, st.lists(text, max_size=3).map(tuple))
    arguments = st.dictionaries(text, value, max_size=3).map(lambda found: {**found, **engine_args})
    return st.builds(
        Profile,
        name=st.just("generated"),
        engine=st.just(engine),
        nodes=st.sampled_from((1, 1, 1, 2, 3)),
        gpus_per_node=st.sampled_from((0, *_NUMBERS)),
        tensor_parallel=number,
        pipeline_parallel=number,
        data_parallel=number,
        launch_mode=maybe,
        quantization=maybe,
        kv_cache_dtype=maybe,
        max_model_len=st.one_of(st.none(), st.integers(1, 10**7)),
        lora=st.dictionaries(text, text, max_size=2),
        allow_remote_code=st.booleans(),
        engine_args=arguments,
        env=st.dictionaries(st.from_regex(r"[A-Z][A-Z_]{0,9}", fullmatch=True), text, max_size=2),
    )


def requests_of(
    info: EngineInfo, *, binary: tuple[str, ...], versions: tuple[str, ...], engine_args: Mapping[str, Any]
) -> SearchStrategy[Request]:
    """One rank of a replica under a generated profile, on one of `versions`."""
    from hypothesis import strategies as st

    @st.composite
    def request(draw: Any) -> Request:
        profile: Profile = draw(profiles(info.name, engine_args))
        shard = sample_shard(
            info,
            profile,
            draw(st.integers(0, profile.nodes - 1)),
            model="model",
            source=draw(st.one_of(st.just("/models/model"), texts())),
            kind=draw(st.sampled_from(_KINDS)),
        )
        name = draw(st.one_of(st.just("model"), texts()))
        launch = sample_launch(profile, binary=binary, version=draw(st.sampled_from(versions)))
        return Request("a generated profile", shard.model_copy(update={"served_name": name}), launch)

    return request()
