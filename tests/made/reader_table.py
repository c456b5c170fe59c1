"""Every reader of foreign files and texts: the public function that a command calls, and small files that it reads."""

from __future__ import annotations

import gzip
import json
import pickle
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from made_launches import written
from made_profiles import events, profile
from made_timelines import pipeline
from tests.acceptance import test_health_and_peers as health
from tests.accuracy import test_nccl_tests as nccl
from tests.fleet import test_squeue as slurm
from tests.graphs.test_chakra import trace
from tests.hardware import test_mig_text as mig
from tests.hardware import test_topology_text as topo
from tests.hardware import test_topology_xml as topology
from tests.serving import test_benchmark_files as benchmarks
from tests.serving import test_trace_file as traces
from tests.storage import test_mdtest_results as mdtest

from podsim.acceptance.health_checks import health_parts
from podsim.acceptance.network_checks import read_network
from podsim.acceptance.thresholds import THRESHOLDS, Figure, check
from podsim.acceptance.trend_checks import read_earlier, trend_checks, trend_parts
from podsim.accuracy.nccl_comparison import against_log
from podsim.accuracy.nccl_tests import read_any
from podsim.answers.acceptance import Part
from podsim.answers.lab import MeasuredCollective, MeasuredCollectives
from podsim.answers.saved_run import read_run, write_run
from podsim.answers.telemetry import PortRow, Telemetry
from podsim.answers.trained import MeasuredTraining, TrainedStep
from podsim.embeddings.table_files import read_tables
from podsim.errors import PodsimError
from podsim.fleet.openb import read_nodes
from podsim.fleet.openb import read_requests as read_pods
from podsim.fleet.traces import read_jobs
from podsim.foreign_files import opened as opened_file
from podsim.foreign_files import read_start
from podsim.graphs.chakra_mend import write_chakra
from podsim.graphs.op_graph_json import read_graph
from podsim.hardware.cluster import load_cluster
from podsim.hardware.machine_input import read_server
from podsim.hardware.mig.commands import make_parted, parted_text
from podsim.hardware.mig.layouts import read_layout
from podsim.lab.checkpoint_files import MANIFEST, latest, opened, saving
from podsim.lab.sparse.click_files import read_clicks
from podsim.lab.sparse.row_messages import receive_message, send_message
from podsim.lab.sparse.row_store import RowStore
from podsim.lab.sparse.row_store import Shard as TableShard
from podsim.lab.sparse.sparse_train import checkpoint_step
from podsim.lab.training.shards import Shard, shapes_of, write_shards
from podsim.launching.experiment_file import read_experiment
from podsim.launching.plan_file import read_plan_file
from podsim.launching.tools import TOOLS
from podsim.learning.loss_catalog import find_law, law_text, read_law
from podsim.learning.loss_table import read_runs
from podsim.learning.tensor_files import write_tensor_file
from podsim.monitoring import prometheus_api
from podsim.monitoring.exposition import read_metrics
from podsim.questions.learn.large_batch import scale_batch
from podsim.questions.learn.prune import prune
from podsim.questions.machine.mig_check import mig_check
from podsim.questions.machine.mig_state import mig_state
from podsim.questions.operate.queue import queue
from podsim.questions.operate.validate import validate
from podsim.questions.operate.why import why
from podsim.questions.train.chakra import chakra
from podsim.questions.train.launch import launch
from podsim.questions.train.schedule import schedule
from podsim.schedules.entries import build
from podsim.schedules.torch_csv import to_csv
from podsim.serving.benchmark_files import read_benchmarks, read_requests
from podsim.serving.deployments.deployments import read_serving_plan
from podsim.serving.ensemble_file import read_ensemble
from podsim.serving.serving_rows import read_serving
from podsim.storage.fio_results import read_fio
from podsim.storage.mdtest_results import read_mdtest
from podsim.studies.study_file import read_study
from podsim.timeline.counter_files import read_counters
from podsim.timeline.kineto import read_kineto
from podsim.timeline.timelines import read_timeline, write_timeline
from podsim.web.questions import read_request
from podsim.workload.catalog import load_model

ROOT = Path(__file__).parents[2]


class Reader(NamedTuple):
    """A reader, the name of the file it is given, and files that it reads."""

    name: str
    file: str
    read: Callable[[Path], object]
    samples: tuple[str | bytes, ...]


def _json(*values: object) -> tuple[str, ...]:
    return tuple(json.dumps(value) for value in values)


def _written(write: Callable[[Path], object], name: str) -> bytes:
    """What one of our writers writes."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _collectives() -> MeasuredCollectives:
    row = MeasuredCollective(
        algorithm="library", size=1048576.0, count=262144, iterations=20, seconds=1e-4, slowest=1e-4, wrong=0,
        in_place=None, in_place_wrong=None, algorithm_bandwidth=1e10, bus_bandwidth=2e10, messages=0, cpu=0.1, others=0.0,
    )  # fmt: skip
    return MeasuredCollectives(
        collective="all-reduce", ranks=8, local=8, backend="nccl", device="NVIDIA A100-SXM4-80GB", software="torch",
        hosts=("a",) * 8, processes=tuple(range(8)), cores=128, emulated=None, apart=False, warmup=1, message=1e-5,
        started="2026-01-01T00:00:00+00:00", rows=(row,),
    )  # fmt: skip


_PLAN: dict[str, Any] = {
    "tp": 1, "pp": 1, "dp": 1, "zero": 0, "shard": 0, "micro_batch": 1, "global_batch": 8, "virtual_stages": 1,
    "precision": "fp32", "recompute": "none", "sequence_parallel": False,
}  # fmt: skip


def _training() -> MeasuredTraining:
    return MeasuredTraining(
        model="gpt-tiny", changes={}, plan=_PLAN, sequence=64, all_reduce="library", exchange="bsp",
        staleness=None, late={}, data="text", seed=0, rate=1e-3, ranks=1, backend="gloo", device="CPU", software="torch",
        hosts=("a",), cores=2, emulated=None, started="2026-01-01T00:00:00+00:00", resumed=(), cpu=0.5, others=0.1,
        rows=(TrainedStep(step=0, loss=5.0, seconds=0.1), TrainedStep(step=1, loss=4.0, seconds=0.1)),
    )  # fmt: skip


def _telemetry() -> Telemetry:
    rows = (
        PortRow(
            port="node0/nic0 out", kind="adapter", values=(1e6, 2e6), capacity=1e10, busy=0.5, ranks="0-7"
        ),
        PortRow(port="rank 0", kind="compute", ranks="0", values=(0.1, 0.1)),
    )
    return Telemetry(source="simulated", job="gpt2", seconds=1.0, bins=2, ports=1, rows=rows)


def _run(run: Any) -> bytes:
    return _written(lambda path: write_run(path, run), "run.jsonl")


def _tensors(path: Path) -> None:
    tensors = [
        ("model.layers.0.mlp.up_proj.weight", "F32", (16, 8)),
        ("model.layers.0.mlp.down_proj.weight", "F32", (8, 16)),
        ("norm", "F16", (3,)),
    ]
    write_tensor_file(
        path,
        tensors,
        iter([np.ones(512, np.uint8), np.ones(512, np.uint8), np.ones(6, np.uint8)]),
        {"format": "pt"},
    )


def _manifest(root: Path) -> bytes:
    with saving(root, 3, layout={"dp": 1}, keep=0) as folder:
        (folder / "rank-0.bin").write_bytes(b"xyz")
    return (root / "step-3" / MANIFEST).read_bytes()


def _checkpoint(path: Path) -> object:
    """A checkpoint whose manifest is the file."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "step-3"
        folder.mkdir()
        (folder / "rank-0.bin").write_bytes(b"xyz")
        (folder / MANIFEST).symlink_to(path)
        return latest(Path(root)), opened(Path(root))


def _message(path: Path) -> object:
    """A message of a lab server that holds the bytes of the file."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.setblocking(False)
        theirs.send(read_start(path, 1 << 16))
        theirs.close()
        return receive_message(ours)


def _sent() -> bytes:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_message(theirs, {"do": "read"}, {"ids": np.arange(4), "rows": np.ones((2, 2))})
        return ours.recv(1 << 16)


class _Opener:
    """What answers with the content of a file instead of a server."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def open(self, *_: object, **__: object) -> Any:
        return opened_file(self.path)


def _prometheus(path: Path) -> object:
    """The series of a server that answers with the file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prometheus_api, "build_opener", lambda: _Opener(path))
        return prometheus_api.read_prometheus("http://localhost:9090", ["up"], 0.0, 10.0, 1.0)


def _shards_of(path: Path) -> object:
    """A file of podsim's checkpoints, alone in its folder."""
    with tempfile.TemporaryDirectory() as folder:
        for shard in (Path(folder) / "rank-0.safetensors",):
            shard.symlink_to(path)
        return shapes_of(Path(folder))


def _tables_checkpoint(path: Path) -> object:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "manifest.json").symlink_to(path)
        return checkpoint_step(Path(folder), (10, 20), 4)


def _rows_part(path: Path) -> object:
    """A server of embedding tables that takes its rows of a checkpoint."""
    with tempfile.TemporaryDirectory() as folder:
        return _store(Path(folder)).restore([path])


def _store(folder: Path) -> RowStore:
    shard = TableShard(rows=(10, 20), width=4, server=0, servers=1, cache=1.0, rate=0.1, seed=0)
    return RowStore(shard, folder, np.ones(3))


def _stored() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        store = _store(Path(folder))
        store.add(np.array([1, 12]), np.ones((2, 4)))
        store.write(Path(folder) / "part.npz")
        return (Path(folder) / "part.npz").read_bytes()


def _shards() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_shards(
            Path(folder),
            0,
            {"w": Shard(shape=(4, 2), offset=(0, 0), size=(4, 2))},
            {"w": np.ones((4, 2), np.float32)},
        )
        return (Path(folder) / "rank-0.safetensors").read_bytes()


_CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128,
    "model_type": "llama", "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
    "rope_scaling": {"factor": 8.0, "rope_type": "llama3"},
}  # fmt: skip
_MOE = {
    "architectures": ["MixtralForCausalLM"], "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_hidden_layers": 2, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128,
    "model_type": "mixtral", "num_experts_per_tok": 2, "num_local_experts": 4, "sliding_window": None,
}  # fmt: skip
_CLUSTER = """\
name = "mine"
inherits = "dgx-a100-80gb"
source = "us"
nodes = 4
[gpu]
memory = "80 GB"
[gpu.peaks]
bf16 = "300 TFLOP/s"
[network]
bandwidth = "200 Gb/s"
"""
_STUDY = """\
title = "x"
[common]
model = "gpt2"
tokens = "1G"
[grid]
gpus = [8, 16]
[[design]]
name = "A"
on = "dgx-a100-80gb:2"
set = { "network.bandwidth" = "100Gb/s" }
"""
_EXPERIMENT = """\
model = "gpt2"
on = "dgx-a100-80gb"
batch = 64
top = 3
[overrides]
"model.layers" = "4"
[plan]
tp = 2
pp = 1
dp = 4
micro_batch = 1
"""
_RANKING = {
    "arguments": {"model": "gpt2", "on": "dgx-a100-80gb", "batch": 64},
    "ranked": [{"prediction": {"gpus": 8, "plan": {"tp": 2, "dp": 4, "pp": 1, "global_batch": 64}}}],
}
_STEPS = "batch,steps\n64,1000\n128,600\n256,400\n"
_PHILLY = [{
    "jobid": "a", "submitted_time": "2017-10-01 00:00:00", "user": "u", "vc": "v", "status": "Pass",
    "attempts": [{"start_time": "2017-10-01 00:01:00", "end_time": "2017-10-01 00:11:00",
                  "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}],
}]  # fmt: skip
_JOBS = (
    "id,submit,gpus,seconds,user,limit,after,rank\na,100,2,60,ann,90,,0.5\nb,50,1,30,bob,,a,\nc,60,1,30,ann,20,a;b,1\n",
    "job_id,user,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue,vc\n"
    "1,u1,8,32,1,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:01:00,2020-04-01 01:01:00,3600,50,vcA\n"
    "2,u1,1,4,1,FAILED,2020-04-01 00:00:20,2020-04-01 00:00:20,2020-04-01 00:00:50,30,0,vcB\n",
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\n"
    "p0,1000,10,1,500,5,100,10\np1,1000,10,2,1000,6,200,20\n",
    "JobID|User|Submit|Start|End|ElapsedRaw|AllocTRES|State|Timelimit|ReqTRES|Elapsed|Priority\n"
    "1|a|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T01:01:00|3600|gres/gpu=8,node=1|COMPLETED|02:00:00|gres/gpu=8|"
    "01:00:00|5\n",
    gzip.compress(b"submit\tgpus\tseconds\n1\t2\t3\n"),
    json.dumps(_PHILLY),
)
_LLM = (
    "role,model,gpu,n_gpus,precision,seq_len,layers,hidden,heads,tp,pp,dp,micro_batch,global_batch,step_time_s\n"
    "test,GPT,A100-SXM4,8,bf16,2048,24,2048,16,4,1,2,4,64,1.25\ntest,GPT,A100-SXM4,8,bf16,2048,24,2048,16,4,1,2,4,64,1.5\n"
)
_SERVING = (
    "role,id,model,gpu,n_gpus,engine,precision,batch,tp,input_tokens,output_tokens,tokens_per_s_per_gpu,first_token_ms\n"
    "test,A,gpt-j-6b,h100-sxm5-80gb,1,tensorrt-llm-2023,fp8,64,1,128,128,2615,\n"
)
_SERVE = (
    "#!/bin/bash\nvllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 4 --max-num-seqs 64 --kv-cache-dtype fp8\n",
    "python -m sglang.launch_server --model-path x/y --tp 8 --mem-fraction-static 0.8 &\n"
    '# podsim: {"model": "llama-3.1-8b", "on": "dgx-h100:1", "plan": {"engine": "sglang", "tensor": 8}}\n',
    "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 2\n  template:\n    spec:\n      containers:\n"
    "      - name: server\n        command: [vllm, serve, m]\n        args: [--tensor-parallel-size, '2']\n",
)
_METRICS = (
    '# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu="0",hostname="n\\"1"} 61 1767571200.0\n'
    'DCGM_FI_DEV_GPU_TEMP{gpu="0",hostname="n\\"1"} 62 1767571215.0\nup 1 1767571200\n# EOF\n',
    'up{instance="a:9100"} 1 1767571200000\nup{instance="a:9100"} 0 1767571215000\n',
)
_SERIES = {
    "status": "success",
    "data": {"resultType": "matrix", "result": [{"metric": {"job": "a"}, "values": [[1.0, "1"], [2.0, "0"]]}]},
}  # fmt: skip
_VERIFIED = {
    "checks": [{"name": "write", "unit": "B/s", "measured": 1e12, "verdict": "ok"}],
    "parts": [{"name": "PCR 0", "expected": "-", "found": "ab", "verdict": "ok"}],
}
_TABLES = (
    "[[table]]\nname='user'\nrows=1_000_000\nwidth=64\npooling=20\nskew=0.9\n[[table]]\nname='ad'\nrows=10\nwidth=16\n",
    "rows = [10, 20]\nwidth = 4\n",
)
_TABLES_CSV = "name,num_embeddings,embedding_dim,pooling_factor,skew\nuser,1_000_000,64,20,0.9\nad,10,16,,\n"
_LOSSES = "params,tokens,loss,batch,lr\n1e7,1e9,4.0,64,1e-3\n1e8,1e9,3.5,64,1e-3\n1e8,1e10,3.1,128,3e-4\n"
_COUNTERS = (
    "/sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data:1000\n"
    "/sys/class/infiniband/mlx5_0/ports/1/counters/port_rcv_data:2000\n",
    "# Port counters: Lid 1 port 1\nPortXmitData:....................1000\nLinkDownedCounter:...............1\n",
    "NIC statistics:\n     tx_bytes_phy: 100\n     rx_bytes_phy: 200\n     link_down_events_phy: 0\n",
    "qdisc tbf 1: dev eth0 root refcnt 2 rate 1Gbit\n Sent 100 bytes 3 pkt (dropped 1, overlimits 0 requeues 0)\n"
    " backlog 0b 2p requeues 0\n",
    json.dumps([{"kind": "tbf", "dev": "eth0", "root": True, "bytes": 100, "drops": 0, "qlen": 2}]),
    json.dumps({"version": "2.4", "pg_config": {"0": {"ranks": "[0, 1]"}}, "entries": [
        {"profiling_name": "nccl:all_reduce", "collective_seq_id": 1, "time_created_ns": 1000, "state": "completed",
         "duration_ms": 0.5, "input_sizes": [[4]], "process_group": ["0", "dp"]}]}),
    pickle.dumps({"version": "2.4", "entries": [{"profiling_name": "nccl:all_reduce", "time_created_ns": 1000}]}, 2),
)  # fmt: skip


def _parquet(columns: dict[str, list[Any]]) -> tuple[bytes, ...]:
    if find_spec("pyarrow") is None:
        return (b"PAR1",)
    pyarrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    return (_written(lambda path: parquet.write_table(pyarrow.table(columns), path), "t.parquet"),)


@cache
def readers() -> tuple[Reader, ...]:
    """All readers, by name."""
    made = (*_timelines(), *_machines(), *_runs(), *_tables(), *_servings(), *_queues(), *_plans())
    assert len({reader.name for reader in made}) == len(made)
    return made


def _timelines() -> Iterator[Reader]:
    chrome = json.dumps(profile(events()))
    ours = pipeline(2, 2, 1)
    yield Reader(
        "chrome trace",
        "t.json",
        read_timeline,
        (chrome, _written(partial(write_timeline, ours), "t.json.gz")),
    )
    yield Reader(
        "perfetto trace", "t.pftrace", read_timeline, (_written(partial(write_timeline, ours), "t.pftrace"),)
    )
    yield Reader(
        "kineto trace",
        "t.json",
        partial(read_kineto, cpu=True),
        (chrome, json.dumps(profile(events(1, named=False)))),
    )
    yield Reader("counters and flight recorders", "rank_0", read_counters, (*_COUNTERS, chrome))
    kept = (_run(_telemetry()), _run(_training()))
    yield Reader("record of a run, asked why", "run", lambda path: why(run=path), (*kept, *_COUNTERS))
    graph = json.loads((ROOT / "examples/modules/resnet50.json").read_text("utf-8"))
    graph["ops"] = graph["ops"][:4]
    yield Reader("captured graph", "g.json", read_graph, _json(graph))
    known = _written(lambda path: write_chakra([trace()], path.with_name("t")), "t.3.et")
    yield Reader("chakra trace", "t.et", lambda path: chakra(traces=(path,)), (known, gzip.compress(known)))


def _machines() -> Iterator[Reader]:
    yield Reader(
        "nvidia-smi of mig",
        "smi.txt",
        lambda path: mig_state(file=path),
        (mig.LGI, mig.LIST),
    )
    parted = parted_text({"all": make_parted([read_layout(mig.A100, "1g.5gb@2 3g.20gb@4")])})
    yield Reader("mig-parted", "c.yaml", lambda path: mig_check(file=str(path), gpu="a100-40gb"), (parted,))
    yield Reader("topology xml", "t.xml", read_server, (topology.ndv4(), topology.dump(2)))
    yield Reader("nvidia-smi topo", "t.txt", read_server, (topo.A100, topo.DGX_1V))
    yield Reader(
        "cluster toml",
        "c.toml",
        lambda path: load_cluster(str(path)),
        (_CLUSTER, (ROOT / "tests/hardware/data/host.toml").read_text("utf-8")),
    )
    yield Reader("model config", "config.json", load_model, _json(_CONFIG, _MOE))
    yield Reader("health dump", "smi.txt", lambda path: health_parts([path], path.parent / "none"),
                 (health.GPU.format(slot="0F", **health.SOUND) * 2, _COUNTERS[1]))  # fmt: skip
    yield Reader("trend file", "v.json", _trends, _json(_VERIFIED))
    yield Reader("exposition", "m.txt", read_metrics, _METRICS)
    yield Reader("prometheus reply", "r.json", _prometheus, _json(_SERIES))
    yield Reader("schedule csv", "s.csv", lambda path: schedule(str(path)), (to_csv(build("1f1b", 2, 1, 4)),))


def _runs() -> Iterator[Reader]:
    kept = (_run(_collectives()), _run(_training()), _run(_telemetry()))
    yield Reader("record of a run", "run.jsonl", read_run, kept)
    yield Reader("measured network", "run.jsonl", read_network, kept[:1])
    yield Reader("measured batches", "run.csv", lambda path: scale_batch(source=str(path)), (_STEPS,))
    rows = (_LLM, _SERVING, nccl.NEW, kept[0], kept[1], gzip.compress(_LLM.encode()))
    yield Reader("rows to validate", "all_reduce.csv", lambda path: validate(rows=path), rows)
    log = (nccl.NEW, nccl.OLD, nccl.GATHER)
    yield Reader("nccl-tests log", "all_reduce.log", read_any, log)
    rank = {"rank": 0, "host": "a", "pid": 1, "device": 0, "device_name": "NVIDIA A100-SXM4-80GB"}
    moved = {"time": 100.0, "alg_bw": 1.0, "bus_bw": 1.0, "nwrong": 0}
    result = {
        "size": 1048576,
        "count": 262144,
        "type": "float",
        "redop": "sum",
        "root": -1,
        "out_of_place": moved,
    }
    results = {"nccl_version": "2.18", "args": ["all_reduce_perf"], "ranks": [rank] * 8, "results": [result]}
    yield Reader(
        "nccl-tests against",
        "all_reduce.log",
        lambda path: against_log(path, on="dgx-a100-80gb:2", collective="all-reduce"),
        (nccl.NEW, *_json(results)),
    )
    yield Reader(
        "checkpoint manifest",
        "m.json",
        _checkpoint,
        (_written(lambda path: path.write_bytes(_manifest(path.parent)), "m.json"),),
    )
    yield Reader(
        "manifest of tables",
        "m.json",
        _tables_checkpoint,
        _json({"format": "podsim-tables", "step": 3, "rows": [10, 20], "width": 4, "files": []}),
    )
    yield Reader("part of tables", "p.npz", _rows_part, (_stored(),))
    yield Reader("message of a server", "m.bin", _message, (_sent(),))
    yield Reader(
        "safetensors", "w.safetensors", lambda path: prune(file=path), (_written(_tensors, "w.safetensors"),)
    )
    yield Reader("shards", "rank-0.safetensors", _shards_of, (_shards(),))
    clicks = {"label": [0, 1], "I1": [None, 3], "C1": [7, 7], "C2": ["a", None]}
    text = "label,I1,C1,C2\n0,1,a,b\n1,,7,c\n"
    yield Reader("clicks csv", "c.csv", partial(read_clicks, rows=(10, 1000)), (text,))
    yield Reader("clicks parquet", "c.parquet", partial(read_clicks, rows=(10, 1000)), _parquet(clicks))


def _tables() -> Iterator[Reader]:
    yield Reader("embedding tables toml", "t.toml", read_tables, _TABLES)
    yield Reader("embedding tables csv", "t.csv", read_tables, (_TABLES_CSV,))
    yield Reader(
        "embedding tables parquet",
        "t.parquet",
        read_tables,
        _parquet({"name": ["a"], "rows": [10], "width": [4]}),
    )
    yield Reader("losses", "runs.csv", read_runs, (_LOSSES, gzip.compress(_LOSSES.encode())))
    yield Reader("law of losses", "law.json", read_law, (law_text(find_law("hoffmann")),))
    fio = tuple(
        (ROOT / "tests/storage/data" / name).read_text("utf-8")
        for name in ("fio_randread.json", "fio_randrw.json")
    )
    yield Reader("fio", "f.json", read_fio, fio)
    yield Reader("mdtest", "m.txt", read_mdtest, (mdtest.NEW, mdtest.OLD))


def _benchmarks() -> tuple[str, ...]:
    profiled = "\n".join(json.dumps(benchmarks._profile(k)) for k in range(2))
    made = _json(
        benchmarks.VLLM, benchmarks.DETAILED, benchmarks.SGLANG, benchmarks.METRICS, benchmarks.TRTLLM
    )
    cells = (
        "Metric,avg,p99\nTime To First Token (ms),30,48\n\nMetric,Value\nRequest Throughput (per sec),5.5\n"
    )
    return (*made, profiled, benchmarks.SUMMARY, cells)


def _servings() -> Iterator[Reader]:
    yield Reader("serving rows", "s.csv", read_serving, (_SERVING,))
    yield Reader("serving benchmark", "b.json", read_benchmarks, _benchmarks())
    bailian = '{"chat_id": 1, "timestamp": 2.5, "input_length": 9, "output_length": 0, "type": "t{", "hash_ids": [7]}\n'
    given = (
        traces.AZURE,
        traces.MOONCAKE,
        bailian,
        gzip.compress(traces.AZURE.encode()),
        json.dumps(benchmarks.DETAILED),
    )
    yield Reader("serving trace", "t.csv", read_requests, given)
    yield Reader("ensemble", "e.toml", read_ensemble, ((ROOT / "examples/ensemble.toml").read_text("utf-8"),))
    yield Reader("deployment", "serve.sh", read_serving_plan, _SERVE)
    yield Reader(
        "request of a page",
        "q.json",
        lambda path: read_request(read_start(path, 1 << 20)),
        _json({"model": "gpt2", "tp": 1}),
    )


def _queues() -> Iterator[Reader]:
    yield Reader("jobs of a queue", "jobs.csv", lambda path: read_jobs(str(path)), _JOBS)
    yield Reader(
        "nodes of openb",
        "n.csv",
        read_nodes,
        ("cpu_milli,memory_mib,gpu,model\n64000,262144,8,A\n32000,1024,0,\n",),
    )
    yield Reader(
        "pods of openb",
        "p.csv",
        partial(read_pods, models=("A",)),
        ("cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n1000,10,1,500,A|B\n1000,10,2,1000,\n",),
    )
    yield Reader(
        "squeue",
        "q.txt",
        lambda path: _slurm(path, slurm.SINFO, True),
        (slurm.SQUEUE, slurm.PIPES, slurm.JOBS),
    )
    yield Reader(
        "sinfo",
        "n.txt",
        lambda path: _slurm(path, slurm.SQUEUE, False),
        (slurm.SINFO, slurm.GRES, slurm.NODES),
    )


def _plans() -> Iterator[Reader]:
    for tool in TOOLS:
        texts = [text for _, text in islice(written(tool, 2), 2)]
        bare = ["\n".join(line for line in text.splitlines() if "podsim:" not in line) for text in texts]
        yield Reader(f"launch file of {tool}", "job.txt", partial(_launched, tool), (*texts, *bare))
    yield Reader(
        "plan file", "plan.toml", lambda path: read_plan_file(str(path)), (_EXPERIMENT, *_json(_RANKING))
    )
    yield Reader("ranking", "plans.json", lambda path: read_plan_file(str(path)), _json(_RANKING))
    yield Reader("experiment", "e.toml", read_experiment, (_EXPERIMENT,))
    yield Reader("study", "s.toml", read_study, (_STUDY,))


def _launched(tool: str, path: Path) -> object:
    """What a launch file starts, read as `podsim launch --read` and `--plan` do."""
    with suppress(PodsimError):
        launch(read=str(path), tool=tool, gpus=8)
    return read_plan_file(str(path))


def _slurm(path: Path, other: str, is_queue: bool) -> object:
    """When jobs start, by a file of Slurm and a whole one of the other kind."""
    beside = path.with_name("other.txt")
    beside.write_text(other, "utf-8")
    first, second = (path, beside) if is_queue else (beside, path)
    return queue(squeue=str(first), sinfo=str(second))


def _trends(path: Path) -> object:
    """What an earlier run says of this one."""
    figure = Figure(group="storage", name="write", unit="B/s", how="fio", basis="")
    now = check(figure, THRESHOLDS["trend"], measured=1e9, expected=1e9)
    part = Part(name="PCR 0", expected="-", found="ab", verdict="ok", source="")
    last = read_earlier(path)
    return [*trend_checks([now], [last]), *trend_parts([part], last)]
