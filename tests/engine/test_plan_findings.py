from __future__ import annotations

from firstfault.engine.plan_findings import PlanKnown, _may_hold, findings, with_findings
from firstfault.knowledge.pack import load_pack
from firstfault.launch.plan import plan
from firstfault.model.fact import Fact, FactSet
from firstfault.model.plan import PlanFinding
from launch_requests import request

PACK = load_pack()
CONFIG = 'compute_environment: LOCAL_MACHINE\ndistributed_type: "NO"  # one process\nnum_machines: 1\nnum_processes: 1\n'


def found(line: str, **known: object) -> dict[str, PlanFinding]:
    asked = request(line, **known)  # type: ignore[arg-type]
    return {one.entry: one for one in findings(plan(asked), asked, PACK)}


def test_a_finding_has_its_line_and_a_change_of_that_file() -> None:
    one = found("accelerate launch --config_file c.yaml train.py", files={"c.yaml": CONFIG})["trainer-implicit-dataparallel"]
    assert (one.where, one.verdict) == ("c.yaml:2", "likely")
    change = next(fix for fix in one.fix if fix.applies)
    assert '-distributed_type: "NO"  # one process\n+distributed_type: MULTI_GPU  # one process\n' in change.text


def test_the_command_of_a_fix_is_the_one_that_was_typed() -> None:
    one = found("python train.py --lr 1")["trainer-implicit-dataparallel"]
    assert any(fix.text == "CUDA_VISIBLE_DEVICES=0 python train.py --lr 1" for fix in one.fix)


def test_a_script_without_a_trainer_is_not_suspected() -> None:
    script = "from accelerate import Accelerator\naccelerator = Accelerator()\n"
    assert found("python train.py", files={"train.py": script}) == {}


def test_an_entry_gives_way_to_the_one_that_refines_it() -> None:
    config = "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 4\nnonsense: 1\n"
    assert list(found("accelerate launch --config_file c.yaml train.py", files={"c.yaml": config})) == [
        "launcher-config-unknown-keys"
    ]


def test_without_a_count_each_variant_has_its_own_findings() -> None:
    asked = request("python train.py", gpus=None)
    made = with_findings(plan(asked), asked, PACK)
    assert not made.findings
    assert [count for count, variant in made.variants.items() if variant.findings] == [2, 4, 8]


def test_ranks_before_the_command_are_meant() -> None:
    line = "env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.0.0.4 MASTER_PORT=29500 python train.py"
    assert "stale-rank-variables" not in found(line)


def test_what_is_certain_is_said_once() -> None:
    script = {"train.py": "from transformers import Trainer\nTrainer(model=m).train()\n"}
    asked = request("python train.py", files=script)
    found = next(one for one in findings(plan(asked), asked, PACK) if one.entry == "trainer-implicit-dataparallel")
    assert (found.verdict, found.text.count("no LOCAL_RANK")) == ("established", 1)


def test_a_condition_is_left_unread_only_where_a_fact_of_a_conjunction_is_unknown() -> None:
    facts = FactSet()
    facts.add(Fact(name="launch.processes", value=2, origin="given"))
    known = PlanKnown(facts, (), PACK)
    may_hold = {
        "launch.processes > 1": True,
        "launch.processes > 1 and launch.visible_gpus > 1": False,
        "launch.processes > 1 or launch.visible_gpus > 1": True,
        "not launch.visible_gpus > 1": True,
        "0.5 * launch.visible_gpus > 1": True,
        "plan.stops": False,
    }
    assert {text: _may_hold(text, known) for text in may_hold} == may_hold
