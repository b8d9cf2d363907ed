"""What the failing exception says about the data, definite as soon as the exception line is known."""

from __future__ import annotations

import pytest

from engine.runs import CALL, MAIN, crash, facts_of, frame, lib

FETCH = lib("torch/utils/data/_utils/fetch.py", "fetch", "data = [self.dataset[idx] for idx in possibly_batched_index]")
ITEM = frame("data.py", "__getitem__", "return self.rows[idx]")
COLLATE = lib("torch/utils/data/_utils/collate.py", "collate_tensor_fn", "return torch.stack(batch, 0, out=out)")
EMBED = lib("torch/nn/functional.py", "embedding", "return torch.embedding(weight, input, padding_idx)")
SPARSE = lib("torch/nn/modules/sparse.py", "forward", "return F.embedding(")
LOSS = lib("torch/nn/functional.py", "cross_entropy", "return torch._C._nn.cross_entropy_loss(")
IN_SELF = "IndexError: index out of range in self"


def fact(name, *frames, error, fault_class="python_exception", event="python.exception", **more):
    return facts_of(crash(*frames, error=error, fault_class=fault_class, name=event, **more)).value(name)


def in_model(code):
    return (MAIN, CALL, frame("model.py", "forward", code), CALL, SPARSE, EMBED)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("inputs_embeds = self.wte(input_ids)", "token"),
        ("h = self.embed_tokens(x)", "token"),
        ("position_embeds = self.wpe(position_ids)", "position"),
        ("token_type_embeddings = self.token_type_embeddings(token_type_ids)", "other"),
        ("u = self.user_table(user_ids)", "unknown"),
        ("", "unknown"),
    ],
)
def test_the_line_that_calls_the_embedding_names_its_table(code, kind):
    assert fact("data.index_kind", *in_model(code), error=IN_SELF) == kind


@pytest.mark.parametrize(
    ("frames", "error", "kind"),
    [
        ((MAIN, FETCH, ITEM), "IndexError: list index out of range", "sample"),
        ((MAIN, CALL, LOSS), "IndexError: Target 7 is out of bounds.", "label"),
        ((MAIN,), "IndexError: index 12 is out of bounds for dimension 0 with size 10", "unknown"),
        ((MAIN,), "RuntimeError: index 12 is out of bounds for dimension 1 with size 10", "unknown"),
        ((MAIN,), "IndexError: list index out of range", "none"),
        ((MAIN,), "ZeroDivisionError: division by zero", "none"),
    ],
)
def test_other_indices_by_site_and_message(frames, error, kind):
    assert fact("data.index_kind", *frames, error=error) == kind


def test_an_exception_behind_a_device_assertion_tells_no_index():
    error = "RuntimeError: CUDA error: device-side assert triggered"
    assert fact("data.index_kind", *in_model("h = self.wte(ids)"), error=error, fault_class="device_assert") is None


@pytest.mark.parametrize(
    ("error", "decoder"),
    [
        ("PIL.UnidentifiedImageError: cannot identify image file 'a.jpg'", "image"),
        ("OSError: image file is truncated (12 bytes not processed)", "image"),
        ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "json"),
        ("zlib.error: Error -3 while decompressing data: incorrect header check", "compressed"),
        ("pyarrow.lib.ArrowInvalid: Not an Arrow file", "arrow"),
        ("UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte", "text"),
        ("TypeError: 'NoneType' object is not subscriptable", "none"),
    ],
)
def test_the_decoder_by_the_type_of_the_exception(error, decoder):
    assert fact("data.decoder", MAIN, FETCH, ITEM, error=error) == decoder


def test_a_decoder_in_the_script_is_about_data_once_steps_are_done():
    error = "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"
    assert fact("data.decoder", MAIN, error=error) == "json"
    assert fact("data.decoder", MAIN, error=error, above=0) is None
    load = lib("torch/serialization.py", "load", "return _load(")
    assert fact("data.decoder", MAIN, load, error="zipfile.BadZipFile: File is not a zip file") == "none"


def test_unequal_lengths_count_where_batches_are_made():
    error = "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [5] at entry 1"
    assert fact("data.complaint", MAIN, COLLATE, error=error, event="data.unequal_lengths") == "unequal_lengths"
    assert fact("data.complaint", MAIN, error=error, event="data.unequal_lengths") == "none"


def test_an_empty_list_is_about_data_where_data_is_handled():
    error = "ValueError: max() arg is an empty sequence"
    collate = frame("data.py", "collate_fn", "width = max(len(s) for s in batch)")
    step = frame("train.py", "train_step", "scale = 1 / max(lengths)")
    assert fact("data.complaint", MAIN, collate, error=error, event="data.empty_sequence") == "empty"
    assert fact("data.complaint", MAIN, step, error=error, event="data.empty_sequence") == "empty"
    assert fact("data.complaint", MAIN, error=error, event="data.empty_sequence") == "none"


def test_a_sampler_without_samples_is_about_data_anywhere():
    error = "ValueError: num_samples should be a positive integer value, but got num_samples=0"
    assert fact("data.complaint", MAIN, error=error, event="data.empty_sequence", samples=0) == "empty"


@pytest.mark.parametrize(
    ("code", "error", "complaint"),
    [
        ("keys = batch[0].keys()", "IndexError: list index out of range", "empty"),
        ("x = batch[3]", "IndexError: list index out of range", "none"),
        ("mean = total / len(batch)", "ZeroDivisionError: division by zero", "empty"),
        ("rate = 1 / scale", "ZeroDivisionError: division by zero", "none"),
    ],
)
def test_the_raising_line_of_a_collate_function_proves_an_empty_batch(code, error, complaint):
    assert fact("data.complaint", MAIN, frame("data.py", "collate_fn", code), error=error) == complaint


def test_the_ragged_field_is_the_one_that_the_line_names():
    error = "RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [5] at entry 1"
    one = frame("data.py", "collate_fn", 'labels = torch.stack([s["labels"] for s in batch])')
    two = frame("data.py", "collate_fn", 'return torch.stack([s["a"] for s in batch]), torch.stack([s["b"] for s in batch])')
    assert fact("data.ragged_field", MAIN, one, error=error, event="data.unequal_lengths") == "labels"
    assert fact("data.ragged_field", MAIN, two, error=error, event="data.unequal_lengths") is None


@pytest.mark.parametrize(("name", "number"), [("Killed", 9), ("Bus error", 7), ("Segmentation fault", 11), ("Moon", None)])
def test_the_signal_that_ended_a_loader_worker(name, number):
    error = f"RuntimeError: DataLoader worker (pid 77) is killed by signal: {name}."
    log = crash(MAIN, error=error, fault_class="dataloader_worker_killed", name="dataloader.worker_killed", signal=name)
    assert facts_of(log).value("data.worker_signal") == number


@pytest.mark.parametrize(
    ("losses", "outlier"),
    [("web 2.4, code 1.3, forum 9.9", True), ("web=2.4, code=1.3, forum=3.1", False), ("web 2.4", None), ("many", None)],
)
def test_one_source_with_three_times_the_loss_of_all_others_is_odd(losses, outlier):
    log = crash(MAIN, error="AssertionError: loss is nan", fault_class="non_finite", name="train.non_finite")
    log.note("train.loss_by_source", losses=losses)
    assert facts_of(log).value("num.data_outlier") is outlier


def asserted(signal, *frames, notes=(), **captures):
    import msgspec

    log = crash(*frames, error="RuntimeError: CUDA error: device-side assert triggered", fault_class="device_assert", rank=0)
    log.note("cuda.assertion", **captures)
    log.events[-1] = msgspec.structs.replace(log.events[-1], signal=signal)
    for name in notes:
        log.note(name)
    return facts_of(log).value("cuda.assert_index")


def test_a_row_that_a_kernel_missed_is_a_token_unless_something_says_otherwise():
    rows = "cuda.assertion.index_select"
    assert asserted(rows, MAIN) == "token"
    assert asserted(rows, MAIN, notes=["tokenizer.too_long"]) == "unknown"
    # Without launch blocking the frames are those of a later call.
    assert asserted(rows, *in_model("p = self.wpe(position_ids)")) == "token"


def test_other_assertions_on_an_index_are_about_another_table():
    condition = "idx_dim >= 0 && idx_dim < index_size"
    assert asserted("cuda.assertion.other", MAIN, condition=condition) == "other"
    assert asserted("cuda.assertion.other", MAIN, condition="input_val >= zero && input_val <= one") is None
