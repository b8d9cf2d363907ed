"""What the failing exception says about files: their paths, what they are for, and what was wrong with a checkpoint."""

from __future__ import annotations

import msgspec
import pytest

from engine.faults import Log, causal, world
from engine.runs import MAIN, crash, facts_of, frame, lib, pack_of
from firstfault.engine.align import align
from firstfault.engine.attribute import attribute
from firstfault.engine.derive import checkpoint, derive
from firstfault.engine.derive.scope import Scope
from firstfault.model.bundle import Source, SourceReport
from firstfault.model.event import Place
from firstfault.model.fact import FactSet, Setting
from firstfault.model.span import SourceSpan

LOAD = lib("torch/serialization.py", "load", "with _open_zipfile_reader(opened_file) as opened_zipfile:")
SAVE = lib("torch/serialization.py", "save", "_save(obj, opened_zipfile, pickle_module, pickle_protocol)")
TRAINER_LOAD = lib("transformers/trainer.py", "_load_from_checkpoint", "raise ValueError(")
TRAINER_SAVE = lib("transformers/trainer.py", "_save_checkpoint", "self.save_model(output_dir, _internal_call=True)")
STATE = lib("transformers/trainer_callback.py", "load_from_json", "return cls(**json.loads(text))")
DECODER = frame("/usr/lib/python3.11/json/decoder.py", "raw_decode", 'raise JSONDecodeError("Expecting value", s, err.value)')
DCP = lib("torch/distributed/checkpoint/filesystem.py", "read_data", 'with self.fs.create_stream(new_path, "rb") as stream:')
CUT_ZIP = "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: "
BAD_JSON = "json.decoder.JSONDecodeError: Expecting value: line 1 column 37 (char 36)"


def facts(*frames, error, fault_class="python_exception", name="python.exception", **more):
    return facts_of(crash(*frames, error=error, fault_class=fault_class, name=name, **more))


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("/dev/shm/torch_4211_77", "shm"),
        ("/home/user/.cache/huggingface/hub/models--a--b/blobs/1.incomplete", "cache"),
        ("runs/a/checkpoint-400/trainer_state.json", "checkpoint"),
        ("runs/a/model-00002-of-00004.safetensors", "checkpoint"),
        ("/data/wiki.bin", "other"),
        ("/tmp/ray/agent.sock", "socket"),
        ("/data/notes.txt", "other"),
    ],
)
def test_a_path_is_for_what_its_place_and_name_say(path, role):
    found = facts(MAIN, error=f"{MISSING}'{path}'")
    assert (found.value("exc.path"), found.value("exc.path_role")) == (path, role)


def test_the_same_name_in_a_dataset_is_data():
    item = frame("data.py", "__getitem__", "return torch.load(self.paths[i])")
    assert facts(MAIN, item, error=f"{MISSING}'/data/0001.pt'").value("exc.path_role") == "dataset"


def test_of_a_failed_rename_the_second_file_counts():
    error = "OSError: [Errno 28] No space left on device: '/out/a.tmp' -> '/out/notes.txt'"
    assert facts(MAIN, error=error, fault_class="storage_errno").value("exc.path") == "/out/notes.txt"


def test_a_key_that_looks_like_a_path_is_none():
    assert facts(MAIN, error="KeyError: 'encoder/layer_0'").value("exc.path") is None


@pytest.mark.parametrize(
    ("frames", "error", "operation"),
    [
        ((MAIN, LOAD), CUT_ZIP, "load"),
        ((MAIN, SAVE), "RuntimeError: anything", "save"),
        ((MAIN, TRAINER_LOAD), "ValueError: Can't find a valid checkpoint at out", "load"),
        ((MAIN, TRAINER_SAVE), "RuntimeError: anything", "save"),
        ((MAIN, frame("train.py", "resume", "f = open(path)")), f"{MISSING}'out/step_40/model.pt'", "load"),
        ((MAIN, frame("train.py", "keep", "f = open(path)")), f"{MISSING}'out/step_40/model.pt'", None),
        ((MAIN, lib("toolbox/runner.py", "save_checkpoint", "backend.put(data)")), "RuntimeError: anything", "save"),
        ((MAIN, lib("toolbox/runner.py", "save_model", "backend.put(data)")), "RuntimeError: anything", "none"),
        ((MAIN,), "ZeroDivisionError: division by zero", "none"),
    ],
)
def test_frames_say_whether_a_checkpoint_was_read_or_written(frames, error, operation):
    assert facts(*frames, error=error).value("ckpt.operation") == operation


def test_a_function_of_the_script_alone_is_no_checkpoint_operation():
    resumed = frame("train.py", "resume_training", "scale = 1 / n")
    assert facts(MAIN, resumed, error="ZeroDivisionError: division by zero").value("ckpt.operation") == "none"


@pytest.mark.parametrize(
    ("frames", "error", "kind"),
    [
        ((MAIN, LOAD), CUT_ZIP, "torch"),
        ((MAIN, DCP), f"{MISSING}'out/step_40/__0_0.distcp'", "dcp"),
        ((MAIN, LOAD), f"{MISSING}'out/global_step8/zero_pp_rank_3_mp_rank_00_optim_states.pt'", "zero"),
        ((MAIN, STATE, DECODER), BAD_JSON, "json"),
    ],
)
def test_the_kind_of_file(frames, error, kind):
    assert facts(*frames, error=error).value("ckpt.format") == kind


def test_a_state_file_that_is_no_json_is_not_whole_and_other_json_is_nothing_of_a_checkpoint():
    assert facts(MAIN, STATE, DECODER, error=BAD_JSON).value("ckpt.file_complete") is False
    assert facts(MAIN, DECODER, error=BAD_JSON).value("ckpt.file_complete") is None


@pytest.mark.parametrize(("key", "first"), [("<", "html"), ("v", "lfs"), ("{", "text"), ("\\x1f", "unknown")])
def test_the_refused_byte_names_the_file_type(key, first):
    error = f"_pickle.UnpicklingError: invalid load key, '{key}'."
    found = facts(MAIN, LOAD, error=error, fault_class="checkpoint_error", name="ckpt.wrong_file_type", key=key)
    assert found.value("ckpt.first_bytes") == first


@pytest.mark.parametrize(("operand", "first"), [(60, "html"), (118, "lfs"), (149, "unknown")])
def test_the_refused_operand_of_the_safe_unpickler_is_a_byte(operand, first):
    error = "_pickle.UnpicklingError: Weights only load failed."
    log = crash(MAIN, LOAD, error=error, fault_class="checkpoint_error", name="ckpt.weights_only_refused")
    log.fault(None, f"Unsupported operand {operand}", name="ckpt.refused_operand", operand=str(operand))
    assert facts_of(log).value("ckpt.first_bytes") == first


@pytest.mark.parametrize(("error", "first"), [("MetadataIncompleteBuffer", "header"), ("HeaderTooLarge", None)])
def test_a_readable_header_tells_a_cut_file_from_a_foreign_one(error, first):
    message = f"SafetensorError: Error while deserializing header: {error}"
    found = facts(MAIN, error=message, fault_class="checkpoint_error", name="ckpt.truncated")
    assert found.value("ckpt.first_bytes") is None
    captured = facts_of(_cut(message, error))
    assert captured.value("ckpt.first_bytes") == first


def _cut(message, error):
    log = crash(MAIN, error=message, fault_class="checkpoint_error", name="ckpt.truncated")
    log.events[-1].captures["error"] = error
    return log


def with_settings(log, **values):
    """The facts of `log` beside a file that sets `values`: names in capitals are of the environment."""
    span = SourceSpan("conf", 1, 0)
    settings = tuple(
        Setting(family="environment" if key.isupper() else "arguments", key=key, value=value, span=span, text=value)
        for key, value in values.items()
    )
    found = world(None, log)
    report = SourceReport(source=Source(id="conf", path="conf", kind="text"), settings=settings)
    found = msgspec.structs.replace(found, reports=(*found.reports, report))
    known = align(found)
    return derive(known, attribute(known, causal()), pack_of())


@pytest.mark.parametrize(
    ("setting", "role"),
    [({"HF_HOME": "/scratch/hf/"}, "cache"), ({"output_dir": "/scratch/hf"}, "checkpoint"), ({"seed": "/scratch/hf"}, "other")],
)
def test_what_lies_below_a_directory_that_was_set_is_for_what_that_directory_is(setting, role):
    log = crash(MAIN, error=f"{MISSING}'/scratch/hf/part-1'", fault_class="python_exception", name="python.exception")
    assert with_settings(log, **setting).value("exc.path_role") == role


def test_a_file_that_the_launcher_reads_is_its_configuration():
    launch = lib("accelerate/commands/launch.py", "launch_command", "args = load(path)")
    assert facts(launch, error=f"{MISSING}'run/step_4/x.yaml'").value("exc.path_role") == "config"


@pytest.mark.parametrize(("name", "failed"), [("ckpt.write_failed", True), ("train.note", None)])
def test_an_attempt_before_that_failed_while_writing_is_remembered(name, failed):
    before = Log("first.log", attempt=0)
    before.fault("checkpoint_error" if failed else "python_exception", name=name)
    after = crash(MAIN, LOAD, error=CUT_ZIP, fault_class="checkpoint_error", name="ckpt.truncated")
    after.place = Place(attempt=1)
    after.events[-1] = msgspec.structs.replace(after.events[-1], place=Place(attempt=1))
    found = align(world(None, before, after))
    scope = Scope(found, attribute(found, causal()), pack_of())
    scope.event, scope.attempt = after.events[-1], 1
    names = {fact.name: fact.value for fact in checkpoint.derive(scope, FactSet())}
    assert names.get("ckpt.writer_failed") is failed


@pytest.mark.parametrize(
    ("frames", "setting", "expected"),
    [
        ((lib("torch/distributed/fsdp/_state_dict_utils.py", "_full_pre_state_dict_hook"),), None, True),
        ((lib("torch/distributed/fsdp/_state_dict_utils.py", "_sharded_pre_state_dict_hook"),), "FULL_STATE_DICT", False),
        ((TRAINER_SAVE, SAVE), "FULL_STATE_DICT", True),
        ((TRAINER_SAVE, SAVE), "SHARDED_STATE_DICT", False),
        ((TRAINER_SAVE, SAVE), "LOCAL_STATE_DICT", None),
        ((TRAINER_SAVE, SAVE), None, None),
        # Only while a checkpoint is written is anything gathered.
        ((), "FULL_STATE_DICT", None),
    ],
)
def test_state_dict_that_is_gathered(frames, setting, expected):
    bundle = world(1, crash(MAIN, *frames))
    key, span = "fsdp_config.fsdp_state_dict_type", SourceSpan("fsdp.yaml", 3, 40)
    made = () if setting is None else (Setting(family="accelerate", key=key, value=setting, span=span, text=setting),)
    report = msgspec.structs.replace(bundle.reports[-1], settings=made)
    found = align(msgspec.structs.replace(bundle, reports=(*bundle.reports[:-1], report)))
    facts = derive(found, attribute(found, causal()), pack_of())
    assert facts.value("ckpt.full_state_dict") is expected
