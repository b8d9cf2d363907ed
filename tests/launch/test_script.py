"""Launch commands in scripts and behind wrappers."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.launch.script import launch_of, read_script
from firstfault.launch.values import Given
from firstfault.launch.wrappers import Command, unwrap


def _only(text: str) -> Command:
    (command,) = read_script(text, name="run.sh")
    return command


def _values(command: Command) -> dict[str, object]:
    return {name: given.value for name, given in command.environment.items()}


def test_variables_lists_and_continuations_are_put_together() -> None:
    command = _only(
        "GPUS=4\nNODES=${NODES:-2}\nARGS=(\n  --nproc_per_node $GPUS  # of a node\n  --nnodes $NODES\n)\n"
        'MORE="\n  --rdzv_backend c10d \\\n  --rdzv_id 7\n"\n'
        "CUDA_VISIBLE_DEVICES=0,1 torchrun ${ARGS[@]} $MORE \\\n  train.py --n $((GPUS * NODES))\n"
    )
    assert command.words == (
        "torchrun", "--nproc_per_node", "4", "--nnodes", "2", "--rdzv_backend", "c10d", "--rdzv_id", "7",
        "train.py", "--n", "8",
    )  # fmt: skip
    assert command.where == "run.sh:11"
    assert _values(command) == {"CUDA_VISIBLE_DEVICES": "0,1"}
    assert any("NODES is not set" in note for note in command.notes)


def test_only_exported_variables_reach_the_command_with_their_line() -> None:
    command = _only("A=1\nexport B=2\nC=3\nexport C\nexport D=4\nunset D\nset -a\nE=5\npython train.py\n")
    assert _values(command) == {"B": "2", "C": "3", "E": "5"}
    assert command.environment["B"].where == "B at run.sh:2"


def test_what_a_command_prints_is_not_known() -> None:
    command = _only("N=$(nvidia-smi -L | wc -l)\ntorchrun --nproc_per_node=$N train.py\n")
    assert command.words[1] == "--nproc_per_node=$(nvidia-smi -L | wc -l)"


def test_branches_that_differ_leave_a_variable_unknown() -> None:
    command = _only("if [ $1 ]; then\nN=4\nelse\nN=8\nfi\ntorchrun --nproc_per_node $N train.py\n")
    assert command.words[2] == "${N}"


def test_a_loop_is_planned_for_its_first_turn_and_says_so() -> None:
    command = _only("for g in 3 4; do CUDA_VISIBLE_DEVICES=$g python train.py & done\n")
    assert _values(command) == {"CUDA_VISIBLE_DEVICES": "3"}
    assert any("loop" in note for note in command.notes)


def test_documents_and_comments_are_no_commands() -> None:
    assert read_script("cat > x <<EOF\ntorchrun a.py\nEOF\n# torchrun b.py\necho 'torchrun c.py'\n", name="run.sh") == ()


def test_a_document_for_sbatch_is_read() -> None:
    commands = read_script("sbatch <<'EOF'\n#SBATCH --nodes=2\ntorchrun a.py\nEOF\n", name="run.sh")
    assert [command.words for command in commands] == [("torchrun", "a.py")]


def test_options_of_sbatch_become_the_variables_of_the_job() -> None:
    command = _only("#SBATCH --nodes=2\n#SBATCH -n 8\n#SBATCH --gres=gpu:4\ntorchrun --nnodes $SLURM_NNODES train.py\n")
    assert command.words[2] == "2"
    assert _values(command)["SLURM_NTASKS"] == "8"
    assert any("on the first of its 2 nodes only" in note for note in command.notes)


def test_the_launch_is_the_last_launcher_and_the_others_are_named() -> None:
    text = "python -m pip install x\npython prepare.py\ntorchrun train.py\npython report.py\npython -c 'print(1)'\n"
    chosen = launch_of(read_script(text, name="run.sh"))
    assert chosen is not None and chosen.words == ("torchrun", "train.py")
    assert any("run.sh:2" in note and "run.sh:4" in note for note in chosen.notes)


def test_arguments_of_the_script_are_not_known() -> None:
    assert any("$@" in note for note in _only('torchrun "$@"\n').notes)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nohup time stdbuf -oL nice -n 5 timeout -k 5 10m python -u train.py", "python -u train.py"),
        ("env -u RANK python train.py", "python train.py"),
        ("uv run --with torch -p 3.12 -- torchrun train.py", "torchrun train.py"),
        ("poetry run accelerate launch train.py", "accelerate launch train.py"),
        ("conda run -n env --no-capture-output python train.py", "python train.py"),
        ("numactl --cpunodebind 0 python train.py", "python train.py"),
        ("taskset -c 0-3 python train.py", "python train.py"),
        ("nsys profile -o out -t cuda python train.py", "python train.py"),
        ("singularity exec --nv -B /data image.sif torchrun train.py", "torchrun train.py"),
        ("docker run --rm --gpus all -v a:b image torchrun train.py", "torchrun train.py"),
        ("ssh -p 22 node-1 'cd x && torchrun train.py'", "torchrun train.py"),
        ("bash -lc 'cd x; python train.py'", "python train.py"),
        ("kubectl exec -n ns pod -- python train.py", "python train.py"),
        ("srun -N 2 python train.py", "srun -N 2 python train.py"),
    ],
)
def test_programs_that_only_run_the_command_are_taken_off(line: str, words: str) -> None:
    (command,) = unwrap(shlex.split(line), {})
    assert " ".join(command.words) == words


def test_variables_stop_at_ssh_and_at_a_container_unless_handed_on() -> None:
    outer = {"A": Given("1", "variable", "A"), "B": Given("2", "variable", "B")}
    (remote,) = unwrap(["ssh", "h", "python train.py"], outer)
    assert remote.environment == {} and any("ssh takes no variable" in note for note in remote.notes)
    (inside,) = unwrap(["docker", "run", "-e", "A", "-e", "C=3", "image", "python", "t.py"], outer)
    assert _values(inside) == {"A": "1", "C": "3"}
    (emptied,) = unwrap(["env", "-i", "B=5", "python", "t.py"], outer)
    assert _values(emptied) == {"B": "5"}
    (without,) = unwrap(["env", "-u", "A", "python", "t.py"], outer)
    assert set(without.environment) == {"B"}


@pytest.mark.parametrize(
    "line", ["", "ls", "pip install x", "python", "python -c 'x'", "accelerate config", "python -m pip x", "env"]
)
def test_what_starts_no_training_is_no_command(line: str) -> None:
    assert unwrap(shlex.split(line), {}) == ()


def test_a_script_that_runs_itself_is_read_to_a_depth() -> None:
    found = read_script("bash a.sh\npython train.py\n", name="a.sh", read={"a.sh": "bash a.sh\n"}.get)
    assert [command.words for command in found] == [("python", "train.py")]


def test_nested_shells_end() -> None:
    files = {f"s{index}.sh": f"bash s{index + 1}.sh\n" for index in range(30)} | {"s30.sh": "python t.py\n"}
    assert unwrap(["bash", "s28.sh"], {}, read=files.get) != ()
    assert unwrap(["bash", "s0.sh"], {}, read=files.get) == ()


def test_a_quote_left_open_costs_only_its_own_lines() -> None:
    text = "echo 'open\n" + "x\n" * 1_000 + "torchrun train.py\n"
    commands = read_script(text, name="run.sh")
    assert [command.words for command in commands] == [("torchrun", "train.py")]
    assert any("not closed" in note for note in commands[0].notes)


def test_a_huge_script_is_read_to_a_bound() -> None:
    text = "torchrun a.py\n" + "export A='\n" * 900_000
    commands = read_script(text, name="run.sh")
    assert commands[0].words == ("torchrun", "a.py")
    assert any("only the first" in note for note in commands[0].notes)


@given(st.text(alphabet="torchun pyEOF$(){}[]'\"\\\n<>=;&|#@*-:1", max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    read_script(text, name="run.sh")
