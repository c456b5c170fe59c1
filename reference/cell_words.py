"""Units of rates, precisions and batches as sources write them in a cell."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from podsim.accuracy.reading import SCALES, read_number

_TIMES = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0, "ms": 1e-3, "millisecond": 1e-3,
    "min": 60.0, "mins": 60.0, "minute": 60.0, "h": 3600.0, "hr": 3600.0, "hour": 3600.0, "d": 86400.0, "day": 86400.0,
}  # fmt: skip
_NOUNS = {
    "tokens": r"tok|toks|tokens?|words?|wps|pieces?|subwords?|chars?|characters?",
    "frames": r"(?:mel |spectrogram )?frames?",
    "samples": (
        r"imgs?|images?|pics?|pictures?|samples?|smpl|seqs?|sequences?|sentences?|sents?|examples?|exs?|records?|items?|"
        r"utterances?|utts?|clips?|segments?|volumes?|vols?|inferences?|inf|quer(?:y|ies)|requests?|impressions?|"
        r"pairs?|molecules?|mols?|graphs?|windows?|patches|crops?|predictions?|users?|ratings?"
    ),
}
_ABBREVIATIONS = {
    "fps": "images/s",
    "ips": "images/s",
    "qps": "queries/s",
    "tps": "tokens/s",
    "wps": "words/s",
}
RATE_EXAMPLES = "images/s, samples/sec, tokens per second, sequences/s/GPU"
_HALF = ("fp16", "bf16")
_PRECISIONS = (
    (r"mx ?fp8|nv ?fp4|fp4", ""),
    (r"fp8|e4m3|float8", "fp8"),
    (r"int8|i8\b", "int8"),
    (r"bf16|bfloat|brain", "bf16"),
    (r"tf32|tensorfloat", "tf32"),
    (r"amp|mixed|fp16|half|float16|16[- ]?bit|f16", "fp16"),
    (r"fp32|float32|single|full|32[- ]?bit|f32", "fp32"),
)
_TAG = r"(?:amp|mixed(?: precision)?|fp16|bf16|tf32|fp32|half|single)"
_BATCH_WORDS = re.compile(
    r"(?:batch(?: size)?|bs|samples?|images?|imgs?|sequences?|sentences?|per|gpu|device|accelerator|each|[/=:~@-])+"
)


@dataclass(frozen=True, kw_only=True)
class RateUnit:
    """The unit of a throughput."""

    factor: float
    """1/s. The items per second of one unit."""
    counts: str
    """The things counted: samples, tokens or frames."""
    is_per_gpu: bool = False
    """Whether the throughput is of one GPU."""


@cache
def read_rate_unit(text: str) -> RateUnit | None:
    """The meaning of a unit such as imgs/s, Sentences/sec, samples /s per GPU or k tokens per second; None if none."""
    words = re.sub(r"\(.*?\)", " ", text.lower()).strip()
    words, of_gpu = re.subn(r"[ /]*(?:\bper |/ ?)(?:gpu|device|accelerator|chip|card)\b", " ", words)
    words = _ABBREVIATIONS.get(words.strip(), words.strip())
    match = re.fullmatch(r"(.*?) ?(?:/| per |\bper ) ?([a-z]+)\.?(?:\^-1)?", words)
    if match is None or match[2] not in _TIMES:
        return None
    noun, factor = match[1].strip().removeprefix("#").strip(), 1.0 / _TIMES[match[2]]
    if scale := re.match(r"(k|m|g|thousand|million|billion)(?: |$)", noun):
        noun, factor = noun[scale.end() :].strip(), factor * SCALES[scale[1]]
    elif scale := re.match(r"([km])(?=tok|img|image|sample|seq|item|word)", noun):
        noun, factor = noun[1:], factor * SCALES[scale[1]]
    noun = re.sub(r"^(?:training|train|throughput|total|avg\.?|average|source|target)\b *", "", noun)
    counts = next((name for name, pattern in _NOUNS.items() if re.fullmatch(pattern, noun)), None)
    return None if counts is None else RateUnit(factor=factor, counts=counts, is_per_gpu=bool(of_gpu))


def read_precision(text: str) -> str | None:
    """The precision that words name (FP16/mixed, AMP, bfloat16, TF32); None if podsim knows none of them."""
    words = text.lower().replace("_", "")
    return next((name for pattern, name in _PRECISIONS if re.search(pattern, words)), None) or None


def read_batch(cell: str, precision: str) -> tuple[float, bool] | None:
    """(samples, whether of all GPUs) of a batch's cell; None if it states no batch that is clear.

    A cell may hold the batches of two precisions: "128 (FP32) / 256 (AMP)", "10@FP16, 4@TF32", or 5120/2560, the
    larger in 16 bits. k is 1,024 there.
    """
    text = cell.strip().lower()
    if re.match(_TAG, text):
        tags = [(b, a) for a, b in re.findall(rf"({_TAG})\s*[:=@]?\s*([0-9][0-9,.]*k?)", text)]
    else:
        tags = re.findall(rf"([0-9][0-9,.]*k?)\s*[@(]?\s*(?:in |for )?({_TAG})\b", text)
    for number, tag in tags:
        named = read_precision(tag)
        if (
            named == precision
            or (named in _HALF and precision in _HALF)
            or {named, precision} == {"tf32", "fp32"}
        ):
            return _batch_number(number), False
    if tags:
        return None
    if match := re.fullmatch(r"([0-9]+k?)\s*/\s*([0-9]+k?)", text):
        pair = sorted(_batch_number(number) for number in match.groups())
        return pair[precision in _HALF], False
    of_all = bool(re.search(r"global|total|overall|all gpus", text))
    text = re.sub(r"\(?\b(?:global|total|overall|all gpus)\b\)?", " ", text)
    bare = re.sub(r"\s+", " ", _BATCH_WORDS.sub(" ", text)).strip()
    if re.fullmatch(r"[0-9][0-9,.]*k", bare):
        return _batch_number(bare), of_all
    number = read_number(bare)
    return None if number is None else (number, of_all)


def _batch_number(text: str) -> float:
    text = text.rstrip(",.")
    number = float(text.removesuffix("k").replace(",", ""))
    return number * 1024.0 if text.endswith("k") else number
