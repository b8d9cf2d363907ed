from __future__ import annotations

import pytest

from firstfault.launch.plan import plan
from firstfault.model.plan import Plan
from firstfault.render.layout import cells
from firstfault.render.plan import render_plan
from golden_file import check
from launch_requests import request

CONFIG = """\
compute_environment: LOCAL_MACHINE
debug: true
distributed_type: "NO"
downcast_bf16: "no"
dynamo_config:
  dynamo_backend: INDUCTOR
enable_cpu_affinity: false
fsdp_config:
  fsdp_activation_checkpointing: false
  fsdp_cpu_ram_efficient_loading: true
machine_rank: 0
mixed_precision: "no"
num_machines: 1
num_processes: 1
rdzv_backend: static
same_network: true
"""


def made(line: str, **known: object) -> Plan:
    return plan(request(line, files={"default.yaml": CONFIG}, **known))  # type: ignore[arg-type]


PLANS = {
    "one-process": made("accelerate launch --config_file default.yaml train.py"),
    "several": made("RANK=3 accelerate launch --multi_gpu --num_processes 16 --gpu_ids 0,1 train.py --lr 1"),
    "stops": made("accelerate launch --multi_gpu --num_processes 1 train.py"),
    "unknown": made("accelerate launch train.py", gpus=None, versions={}),
    "torchrun": made("torchrun --nproc_per_node 2 --nnodes 1:2 train.py"),
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", PLANS)
def test_golden(name: str, width: int) -> None:
    check(f"plan-{name}-{width}.txt", render_plan(PLANS[name], width=width))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("width", [40, 60, 80])
def test_no_line_is_wider_than_asked(name: str, width: int) -> None:
    assert all(cells(line) <= width for line in render_plan(PLANS[name], width=width).splitlines())


def test_a_hostile_value_cannot_drive_the_terminal() -> None:
    text = render_plan(made("accelerate launch --gpu_ids '\x1b[2J\u202e' train.py"), ascii=True)
    assert text.isascii()
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("line", "arguments", "said"),
    [
        (
            "python lit.py",
            "devices=2, strategy='ddp'",
            "Lightning's Trainer takes 2 devices (cuda), strategy ddp, and starts 1 more process itself: 2 in all",
        ),
        ("python lit.py", "devices=1", "Lightning's Trainer takes 1 device (cuda), strategy single_device"),
        ("python lit.py", "devices=args.n", "Lightning's Trainer decides its devices by what is not known here"),
        ("torchrun --nproc_per_node 2 lit.py", "devices=4", "then Lightning's Trainer stops with ValueError: "),
    ],
)
def test_what_lightning_makes_of_the_start_is_said(line: str, arguments: str, said: str) -> None:
    script = {"lit.py": f"import lightning as L\ntrainer = L.Trainer({arguments})\n"}
    text = " ".join(render_plan(plan(request(line, files=script)), width=120, color=False, ascii=True).split())
    assert said in text
    assert "transformers.Trainer" not in text
