"""Parameter counts of the bundled configurations, against the published ones and against transformers itself."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.errors import UsageError
from firstfault.memory.closed_form import forecast
from firstfault.memory.families import read_config
from firstfault.memory.models import bundled, find_model
from firstfault.memory.plan import MemoryPlan

PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": 6738415616,
    "meta-llama/Meta-Llama-3-8B": 8030261248,
    "meta-llama/Llama-3.2-3B": 3212749824,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1100048384,
    "mistralai/Mistral-7B-v0.1": 7241732096,
    "mistralai/Mixtral-8x7B-v0.1": 46702792704,
    "Qwen/Qwen2.5-7B": 7615616512,
    "Qwen/Qwen3-0.6B": 596049920,
    "google/gemma-2b": 2506172416,
    "google/gemma-2-9b": 9241705984,
    "microsoft/phi-1_5": 1418270720,
    "openai-community/gpt2": 124439808,
    "ibm/PowerLM-3b": 3510819072,
}
_BUILD = """
import json, sys, torch, transformers
transformers.logging.set_verbosity_error()
found = {}
for name, config in json.load(sys.stdin).items():
    family = config.pop("model_type")
    shape = transformers.AutoConfig.for_model(family, **config)
    kind = {"vit": "ImageClassification", "t5": "Seq2SeqLM"}.get(family)
    if family in ("bert", "roberta", "xlm-roberta", "distilbert", "deberta-v2"):
        kind = "SequenceClassification"
    with torch.device("meta"):
        model = getattr(transformers, f"AutoModelFor{kind or 'CausalLM'}").from_config(shape)
    found[name] = sum(one.numel() for one in model.parameters())
print(json.dumps(found))
"""


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_number_of_parameters(name):
    assert read_config(bundled()[name]).numel == PUBLISHED[name]


def test_every_bundled_configuration_counts_like_the_model_that_transformers_builds():
    python = os.environ.get("FIRSTFAULT_TORCH_PYTHON")
    if not python:
        pytest.skip("FIRSTFAULT_TORCH_PYTHON names no interpreter with torch and transformers")
    done = subprocess.run([python, "-c", _BUILD], input=json.dumps(bundled()), capture_output=True, text=True)
    if done.returncode and "No module named" in done.stderr:
        pytest.skip("transformers is not installed there")
    assert done.returncode == 0, done.stderr[-2000:]
    counted = {name: read_config(config).numel for name, config in bundled().items()}
    assert counted == json.loads(done.stdout)


def test_there_are_many_models_and_all_have_a_family():
    shapes = {name: read_config(config) for name, config in bundled().items()}
    assert len(shapes) >= 80
    assert {name for name, shape in shapes.items() if not shape.known} == {
        "microsoft/deberta-v3-base",
        "microsoft/deberta-v3-large",
    }


@pytest.mark.parametrize("name", ["qwen3-0.6b", "Qwen/Qwen3-0.6B", "QWEN3 0.6B"])
def test_a_model_is_found_by_any_spelling(name):
    assert find_model(name)[0] == "Qwen/Qwen3-0.6B"


@pytest.mark.parametrize("name", ["", "no-such-model", "llama"])
def test_a_name_that_fits_none_or_several_is_refused(name):
    with pytest.raises(UsageError):
        find_model(name)


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "llama"},
        {"model_type": "llama", "hidden_size": "x"},
        {"model_type": "gpt2", "n_embd": -1},
        {**bundled()["facebook/opt-125m"], "word_embed_proj_dim": False},
        {"model_type": "bert"},
    ],
)
def test_a_configuration_without_sizes_is_refused(config):
    with pytest.raises(UsageError):
        read_config(config)


def test_an_unknown_decoder_is_taken_for_a_llama_and_says_so():
    config = {**bundled()["meta-llama/Llama-2-7b-hf"], "model_type": "something-new"}
    assert not read_config(config).known


ANY = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2))


@given(st.data())
def test_a_damaged_configuration_is_forecast_or_refused(data):
    known = bundled()
    config = dict(known[data.draw(st.sampled_from(sorted(known)))])
    for key in data.draw(st.lists(st.sampled_from(sorted(config)), min_size=1, max_size=3)):
        config[key] = data.draw(ANY)
    try:
        made = forecast(MemoryPlan(config=config, micro_batch=1, seq_len=16))
    except UsageError:
        return
    assert made.phases
