"""Hugging Face config.json, unmodified, as a Model: the families are functions in a table.

A family that is in no table is read as an ordinary transformer if its keys state one, and the model says so. What a
config leaves out takes the default of the family's class in transformers; layers, width, heads and vocabulary are
required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from podsim.errors import ModelError, unknown_name
from podsim.workload.config_json import Config, load_json
from podsim.workload.families import MODERN, Fields
from podsim.workload.families_classic import CLASSIC, ENCODERS
from podsim.workload.family_reader import is_ordinary, read_family
from podsim.workload.family_table import families
from podsim.workload.layer_kinds import UNREAD
from podsim.workload.model import Model
from podsim.workload.specification import LIMITS, Transformer, resolve, shown
from podsim.workload.transformer import build
from podsim.workload.transformers_class import has_class, is_installed, read_by_class
from podsim.workload.vision_keys import read_vision

FAMILIES: dict[str, Callable[[Config], Fields]] = {**MODERN, **CLASSIC}

# ends of the names of architectures whose head is over the vocabulary, for a decoder (or encoder and decoder)
_LANGUAGE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "WithLMHeadModel")
_OTHER_HEADS = (
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "DoubleHeadsModel",
    "ForMultipleChoice", "ForMaskedLM", "ForPreTraining", "EncoderModel", "ForNextSentencePrediction",
)  # fmt: skip
_LATER_TOKENS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_SCORES = ("softmax", "sigmoid", "sqrtsoftplus")
_RENAMED = {
    "gemma3": "gemma3_text",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "kimi_k2": "deepseek_v3",
}


def read_config(source: str | Path | Mapping[str, Any]) -> Model:
    """The Model of a config.json: a file, a folder that holds one, or its content.

    Of a multimodal model (`text_config`) it is the text part alone, as `source` says. A bare body, such as
    "LlamaModel", has neither logits nor loss. Raises ModelError, with everything that is wrong at once.
    """
    return build(read_specification(source))


class _UnreadFamily(ModelError):
    """A family of which no table says enough; its own class may."""


_EXTRA = "pip install 'podsim[hf]' reads it by its class in transformers"


def read_specification(source: str | Path | Mapping[str, Any]) -> Transformer:
    """The specification in a config.json; see `read_config`.

    A family that no table reads is built by its class in transformers where that is installed.
    """
    name = ""
    if isinstance(source, Mapping):
        raw: Mapping[str, Any] = source
    elif isinstance(source, (str, Path)):
        path = Path(source)
        raw = load_json(path)
        name = _name(path)
    else:
        raise ModelError(
            f"cannot read a model from {shown(source)}: give a path or the content of a config.json"
        )
    try:
        return _read_table(raw, name)
    except _UnreadFamily as error:
        if not is_installed():
            raise
        try:
            return resolve(read_by_class(raw, _printable(name) or "model"))
        except ModelError as refused:
            if is_ordinary(raw):
                return _read_table(raw, name, guess=True)
            raise ModelError(f"{error}; {refused}") from None


def _read_table(raw: Mapping[str, Any], name: str, *, guess: bool = False) -> Transformer:
    """The specification by the tables of families; _UnreadFamily where they do not say enough.

    With `guess`, a family that transformers has, too, is read as an ordinary transformer.
    """
    c = Config(raw=raw)
    part = ""
    if isinstance(raw.get("text_config"), dict):
        c, part = _text_part(c), ", text part only"
    family = _family(c, guess)
    fields = FAMILIES[family](c) if family in FAMILIES else read_family(c, family)
    if any(UNREAD in problem for problem in c.problems):
        raise _UnreadFamily(f"{family}: {UNREAD}" + ("" if is_installed() else f"; {_EXTRA}"))
    if not c.problems:
        fields |= (
            _encoder_head(c) if fields.get("bidirectional") and family in families() else _head(c, family)
        )
        fields |= _drop_unpriced(c, fields)
    assumed = _assumptions(c, family)
    name = _printable(name or c.text("_name_or_path")) or family
    if c.problems:
        raise ModelError(f"{family} config of {name!r}: " + "; ".join(c.problems))
    if part:
        vision, unknown = read_vision(Config(raw=raw), fields["hidden"])
        assumed = (*assumed, *([unknown] if unknown else []))
        if vision is not None:
            fields |= {"vision": vision}
            part = ", text and vision parts"
            images = (
                f"{Transformer.image_percent}% of the tokens come from images of {vision.sequence} patches"
            )
            assumed = (*assumed, images)
    source = f"config.json of {name}{part}"
    return resolve(Transformer(name=name, family=family, source=source, assumptions=assumed, **fields))


def _name(path: Path) -> str:
    """Name of the model by its file: gpt2.config.json, gpt2.json and gpt2/config.json are all gpt2."""
    path = path.absolute()
    if path.name == "config.json":
        path = path.parent
    return path.name.removesuffix(".json").removesuffix(".config") or "model"


def _drop_unpriced(c: Config, fields: Fields) -> Fields:
    """What launch files state of rotary positions and routers, and no cost depends on."""
    rotary = c.raw.get("rope_parameters") or c.raw.get("rope_scaling")
    base = c.raw.get("rope_theta", rotary.get("rope_theta") if isinstance(rotary, dict) else None)
    stated: Fields = {}
    is_rotary = fields.get("position") == "rope" or fields.get("rope_dim")
    if is_rotary and type(base) in (int, float) and 1 <= base <= LIMITS["rotary_base"]:
        stated["rotary_base"] = int(base)
    if fields.get("experts") and c.raw.get("scoring_func") in _SCORES:
        stated["router_score"] = c.raw["scoring_func"]
    groups, top = c.raw.get("n_group"), c.raw.get("topk_group")
    if (
        fields.get("experts")
        and type(groups) is int
        and type(top) is int
        and 1 <= top <= groups <= 2**16
        and groups > 1
    ):
        stated |= {"router_groups": groups, "router_top_groups": top}
    return stated


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text[:200])


def _text_part(c: Config) -> Config:
    """The language model of a multimodal config; what only the outer object says holds for it too."""
    inner = c.raw["text_config"]
    shared = {key: c.raw[key] for key in ("tie_word_embeddings", "quantization_config") if key in c.raw}
    named = {} if "model_type" in inner else {"model_type": c.raw.get("model_type")}
    return Config(raw={**shared, **named, **inner}, prefix="text_config.", problems=c.problems)


def _architecture(c: Config) -> str:
    names = c.raw.get("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    if names not in (None, []):
        c.complain(f"architectures={shown(names)} must be a list of names")
    return ""


def _family(c: Config, guess: bool) -> str:
    """Family of a config: its model_type, or that of its architecture's class."""
    kind = c.raw.get("model_type")
    architecture = _architecture(c)
    spoken = kind.lower() if isinstance(kind, str) else ""
    spoken = _RENAMED.get(spoken, spoken)
    if spoken in FAMILIES or spoken in families():
        return spoken
    ends = (*_LANGUAGE, *_OTHER_HEADS, "Model")
    stem = next((architecture.removesuffix(end) for end in ends if architecture.endswith(end)), "").lower()
    classes = {family.replace("_", ""): family for family in FAMILIES}
    if stem in classes:
        return classes[stem]
    if (spoken or architecture) and is_ordinary(c.raw):
        if not guess and is_installed() and has_class(spoken):
            raise _UnreadFamily(f"architecture {shown(spoken)} is in no table")
        return spoken or architecture.lower()
    if not spoken and not architecture:
        raise ModelError(
            "no model_type and no architectures: not a Hugging Face config.json of a supported architecture; "
            f"supported: {', '.join(sorted(FAMILIES))}"
        )
    unknown = unknown_name("architecture", spoken or architecture, sorted({*FAMILIES, *families()}))
    raise _UnreadFamily(unknown if is_installed() else f"{unknown}; {_EXTRA}")


def _head(c: Config, family: str) -> Fields:
    """What stands on the body, by the end of the architecture's name; the pre-training head without one."""
    architecture = _architecture(c)
    if family in ("bert", "roberta"):
        heads = (
            ENCODERS if family == "bert" else {k: v for k, v in ENCODERS.items() if v.get("classes") is None}
        )
        end = next((end for end in heads if architecture.endswith(end)), None)
        if architecture and end is None:
            c.complain(f"architecture {shown(architecture)} is not supported; {', '.join(heads)} are")
        fields = heads[end or ("ForPreTraining" if family == "bert" else "ForMaskedLM")]
        return {**fields, "classes": _labels(c)} if fields.get("classes") == "labels" else fields
    if architecture.endswith(_OTHER_HEADS):
        known = ", ".join(_LANGUAGE)
        c.complain(f"architecture {shown(architecture)}: its head is not supported; {known} or Model are")
    if not architecture or architecture.endswith(_LANGUAGE) or not architecture.endswith("Model"):
        return {}
    return {"lm_head": False, "head_bias": False, "tied": True}


def _encoder_head(c: Config) -> Fields:
    """What stands on an encoder of the table: masked words, labels, or nothing."""
    architecture = _architecture(c)
    bare: Fields = {"lm_head": False, "mlm_transform": False, "head_bias": False}
    if architecture.endswith("Classification"):
        return bare | {"classes": _labels(c)}
    return bare if architecture.endswith("Model") else {}


def _labels(c: Config) -> int:
    labels = c.raw.get("id2label")
    if isinstance(labels, dict) and labels:
        return len(labels)
    return c.integer("classes", "num_labels", default=2)


def _assumptions(c: Config, family: str) -> tuple[str, ...]:
    """What a reader of the plan should know of how the config was read."""
    said = []
    if family not in FAMILIES and family not in families():
        said.append(
            f"model_type {shown(family)} is not known: read as an ordinary transformer (RMSNorm, rotary positions, "
            "gated MLP) by its keys"
        )
    elif family in families():
        said += families()[family].assumes
    later = c.integer("layers", *_LATER_TOKENS, default=0, least=0)
    if later:
        said.append(
            f"the {later} layers of multi-token prediction are left out, as transformers does; --set model.mtp={later} "
            "trains them"
        )
    quantised = c.table("quantization_config")
    if quantised.raw:
        method = quantised.text("quant_method", default="bitsandbytes")
        said.append(f"the file's weights are in {shown(method)}; training keeps them in the plan's precision")
    return tuple(said)
