"""What a training script's syntax tree says, and that nothing is said which it does not show."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.ingest.script import PRODUCES, read_script
from firstfault.ingest.structure import read_structure
from reader_lines import context, lines


def reading(text, path="train.py"):
    found = read_script(text, lines(text), context(path, "python"))
    assert {fact.name for fact in found.facts} <= set(PRODUCES)
    assert all(fact.spans for fact in found.facts)
    return found


def facts(text):
    return {fact.name: fact.value for fact in reading(text).facts}


def shown(text, name):
    """Value and deciding line of a fact, None if nothing is said."""
    fact = next((fact for fact in reading(text).facts if fact.name == name), None)
    return None if fact is None else (fact.value, fact.spans[0].line)


WINDOW = "script.backward_after_window"
SUM_OF_A_WINDOW = """
for step, window in enumerate(windows):
    total = 0
    for micro_batch in window:
        total = total + model(**micro_batch).loss / 8
    total.backward()
    optimizer.step()
"""
STORED = """
def train(model, loader, optimizer):
    {begin}
    for batch in loader:
        outputs = model(batch)
        loss = outputs.loss
        loss.backward()
        optimizer.step()
        {keep}
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (SUM_OF_A_WINDOW, 6),
        # the window ends where a count says so
        (
            "for i, batch in enumerate(loader):\n    loss = model(batch).loss\n    total = total + loss\n"
            "    if (i + 1) % 8 == 0:\n        total.backward()\n        optimizer.step()\n        total = 0\n",
            5,
        ),
        # a list instead of a sum, the loss in a function of the script
        (
            "def one(batch):\n    return criterion(net(batch), batch)\nfor window in windows:\n    losses = []\n"
            "    for batch in window:\n        losses.append(one(batch))\n    torch.stack(losses).mean().backward()\n",
            7,
        ),
        (
            "for window in windows:\n    total = 0\n    for batch in window:\n        total += compute(model, batch)\n"
            "    accelerator.backward(total)\n",
            5,
        ),
    ],
)
def test_one_backward_for_several_micro_batches(text, line):
    assert shown(text, WINDOW) == (True, line)


@pytest.mark.parametrize(
    "text",
    [
        # the terms of one loss
        "for batch in loader:\n    out = model(batch)\n    total = 0\n    for name, term in terms.items():\n"
        "        total += term(out, batch)\n    total.backward()\n",
        # time steps of a recurrent model
        "for seq in loader:\n    loss = 0\n    for t in range(n):\n        out, h = model(seq[:, t], h)\n"
        "        loss += criterion(out, seq[:, t + 1])\n    loss.backward()\n",
        # a sum for the log, each micro-batch with its own backward
        "for window in windows:\n    total = 0\n    for batch in window:\n        loss = model(batch)\n"
        "        loss.backward()\n        total += loss\n    total.backward()\n",
        # numbers
        "for window in windows:\n    total = 0\n    for batch in window:\n        total += model(batch).item()\n"
        "    total.backward()\n",
        # no graph is recorded
        "for window in windows:\n    total = 0\n    with torch.no_grad():\n        for batch in window:\n"
        "            total += model(batch)\n    total.backward()\n",
    ],
)
def test_other_sums_are_no_window(text):
    assert shown(text, WINDOW) is None


def test_a_backward_in_every_round_is_said_of_a_whole_file_only():
    loop = "for batch in loader:\n    loss = model(batch)\n    loss.backward()\n"
    assert shown(f"def train(model, loader):\n    {loop.replace(chr(10), chr(10) + '    ')}", WINDOW) == (False, 4)
    assert shown(loop, WINDOW) is None, "`model` and `loader` come from what was left out"
    elided = (
        "def train(model, loader):\n    ...\n    for batch in loader:\n        loss = model(batch)\n        loss.backward()\n"
    )
    assert shown(elided, WINDOW) is None


@pytest.mark.parametrize(
    ("begin", "keep"),
    [
        ("total = 0.0", "total += loss"),
        ("total = 0", "total = total + loss / 4"),
        ("history = []", "history.append(loss)"),
        ("history: list = []", "history.append(outputs.logits)"),
    ],
)
def test_a_loss_that_is_stored_with_its_graph(begin, keep):
    assert shown(STORED.format(begin=begin, keep=keep), "script.loss_kept") == (True, 9)


@pytest.mark.parametrize(
    ("begin", "keep"),
    [
        ("total = 0.0", "total += loss.item()"),
        ("total = 0.0", "total += float(loss)"),
        ("history = []", "history.append(loss.detach())"),
        ("history = []", "history.append(outputs.logits.argmax(-1))"),
        ("history = []", "history.append(batch)"),
        ("history = deque(maxlen=10)", "history.append(loss)"),
        ("history = []", "history.append(loss); history.clear()"),
        ("history = []", "history = []; history.append(loss)"),
    ],
)
def test_what_leaves_no_graph_behind(begin, keep):
    assert shown(STORED.format(begin=begin, keep=keep), "script.loss_kept") is None


def test_a_sum_within_one_step_is_not_kept_across_steps():
    text = "for window in windows:\n    total = 0\n    for batch in window:\n        loss = model(batch)\n"
    assert shown(text + "        loss.backward()\n        total += loss\n    optimizer.step()\n", "script.loss_kept") is None


def test_retain_graph_where_no_other_backward_needs_it():
    one = "for batch in loader:\n    loss = model(batch)\n    loss.backward(retain_graph=True)\n"
    assert shown(one, "script.retain_graph") == (True, 3)
    assert shown(one + "    other.backward()\n", "script.retain_graph") is None
    assert shown("for loss in losses:\n    loss.backward(retain_graph=True)\n", "script.retain_graph") is None
    assert shown("loss.backward(retain_graph=keep)\n", "script.retain_graph") is None


def test_no_sync():
    text = "for batch in loader:\n    with {context}:\n        model(batch).backward()\n"
    assert shown(text.format(context="model.no_sync()"), "script.no_sync") == (True, 2)
    assert shown(text.format(context="accelerator.accumulate(model)"), "script.no_sync") is None
    whole = "def train(model, loader):\n    for batch in loader:\n        loss = model(batch)\n        loss.backward()\n"
    assert shown(whole, "script.no_sync") == (False, 4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("import torch.nn as nn\nmodel = nn.DataParallel(model)\n", (True, 2)),
        ("from torch.nn import DataParallel as Wrap\nmodel = Wrap(model)\n", (True, 2)),
        ("if torch.cuda.device_count() > 1:\n    model = torch.nn.DataParallel(model)\n", (True, 2)),
        ("if args.parallel:\n    model = torch.nn.DataParallel(model)\n", None),
        ("if torch.cuda.device_count() > 1:\n    pass\nelse:\n    model = torch.nn.DataParallel(model)\n", None),
        ("model = DistributedDataParallel(model)\n", None),
        (
            "from torch.nn.parallel import DistributedDataParallel as DDP\ndef wrap(model):\n    return DDP(model)\n",
            (False, 3),
        ),
    ],
)
def test_dataparallel(text, value):
    assert shown(text, "script.dataparallel") == value


VISIBLE = 'os.environ["CUDA_VISIBLE_DEVICES"] = "1"\n'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("import torch\nimport os\nmodel.cuda()\n" + VISIBLE, ("after_cuda", 4)),
        ('import torch\nx = torch.zeros(1, device="cuda:0")\n' + VISIBLE, ("after_cuda", 3)),
        ("import torch\ndef main():\n    " + VISIBLE + "torch.cuda.is_available()\nmain()\n", ("after_cuda", 3)),
        (
            "import os\nimport argparse\na = argparse.ArgumentParser().parse_args()\n" + VISIBLE + "import torch\n",
            ("before_cuda", 4),
        ),
        ("import os\nimport torch\n" + VISIBLE, ("before_cuda", 3)),
        # a module that nobody knows may initialise it
        ("import torch\nfrom own.devices import start\nstart()\nimport os\n" + VISIBLE, None),
        ("import torch\nif late:\n    torch.cuda.init()\n" + VISIBLE, None),
        ("import torch\nmodel.cuda()\nif args.gpu:\n    " + VISIBLE, None),
        ("import torch\nprint(torch.cuda.device_count())\ntorch.cuda.manual_seed(0)\n" + VISIBLE, None),
        ("def train(model, loader):\n    for b in loader:\n        model(b).backward()\n", ("absent", 1)),
        ("def helper(x):\n    return x\n", None),
    ],
)
def test_when_the_devices_are_chosen(text, value):
    assert shown(text, "script.visible_devices_line") == value


def test_the_chosen_devices_are_a_setting():
    found = reading("import os\n" + VISIBLE)
    assert [(one.family, one.key, one.value, one.span.line) for one in found.settings] == [
        ("script", "CUDA_VISIBLE_DEVICES", "1", 2)
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("state = torch.load(path)\n", ("absent", 1)),
        ('state = torch.load(path, map_location="cpu")\n', ("cpu", 1)),
        ('state = torch.load(path, map_location=torch.device("cpu"))\n', ("cpu", 1)),
        ('state = torch.load(path, f"cuda:{rank}")\n', ("device", 1)),
        ("state = torch.load(path, map_location=device)\n", None),
        ('a = torch.load(path)\nb = torch.load(other, "cpu")\n', None),
        ("state = torch.load(path, **options)\n", None),
        ("state = json.load(path)\n", None),
    ],
)
def test_map_location(text, value):
    assert shown(text, "script.map_location") == value


GROUP = 'import os\nimport torch\nimport torch.distributed as dist\ndist.init_process_group("{backend}"{more})\n'


def test_the_device_of_a_rank():
    name = "script.set_device"
    assert shown(GROUP.format(backend="nccl", more=""), name) == (False, 4)
    assert shown(GROUP.format(backend="gloo", more=""), name) is None
    assert shown(GROUP.format(backend="nccl", more=", device_id=d"), name) == (True, 4)
    chosen = GROUP.format(backend="nccl", more="") + "torch.cuda.set_device({device})\n"
    assert shown(chosen.format(device='int(os.environ["LOCAL_RANK"])'), name) == (True, 5)
    assert shown(chosen.format(device="0"), name) is None, "one device for all ranks"


GUARDED = "script.rank_guard_collective"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("import torch.distributed as dist\nif dist.get_rank() == 0:\n    dist.barrier()\n", 3),
        ("if accelerator.is_main_process and step % 10 == 0:\n    accelerator.wait_for_everyone()\n", 2),
        ("def save():\n    torch.distributed.barrier()\nif rank == 0:\n    save()\n", 2),
        ("model = FSDP(model)\nif accelerator.is_main_process:\n    accelerator.save_state(path)\n", 3),
    ],
)
def test_a_collective_for_one_rank(text, line):
    assert shown(text, GUARDED) == (True, line)


@pytest.mark.parametrize(
    "text",
    [
        "import torch.distributed as dist\nif rank == 0:\n    load()\n    dist.barrier()\nelse:\n    dist.barrier()\n",
        "import torch.distributed as dist\nif rank != 0:\n    dist.barrier()\nload()\nif rank == 0:\n    dist.barrier()\n",
        "import torch.distributed as dist\nif rank == 0:\n    torch.save(state, path)\ndist.barrier()\n",
        "import torch.distributed as dist\nif step == 0:\n    dist.barrier()\n",
        "import torch.distributed as dist\nif rank == 0:\n    def later():\n        dist.barrier()\n",
        # without a sharded model one rank saves for all
        "if accelerator.is_main_process:\n    accelerator.save_state(path)\n",
    ],
)
def test_what_one_rank_may_do(text):
    assert shown(text, GUARDED) is None


def test_synced_gpus():
    assert shown("out = model.generate(ids, synced_gpus=True)\n", "script.synced_gpus") == (True, 1)
    assert shown("out = model.generate(ids)\n", "script.synced_gpus") == (False, 1)
    assert shown("out = model.generate(**batch)\n", "script.synced_gpus") is None
    assert shown("key = secrets.generate(8)\n", "script.synced_gpus") is None


TRAINER = """from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
STEPS = 8
{before}
args = TrainingArguments("out", per_device_train_batch_size=4, gradient_accumulation_steps=STEPS{more})
{after}
trainer = Trainer(model=model, args=args, train_dataset=data{options})
"""
LOAD = 'model = AutoModelForCausalLM.from_pretrained("x")'


def trainer(more="", options="", before="", after=""):
    return facts(TRAINER.format(more=more, options=options, before=before, after=after))


def test_arguments_of_the_trainer():
    assert trainer()["train.eval_accumulation_steps"] == 0
    assert trainer(", eval_accumulation_steps=4")["train.eval_accumulation_steps"] == 4
    assert "train.eval_accumulation_steps" not in trainer(", **more")
    assert "train.eval_accumulation_steps" not in trainer(after="args.eval_accumulation_steps = 2")
    assert trainer()["train.preprocess_logits"] is False
    assert trainer(options=", preprocess_logits_for_metrics=reduce")["train.preprocess_logits"] is True
    assert "train.preprocess_logits" not in trainer(options=", **more")


def test_gradient_checkpointing():
    name, on = "train.gradient_checkpointing", ", gradient_checkpointing=True"
    assert trainer(on + ', gradient_checkpointing_kwargs={"use_reentrant": False}')[name] == "non_reentrant"
    assert trainer(on + ", gradient_checkpointing_kwargs=dict(use_reentrant=True)")[name] == "reentrant"
    assert name not in trainer(on), "the default depends on the version"
    assert facts("from transformers import TrainingArguments\nargs = TrainingArguments('out')\n")[name] is False


def test_accumulation_and_batch_are_settings_beside_those_of_other_sources():
    found = reading(TRAINER.format(more="", options="", before="", after="") + "Accelerator(mixed_precision='no')\n")
    assert {(one.family, one.key, one.value) for one in found.settings} == {
        ("arguments", "per_device_train_batch_size", 4),
        ("arguments", "gradient_accumulation_steps", 8),
        ("script", "Accelerator.mixed_precision", "no"),
    }


def test_a_model_loaded_before_the_arguments():
    name = "script.zero_config_late"
    assert trainer(before=LOAD)[name] is True
    assert trainer(after=LOAD)[name] is False
    assert name not in trainer()
    worker = (
        "class Worker:\n    def __init__(self):\n        self.load()\n        self.configure()\n    def configure(self):\n"
        "        self.args = SFTConfig(deepspeed='x')\n    def load(self):\n"
        "        self.model = AutoModel.from_pretrained('x')\nWorker()\n"
    )
    assert facts(worker)[name] is True
    assert name not in facts("tok = AutoTokenizer.from_pretrained('x')\nargs = TrainingArguments('out')\n")


def test_an_excerpt_is_read_as_far_as_it_parses():
    found = reading(
        "    for b in loader:\n        loss = model(b)\n        loss.backward(retain_graph=True)\n  and so on ...\n"
    )
    assert [(fact.name, fact.spans[0].line) for fact in found.facts] == [("script.retain_graph", 3)]
    assert len(found.notes) == 1
    pieces = reading("@torch.no_grad()\ndef f():\n    pass\nx = (\nmodel = nn.DataParallel(model)\n")
    assert [(fact.name, fact.spans[0].line) for fact in pieces.facts] == [("script.dataparallel", 5)]


def test_lines_count_in_the_whole_paste():
    text = "torch.load(path)\n"
    place = context("paste.md", "python")
    source = place.source.__class__(id="paste.md#2", path="paste.md", kind="python", first_line=41, first_offset=900)
    line = lines(text)[0].__class__(text=text, raw=text, offset=900, number=41)
    found = read_script(text, [line], place.__class__(source=source))
    assert (found.facts[0].spans[0].line, found.facts[0].spans[0].offset) == (41, 900)


def test_a_script_reaches_the_reader_through_its_kind():
    found = read_structure([lines(SUM_OF_A_WINDOW)], SUM_OF_A_WINDOW, context("train.py", "python"))
    assert WINDOW in {fact.name for fact in found.facts}


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\x00\n",
        "(" * 5000,
        "-" * 50_000 + "1",
        "a" + ".a" * 50_000,
        "x = " + "9" * 5000,
        "x = 1\n" * 60_000,
        "\n".join(" " * depth + "if x:" for depth in range(98)) + "\n" + " " * 98 + "pass",
        "def f(:\n    pass\n" * 400,
    ],
)
def test_hostile_scripts_are_noted_and_nothing_else(text):
    found = reading(text)
    assert found.facts == ()
    assert len(found.notes) <= 1


def test_functions_that_call_each_other_end():
    text = "".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n" for n in range(60)) + "def f60():\n    f0()\nf0()\n"
    assert reading(text).notes == ()


_WORDS = st.sampled_from(
    [
        "for x in y:\n", "    ", "loss", ".backward()", " += ", "model(x)", "\n", "if rank == 0:\n", "torch.load(", ")",
        "import torch\n", "...", "'", '"""', "def f():\n", "os.environ['CUDA_VISIBLE_DEVICES'] = ", "(", "\t", "é",
        "\x00", "\r",
    ]
)  # fmt: skip


@given(st.lists(_WORDS, max_size=60).map("".join))
@settings(max_examples=200, deadline=None)
def test_any_text_gives_a_reading(text):
    for fact in reading(text).facts:
        assert 1 <= fact.spans[0].line <= text.count("\n") + text.count("\r") + 1


def test_conditional_expression_is_no_block():
    assert facts("import sys\nrate = float(sys.argv[1]) if len(sys.argv) > 1 else 1e-4\n") is not None
