"""The example's files for launchers: each starts torchrun on a machine with arguments that train.py has. The launchers
themselves are not needed: programs of their names print their arguments."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "three_clouds"
ARGUMENTS = ["--data", "s3://bucket/tokens", "--checkpoints", "s3://bucket/run", "--shards"]

yaml = pytest.importorskip("yaml")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Function that runs a command with variables; returns the arguments that torchrun gets."""
    program(tmp_path / "torchrun", f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")

    def run(command, **variables):
        inherited = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        ended = subprocess.run(
            command, env=inherited | variables, cwd=EXAMPLE, capture_output=True, text=True, check=False, timeout=600
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)


def started(machines, machine, ranks, head):
    """Arguments of torchrun on a machine, up to the arguments of train.py."""
    numbers = ["--nnodes", str(machines), "--node-rank", str(machine), "--nproc-per-node", str(ranks)]
    return [*numbers, "--master-addr", head, "--master-port", "29500", "train.py", *ARGUMENTS]


def test_torchrun_alone(run):
    folders = ["s3://bucket/tokens", "s3://bucket/run", "/shards"]
    assert run(["./torchrun.sh", *folders]) == started(1, 0, 1, "127.0.0.1") + ["/shards"]
    machine = {"MACHINES": "2", "MACHINE": "1", "HEAD": "10.0.0.1", "RANKS": "2"}
    found = run(["./torchrun.sh", *folders, "--epochs", "5"], **machine)
    assert found == started(2, 1, 2, "10.0.0.1") + ["/shards", "--epochs", "5"]


def test_slurm(run, tmp_path):
    program(tmp_path / "scontrol", '#!/bin/sh\n[ "$*" = "show hostnames n[7-8]" ] && printf "n7\\nn8\\n"\n')
    program(tmp_path / "srun", '#!/bin/sh\nSLURM_NODEID=1 exec "$@"\n')
    (tmp_path / "torchrun.sh").symlink_to(EXAMPLE / "torchrun.sh")
    (tmp_path / "store.env").write_text("AWS_REGION=auto\n")
    (tmp_path / "train.py").symlink_to(EXAMPLE / "train.py")
    job = {"SLURM_SUBMIT_DIR": str(tmp_path), "SLURM_JOB_NODELIST": "n[7-8]", "SLURM_JOB_NUM_NODES": "2"}
    found = run(["./slurm.sh"], DATA="s3://bucket/tokens", CHECKPOINTS="s3://bucket/run", **job)
    assert found == started(2, 1, 2, "n7") + ["/tmp/three-clouds-shards"]


def test_kubernetes(run):
    service, job = yaml.safe_load_all((EXAMPLE / "kubernetes.yaml").read_text())
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    variables = {variable["name"]: variable["value"] for variable in container["env"]}
    # A pod of an indexed job is found as its job's name and its index under the name of the service.
    name = f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == int(variables["MACHINES"])
    found = run(container["command"], JOB_COMPLETION_INDEX="2", **variables)
    assert found == started(3, 2, 1, name) + [container["volumeMounts"][0]["mountPath"]]


def test_skypilot(run, tmp_path):
    task = yaml.safe_load((EXAMPLE / "skypilot.yaml").read_text())
    machine = {"SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": "1", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"}
    found = run(["bash", "-c", task["run"]], **machine, **task["envs"])
    assert found == started(task["num_nodes"], 1, 2, "10.0.0.1") + [f"{tmp_path}/shards"]
