"""Words of other programs are answered with our key, before the nearest spelling is."""

import pytest
from config.composed import composed
from program import refusal

from forecast.config.compose import groups, plain_values, walk
from forecast.config.hydra_errors import ADVICE, KEYS


@pytest.fixture(scope="module")
def ours():
    """All keys of a long table's training, and the groups."""
    configs = (composed("model=informer", f"data={data}", "attention=prob") for data in ("csv", "ETTh1"))
    return {name for config in configs for name, _ in walk(plain_values(config))} | {*groups()}


def test_every_word_leads_to_a_key_that_there_is_and_is_none_itself(ours):
    assert {*KEYS.values()} <= ours
    assert not {*KEYS, *ADVICE} & ours and not {*KEYS} & {*ADVICE}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "e_layers=3",
            "'e_layers' is no key of the config. Did you mean 'model.encoder_layers'?",
        ),
        ("learning_rate=0.001", "Did you mean 'optim.lr'?"),
        ("train_epochs=3", "Did you mean 'trainer.max_epochs'?"),
        ("num_workers=8", "'num_workers' is no key of the config: windows are gathered faster"),
        ("gpus=1", "'gpus' is no key of the config: say trainer=gpu"),
    ],
)
def test_they_are_answered_on_the_command_line(capsys, words, text):
    assert text in refusal(capsys, "train", words)


def test_what_this_config_lacks_is_not_offered(capsys):
    text = refusal(capsys, "predict", "gpus=1")  # which has no trainer
    assert "'gpus' is no key of the config" in text and "trainer" not in text
