"""Writes a Llama of random weights that loads in a second: `python tiny_model.py DIRECTORY`.

Run by the interpreter that has SGLang, which brings torch, transformers and tokenizers.
"""

from __future__ import annotations

import sys

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as Bytes
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast


def main(directory: str) -> None:
    """Write the model and its tokenizer; the same weights every time."""
    torch.manual_seed(0)
    words = Tokenizer(BPE())
    words.pre_tokenizer, words.decoder = ByteLevel(add_prefix_space=False), Bytes()
    trainer = BpeTrainer(
        vocab_size=300,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=ByteLevel.alphabet(),
        show_progress=False,
    )
    words.train_from_iterator(["hello small world"], trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(directory)
    tokenizer.save_pretrained(directory)


if __name__ == "__main__":
    main(sys.argv[1])
