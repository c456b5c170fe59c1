"""What starts a served model, for each target: files written, and read back as the options of `podsim serve`.

The last line of a file is a comment, `# podsim: {...}`, with the plan of each pool and the user's words for model and
cluster. What somebody changed in a command's options since then has priority over the comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from podsim.answers.best_serving import BestServing
from podsim.answers.served import Served
from podsim.answers.served_load import ServedLoad
from podsim.errors import PodsimError, unknown_name
from podsim.foreign_files import read_text
from podsim.launching.shell import commands
from podsim.options.question import options_of
from podsim.options.serving_options import ServeOptions
from podsim.safe_yaml import YamlError, read_documents
from podsim.serving.deployments.deployment import Deployment, DeploymentFiles
from podsim.serving.deployments.engine_flags import TOOLS as ENGINE_TOOLS
from podsim.serving.deployments.engine_flags import read_server, unread_options
from podsim.serving.deployments.server_kubernetes import server_manifests
from podsim.serving.deployments.server_scripts import server_script
from podsim.serving.deployments.server_triton import triton_repository
from podsim.serving.language_engines import engine_family
from podsim.serving.language_setup import is_language_engine, model_keys, prefill_plan, read_language_setup
from podsim.serving.serving_gpus import read_serving_cluster
from podsim.serving.serving_plan import ServingPlan
from podsim.whole_files import write_files
from podsim.workload.catalog import load_model

LARGEST = 1 << 20
"""B of the largest file that is read"""
_ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt-llm"}
"""target -> its engine"""
TARGETS: Mapping[str, Callable[[Deployment], DeploymentFiles]] = {
    **dict.fromkeys(_ENGINES, server_script), "triton": triton_repository, "kubernetes": server_manifests,
}  # fmt: skip
TRITON_ENGINES = ("tensorrt-llm", "vllm")
_ALSO = {"tensorrt-llm": "trtllm", "trt-llm": "trtllm", "k8s": "kubernetes", "lws": "kubernetes"}
_COMMENT = re.compile(r"(?m)^# podsim: (\{.{0,65536}\})[ \t]*$")
_OPTIONS = {
    "engine": "engine", "precision": "precision", "cache": "kv", "tensor": "tp", "pipeline": "pp", "expert": "ep",
    "context": "cp", "data_attention": "attention_dp", "replicas": "replicas", "block_tokens": "block_tokens",
    "max_batch": "max_batch", "max_batched_tokens": "max_batched_tokens", "chunked_prefill": "chunked",
    "draft_tokens": "speculate", "acceptance": "acceptance", "draft": "draft", "memory_share": "memory_share",
    "prefix_share": "prefix",
}  # fmt: skip
"""field of a serving plan -> the option of `podsim serve`"""
_TARGET = {"tensorrt-llm": "trtllm"}
"""engine -> the target that is written where the user names none, if it has another name"""


def read_targets(text: str) -> tuple[str, ...]:
    """The targets that a user names. Raises PodsimError for an unknown one."""
    names = [
        _ALSO.get(word.strip().lower(), word.strip().lower()) for word in text.split(",") if word.strip()
    ]
    for name in names:
        if name not in TARGETS:
            raise PodsimError(unknown_name("launch", name[:40], TARGETS))
    return tuple(dict.fromkeys(names))


def target_engine(targets: tuple[str, ...]) -> str:
    """The engine that targets need, "" for any. Raises PodsimError where they need several."""
    engines = {_ENGINES[name] for name in targets if name in _ENGINES}
    if len(engines) > 1:
        raise PodsimError(
            f"launch: {', '.join(sorted(engines))} are different engines; write for one of them"
        )
    return next(iter(engines), "")


def write_deployment(
    deployment: Deployment, targets: tuple[str, ...], directory: Path
) -> tuple[list[str], list[str]]:
    """(paths of the files that start a deployment, notes). Raises PodsimError for what a target cannot run."""
    wrong = [name for name in targets if _ENGINES.get(name, deployment.plan.engine) != deployment.plan.engine]
    if wrong:
        raise PodsimError(f"launch={wrong[0]}: the plan has --engine {deployment.plan.engine}")
    made = {name: TARGETS[name](deployment) for name in targets}
    paths, notes = [], []
    comment = f"# podsim: {json.dumps(_record(deployment))}\n"
    for each in made.values():
        for name, text in each.files.items():
            path = directory / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                write_files({path: text if name.endswith(".json") else text + comment})
            except OSError as problem:
                raise PodsimError(f"{path}: cannot be written: {problem.strerror}") from None
            paths.append(str(path))
        notes += [note for note in each.notes if note not in notes]
    return paths, notes


def _record(deployment: Deployment) -> dict[str, Any]:
    record: dict[str, Any] = {**deployment.names, "plan": _changed_fields(deployment.plan)}
    return record if deployment.prefill is None else record | {"prefill": _changed_fields(deployment.prefill)}


def _changed_fields(plan: ServingPlan) -> dict[str, Any]:
    """The fields of a plan that are not their defaults."""
    plain = asdict(ServingPlan(engine=""))
    return {name: value for name, value in asdict(plan).items() if value != plain[name]}


def with_files(
    answer: Served | ServedLoad | BestServing, options: ServeOptions
) -> Served | ServedLoad | BestServing:
    """An answer, with the files that start it written and named among its notes.

    Raises PodsimError where a target cannot run its plan, or the answer has none.
    """
    plan, prefill = _best_plans(answer) if isinstance(answer, BestServing) else _own_plans(options)
    plan = replace(plan, engine=engine_family(plan.engine))
    prefill = replace(prefill, engine=plan.engine) if prefill else None
    deployment = Deployment(
        model=load_model(options.model, model_keys(options.overrides)), plan=plan, prefill=prefill,
        cluster=read_serving_cluster(options.on, options.overrides), longest=_longest(answer),
        names={"model": str(options.model), "on": str(options.on)},
    )  # fmt: skip
    targets = read_targets(options.launch) or (_TARGET.get(plan.engine, plan.engine),)
    paths, notes = write_deployment(deployment, targets, Path(options.save or deployment.name))
    lines = (f"written: {', '.join(paths)}", *notes)
    if isinstance(answer, BestServing):
        return replace(answer, notes=(*answer.notes, *lines))
    return replace(answer, assumptions=(*answer.assumptions, *lines))


def _longest(answer: Served | ServedLoad | BestServing) -> int:
    """count. The most tokens of a sequence; 0 where the answer does not say."""
    return answer.tokens + answer.output if isinstance(answer, Served) else getattr(answer, "longest", 0)


def _best_plans(answer: BestServing) -> tuple[ServingPlan, ServingPlan | None]:
    """The plan of the best way, and that of its pool for prompts."""
    if answer.best is None:
        raise PodsimError("--launch and --save: no way keeps the limits, so nothing is written")
    plan: dict[str, Any] = dict(answer.best.plan)
    prefill: dict[str, Any] = dict(answer.best.prefill or {})
    return ServingPlan(**plan), ServingPlan(**prefill) if prefill else None


def _own_plans(options: ServeOptions) -> tuple[ServingPlan, ServingPlan | None]:
    """The plan that the user's options give, and that of a pool for prompts."""
    if not is_language_engine(options.engine):
        raise PodsimError(f"--launch and --save: {options.engine} starts no server of language models")
    plan = read_language_setup(options).plan
    first, mark, last = options.disaggregate.partition(":")
    if not (mark and first.isdecimal() and last.isdecimal()):
        return plan, None
    return replace(plan, replicas=int(last)), replace(
        prefill_plan(plan, options.prefill_tp), replicas=int(first)
    )


def with_serving_plan(group: type, said: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a group: those that the user gave, and the others as the file `plan` has them."""
    known = options_of(group)
    values = read_serving_plan(Path(str(said["plan"])))
    further = {f"serve.{name}": str(value) for name, value in values.items() if name not in known}
    own = {**{name: value for name, value in values.items() if name in known}, **dict(said)}
    return {**own, "overrides": {**further, **(own.get("overrides") or {})} or None}


def read_serving_plan(path: Path) -> dict[str, Any]:
    """The options of `podsim serve` that a file states: model, on, engine, degrees, formats, limits.

    The file is one that `--save` wrote, or a script that starts vllm serve, sglang.launch_server or trtllm-serve. Raises
    PodsimError, naming it, for one that cannot be read or starts no server.
    """
    text = _text(path)
    try:
        servers = [server for words in _commands(text) if (server := read_server(words)) is not None]
        record = _comment(text)
    except PodsimError as problem:
        raise PodsimError(f"{str(path)[-200:]}: {problem}") from None
    if not servers and not record:
        raise PodsimError(
            f"{str(path)[-200:]}: it starts no server that is known: vllm serve, sglang.launch_server, trtllm-serve"
        )
    said: dict[str, Any] = {name: record[name] for name in ("model", "on") if name in record}
    if not record:
        return said | _from_servers(servers)
    plan, prefill = record.get("plan", {}), record.get("prefill")
    said |= {_OPTIONS[name]: value for name, value in plan.items() if name in _OPTIONS}
    if prefill:
        said.pop("replicas", None)
        said["disaggregate"] = f"{prefill.get('replicas', 1)}:{plan.get('replicas', 1)}"
        if prefill.get("tensor", 1) != plan.get("tensor", 1):
            said["prefill_tp"] = prefill.get("tensor", 1)
    elif servers:
        said |= {_OPTIONS[name]: value for name, value in _changes(servers, plan).items() if name in _OPTIONS}
    return said


def unread_of_servers(path: Path) -> tuple[str, ...] | None:
    """The options of the servers that a file starts that no law reads; None where it starts none."""
    unread = [names for words in _commands(_text(path)) if (names := unread_options(words)) is not None]
    return tuple(dict.fromkeys(name for names in unread for name in names)) if unread else None


def server_flags(options: ServeOptions) -> dict[str, str]:
    """The lines of a server's command that state its layout and its formats, by flag."""
    plan = read_language_setup(options).plan
    plan = replace(plan, engine=engine_family(plan.engine))
    deployment = Deployment(
        model=load_model(options.model, model_keys(options.overrides)), plan=plan,
        cluster=read_serving_cluster(options.on, options.overrides),
    )  # fmt: skip
    flags = ENGINE_TOOLS[plan.engine].write(deployment, plan)
    return {name: f"--{name}" if value is True else f"--{name} {value}" for name, value in flags.items()}


def _from_servers(servers: list[dict[str, Any]]) -> dict[str, Any]:
    """The options of equal servers that somebody else's file starts."""
    first = dict(servers[0])
    weights = first.pop("weights")
    if any(server != servers[0] for server in servers[1:]):
        raise PodsimError("its servers differ; give a file of one pool")
    first["replicas"] = int(first.get("replicas", 1)) * len(servers)
    return {"model": weights} | {_OPTIONS[name]: value for name, value in first.items() if name in _OPTIONS}


def _changes(servers: list[dict[str, Any]], plan: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a server's command that differ from the plan of the comment."""
    full = asdict(replace(ServingPlan(engine=""), **plan))
    said = {name: value for name, value in servers[0].items() if name in full and name != "replicas"}
    same = {"fp8_block": "fp8"}
    return {
        name: value
        for name, value in said.items()
        if value != full[name] and full[name] not in (0, 0.0) and same.get(full[name]) != value
    }


def _text(path: Path) -> str:
    if "\0" not in str(path) and path.is_dir():
        path = next((path / name for name in ("serve.sh", "serve.yaml") if (path / name).is_file()), path)
    return read_text(path, most=LARGEST, error=PodsimError, hint="nothing that starts a server is")


def _comment(text: str) -> dict[str, Any]:
    """The record of the last comment; PodsimError for one that podsim did not write."""
    lines = _COMMENT.findall(text)
    if not lines:
        return {}
    kinds = {field.name: type(field.default) for field in fields(ServingPlan)} | {"engine": str}
    try:
        record = json.loads(lines[-1])
        pools = [record["plan"], *([record["prefill"]] if record.get("prefill") else [])]
        right = all(
            name in kinds and isinstance(value, (kinds[name], int) if kinds[name] is float else kinds[name])
            for pool in pools
            for name, value in pool.items()
        )
        right = right and all(isinstance(record.get(name, ""), str) for name in ("model", "on"))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        right = False
    if not right:
        raise PodsimError("its comment `# podsim:` is none that podsim wrote; mend or remove it")
    made: dict[str, Any] = record
    return made


def _commands(text: str) -> Iterator[list[str]]:
    """The words of every command of a script, or of the containers of manifests."""
    if re.search(r"(?m)^(apiVersion|services):", text):
        try:
            documents = read_documents(text)
        except YamlError as problem:
            raise PodsimError(f"not YAML: {problem}") from None
        for document in documents:
            yield from _container_words(document, 0)
    elif "instance_group" not in text:
        yield from commands(text)


def _container_words(value: object, depth: int) -> Iterator[list[str]]:
    """The words of containers anywhere in a manifest."""
    if depth > 16:
        return
    if isinstance(value, dict):
        parts = [value.get(key) for key in ("image", "command", "args")]
        listed = [part.split() if isinstance(part, str) else part for part in parts]
        if any(isinstance(part, list) for part in listed):
            yield [str(word).replace("$$", "$") for part in listed if isinstance(part, list) for word in part]
        for inner in value.values():
            yield from _container_words(inner, depth + 1)
    elif isinstance(value, list):
        for inner in value:
            yield from _container_words(inner, depth + 1)
