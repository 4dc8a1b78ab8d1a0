"""Several runs of three cities in one boot of the virtual machine."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from experiments.planning import plan_experiment
from experiments.results import create_run, write_manifest
from experiments.run import make_runtime
from experiments.sources import load_config
from testbed.virtualtime.kernel import ensure_kernel

ROOT = Path(__file__).parents[2]
LIMIT_S = 1800
TOPOLOGY = """
name: three
cities:
  - {code: aaa, name: Aaa, region: r, lat: 0, lon: 0}
  - {code: bbb, name: Bbb, region: r, lat: 0, lon: 1}
  - {code: ccc, name: Ccc, region: r, lat: 0, lon: 2}
links:
  - {a: aaa, b: bbb, delay_ms: 3, rate_gbps: 100}
  - {a: bbb, b: ccc, delay_ms: 4, rate_gbps: 100}
  - {a: aaa, b: ccc, delay_ms: 5, rate_gbps: 100}
"""
SCHEDULE = "name: all\nrounds:\n  - [[aaa, bbb, ccc]]\n"


def run_in_one_boot(folder: Path, configs: Mapping[str, str]) -> dict[str, Path]:
    """Run configs, by name; returns their run folders, to be analysed.

    A config may say ``{folder}`` for where ``three.yaml`` and ``all.yaml`` are.
    """
    (folder / "three.yaml").write_text(TOPOLOGY)
    (folder / "all.yaml").write_text(SCHEDULE)
    made = {name: _prepare(folder, name, text) for name, text in configs.items()}
    script = f'for run in "$@"; do {sys.executable} -m experiments.emulate "$run" || exit 1; done'
    options = ("--kernel", str(ensure_kernel()), "--writable", str(folder), "--memory", "2048")
    done = subprocess.run(
        [sys.executable, "-m", "testbed.virtualtime", *options, "--wall-limit", str(LIMIT_S),
         "--", "/bin/sh", "-c", script, "sh", *map(str, made.values())],
        cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def _prepare(folder: Path, name: str, text: str) -> Path:
    """The folder of a run that is planned and can be emulated."""
    file = folder / f"{name}-config.yaml"
    file.write_text(f"topology: {folder}/three.yaml\n{text.replace('{folder}', str(folder))}")
    config = load_config(str(file), {}).at_clock("virtual")
    plan = plan_experiment(config)
    run_dir = create_run(folder / name, config)
    plan.write(run_dir / "plan.json")
    make_runtime(config, plan, run_dir).write(run_dir / "runtime.json")
    write_manifest(run_dir, config, kernel="", extra={})
    return run_dir
