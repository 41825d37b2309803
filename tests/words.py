"""Small real tokenizers, made on the spot."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CORPUS = [
    "the quick brown fox jumps over the lazy dog and the cat sat on the mat",
    "def add(a, b):\n    return a + b\n\nprint(add(1, 2))",
    "naïve café, 東京 is far away, 🙂 isn't it?",
]


def byte_level(
    vocab_size: int, corpus: Sequence[str] = CORPUS, special: Sequence[str] = ("<s>", "</s>")
) -> PreTrainedTokenizerFast:
    """Byte-level BPE, as GPT-2, Llama 3 and Qwen use."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(special),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[1])


def characters(alphabet: str) -> PreTrainedTokenizerFast:
    """One token a character."""
    tokenizer = Tokenizer(models.WordLevel({char: i for i, char in enumerate(alphabet)}, unk_token=alphabet[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def whole_words(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """One token a word, the space before it included."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=words[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r" ?[^ ]+"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


TURNS = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def letters(alphabet: Sequence[str] | None = None, *, turns: str = TURNS) -> PreTrainedTokenizerFast:
    """Byte-level with one token a byte (or a letter of the alphabet), an end token and a chat template."""
    known = sorted(pre_tokenizers.ByteLevel.alphabet() if alphabet is None else alphabet)
    backend = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate([*known, "</s>"])}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="</s>")
    tokenizer.chat_template = turns
    return tokenizer
