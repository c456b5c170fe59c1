"""Hugging Face config.json, unmodified, as a Model: the families are functions in a table.

A family that is in no table is read as an ordinary transformer if its keys state one, and the model says so. What a
config leaves out takes the default of the family's class in transformers; layers, width, heads and vocabulary are
required.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from podsim.errors import ModelError, unknown_name
from podsim.packaged import install_hint
from podsim.workload.config_audit import EXACT, assumed_sizes, audit_class, audit_keys, audit_name, names_of
from podsim.workload.config_json import Config, load_json
from podsim.workload.families import MODERN, Fields
from podsim.workload.families_classic import CLASSIC, ENCODERS
from podsim.workload.family_reader import is_ordinary, read_family
from podsim.workload.family_table import class_defaults, families
from podsim.workload.layer_kinds import UNREAD
from podsim.workload.model import Model
from podsim.workload.specification import LIMITS, Transformer, resolve, shown
from podsim.workload.transformer import build
from podsim.workload.transformers_class import class_parameters, has_class, is_installed, read_by_class
from podsim.workload.vision_keys import read_vision

FAMILIES: dict[str, Callable[[Config], Fields]] = {**MODERN, **CLASSIC}

# ends of the names of architectures whose head is over the vocabulary, for a decoder (or encoder and decoder)
_LANGUAGE = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "WithLMHeadModel")
_OTHER_HEADS = (
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "DoubleHeadsModel",
    "ForMultipleChoice", "ForMaskedLM", "ForPreTraining", "EncoderModel", "ForNextSentencePrediction",
)  # fmt: skip
_LATER_TOKENS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
_OPEN = ("num_key_value_heads", "head_dim")
"""keys whose omission leaves a size to the family's class"""
_GATES = ("silu", "swish", "swiglu", "geglu", "gelu_pytorch_tanh", "gelu_tanh")
"""activations of MLPs with a gate, in networks since 2023"""
_SCORES = ("softmax", "sigmoid", "sqrtsoftplus")
_RENAMED = {
    "gemma3": "gemma3_text",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "kimi_k2": "deepseek_v3",
}


def read_config(source: str | Path | Mapping[str, Any], *, forced: bool = False) -> Model:
    """The Model of a config.json: a file, a folder that holds one, or its content.

    Of a multimodal model (`text_config`) it is the text part alone, as `source` says. A bare body, such as
    "LlamaModel", has neither logits nor loss. Raises ModelError, with everything that is wrong at once. With `forced`
    what is only in doubt is said.
    """
    return build(read_specification(source, forced=forced))


class _UnreadFamily(ModelError):
    """A family of which no table says enough; its own class may."""


_EXTRA = f"{install_hint('hf')} reads it by its class in transformers"


def read_specification(source: str | Path | Mapping[str, Any], *, forced: bool = False) -> Transformer:
    """The specification in a config.json; see `read_config`.

    A family that no table reads is built by its class in transformers where that is installed.
    """
    name = ""
    path = None
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
    spec, stops = _read_any(raw, name)
    model = build(spec)
    by_name = audit_name(model, names_of(path, raw))
    stops += (*by_name.stops, *audit_class(model, class_parameters(raw) if spec.captured is None else 0))
    if stops and not forced:
        raise ModelError(
            f"{spec.family} config of {spec.name!r}: " + "; ".join(stops) + ". --force goes on without it; "
            "--force --set model.FIELD=VALUE also gives a size"
        )
    return replace(spec, doubts=(*stops, *spec.doubts, *by_name.remarks))


def _read_any(raw: Mapping[str, Any], name: str) -> tuple[Transformer, tuple[str, ...]]:
    """The specification by the tables or by its class, and what forbids to trust it."""
    try:
        return _read_table(raw, name)
    except _UnreadFamily as error:
        if not is_installed():
            raise
        try:
            return resolve(read_by_class(raw, _printable(name) or "model")), ()
        except ModelError as refused:
            if is_ordinary(raw):
                return _read_table(raw, name, guess=True)
            raise ModelError(f"{error}; {refused}") from None


def _read_table(
    raw: Mapping[str, Any], name: str, *, guess: bool = False
) -> tuple[Transformer, tuple[str, ...]]:
    """The specification by the tables of families, and what forbids to trust it; _UnreadFamily where they are silent.

    With `guess`, a family that transformers has, too, is read as an ordinary transformer.
    """
    c = outer = Config(raw=raw)
    part = ""
    if isinstance(raw.get("text_config"), dict):
        c, part = _text_part(c), ", text part only"
    family = _family(c, guess)
    known = {key: value for key, value in class_defaults().get(family, {}).items() if key in _OPEN}
    fields = FAMILIES[family](replace(c, defaults=known)) if family in FAMILIES else read_family(c, family)
    if any(UNREAD in problem for problem in c.problems):
        raise _UnreadFamily(f"{family}: {UNREAD}" + ("" if is_installed() else f"; {_EXTRA}"))
    if not c.problems:
        fields |= (
            _encoder_head(c)
            if fields.get("bidirectional") and family in families()
            else _head(c, family, encoder=bool(fields.get("encoder_layers")))
        )
        fields |= _drop_unpriced(c, fields)
    assumed = _assumptions(c, family)
    doubts = _doubts(family)
    lacks: tuple[str, ...] = ()
    name = _printable(name or c.text("_name_or_path")) or family
    if c.problems:
        raise ModelError(f"{family} config of {name!r}: " + "; ".join(c.problems))
    if isinstance(raw.get("vision_config"), dict):
        vision, unknown = read_vision(outer, fields["hidden"])
        lacks, doubts = _doubted_vision(fields, vision, unknown, doubts)
        if vision is not None:
            fields |= {"vision": vision}
            part = ", text and vision parts"
            images = (
                f"{Transformer.image_percent}% of the tokens come from images of {vision.sequence} patches"
            )
            assumed = (*assumed, images)
    source = f"config.json of {name}{part}"
    by_keys = audit_keys(raw, outer, fields["layers"])
    stated: Fields = {
        "name": name,
        "family": family,
        "source": source,
        "assumptions": (*assumed, *assumed_sizes(outer)),
    }
    spec = resolve(Transformer(**stated, doubts=(*doubts, *by_keys.remarks), **fields))
    return spec, (*lacks, *_unknown_layers(family, spec), *by_keys.stops)


def _name(path: Path) -> str:
    """Name of the model by its file: gpt2.config.json, gpt2.json and gpt2/config.json are all gpt2."""
    path = path.absolute()
    if path.name == "config.json":
        path = path.parent
    return path.name.removesuffix(".json").removesuffix(".config") or "model"


def _drop_unpriced(c: Config, fields: Fields) -> Fields:
    """What launch files state of rotary positions and routers, and no cost depends on."""
    rotary = c.value("rope_parameters") or c.value("rope_scaling")
    base = c.raw.get("rope_theta", rotary.get("rope_theta") if isinstance(rotary, dict) else None)
    stated: Fields = {}
    is_rotary = fields.get("position") == "rope" or fields.get("rope_dim")
    if is_rotary and type(base) in (int, float) and 1 <= base <= LIMITS["rotary_base"]:
        stated["rotary_base"] = int(base)
    if fields.get("experts") and c.value("scoring_func") in _SCORES:
        stated["router_score"] = c.value("scoring_func")
    groups, top = c.value("n_group"), c.value("topk_group")
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
    inner = c.value("text_config")
    shared = {key: c.raw[key] for key in ("tie_word_embeddings", "quantization_config") if key in c.raw}
    named = {} if "model_type" in inner else {"model_type": c.value("model_type")}
    return replace(c, raw={**named, **inner, **shared}, prefix="text_config.")


def _architecture(c: Config) -> str:
    names = c.value("architectures")
    if isinstance(names, list) and names and isinstance(names[0], str):
        return names[0]
    if names not in (None, []):
        c.complain(f"architectures={shown(names)} must be a list of names")
    return ""


def _family(c: Config, guess: bool) -> str:
    """Family of a config: its model_type, or that of its architecture's class."""
    kind = c.value("model_type")
    architecture = _architecture(c)
    spoken = kind.lower() if isinstance(kind, str) else ""
    spoken = _RENAMED.get(spoken, spoken)
    if spoken in FAMILIES or spoken in families():
        return spoken
    ends = (*_LANGUAGE, *_OTHER_HEADS, "Model")
    stem = next((architecture.removesuffix(end) for end in ends if architecture.endswith(end)), "").lower()
    classes = {family.replace("_", ""): family for family in (*families(), *FAMILIES)}
    if stem in classes:
        return classes[stem]
    if (spoken or architecture) and is_ordinary(c.raw):
        if not guess and is_installed() and has_class(spoken):
            raise _UnreadFamily(f"architecture {shown(spoken)} is in no table")
        return spoken or architecture.lower()
    if not spoken and not architecture:
        raise ModelError(
            "no model_type and no architectures: not a Hugging Face config.json of a supported architecture; "
            f"supported: llama, {', '.join(sorted(FAMILIES))} and more"
        )
    unknown = unknown_name("architecture", spoken or architecture, sorted({*FAMILIES, *families()}))
    raise _UnreadFamily(unknown if is_installed() else f"{unknown}; {_EXTRA}")


def _head(c: Config, family: str, *, encoder: bool) -> Fields:
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
    if encoder and architecture.endswith("ForCausalLM"):
        c.complain(f"architecture {shown(architecture)}: the decoder alone of {family} is not supported")
    if architecture.endswith(_OTHER_HEADS):
        known = ", ".join(_LANGUAGE)
        c.complain(f"architecture {shown(architecture)}: its head is not supported; {known} or Model are")
    has_head = family in families() and families()[family].fields.get("lm_head", False)
    if not architecture.endswith("Model") or architecture.endswith(_LANGUAGE) or has_head:
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
    labels = c.value("id2label")
    if isinstance(labels, dict) and labels:
        return len(labels)
    return c.integer("classes", "num_labels", default=2)


def _doubted_vision(
    fields: Fields, vision: Transformer | None, unknown: str, doubts: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What forbids to trust a model with an encoder of images, and what is in doubt.

    Of an unknown encoder the parameters may be a third off: it counts where that is 1 % of the model's.
    """
    if not unknown:
        return (), doubts
    if vision is None:
        return (unknown,), doubts
    plain = resolve(Transformer(name="text", **fields))
    share = 1 - build(plain).parameters / build(replace(plain, vision=vision)).parameters
    return ((unknown,), doubts) if share > 3 * EXACT else ((), (*doubts, unknown))


def _unknown_layers(family: str, spec: Transformer) -> tuple[str, ...]:
    """What forbids to read a family that is in no table as an ordinary one."""
    if family in FAMILIES or family in families():
        return ()
    if family in class_defaults():
        return (f"{family} has layers of its own: {_EXTRA}",)
    if spec.activation not in _GATES:
        return (f"its activation {shown(spec.activation)} does not say whether the MLP has a gate",)
    return ()


def _doubts(family: str) -> tuple[str, ...]:
    """What a reader should doubt of a family that is in no table."""
    if family in FAMILIES or family in families():
        return ()
    return (
        f"model_type {shown(family)} is not known: read as an ordinary transformer (RMSNorm, rotary positions, "
        "gated MLP) by its keys",
    )


def _assumptions(c: Config, family: str) -> tuple[str, ...]:
    """What a reader of the plan should know of how the config was read."""
    said = list(families()[family].assumes) if family in families() and family not in FAMILIES else []
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
