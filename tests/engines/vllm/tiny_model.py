"""Makes a tiny Llama with random weights, for `python tiny_model.py DIRECTORY` in vLLM's own environment.

Every byte is a token, so no tokenizer has to be trained; answers are noise, which is all that a test needs.
"""

from __future__ import annotations

import sys
from typing import Any

CONTEXT = 2048
END = "<end>"
TEMPLATE = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"


def save(directory: str) -> None:
    """Write the model and its tokenizer."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    plain: Any = Tokenizer(
        models.BPE(vocab={token: i for i, token in enumerate([END, *alphabet])}, merges=[])
    )
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=plain, bos_token=END, eos_token=END, pad_token=END)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(directory)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=256,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,  # so that two and four ranks can share them
        num_key_value_heads=4,
        max_position_embeddings=CONTEXT,
        bos_token_id=0,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)


if __name__ == "__main__":
    save(sys.argv[1])
