"""The demo's stories stand on scenarios that are shipped."""

from __future__ import annotations

import pytest

from dflash_doctor.causes import causes
from dflash_doctor.model import Refused
from dflash_doctor.simulate import scenario as scenarios
from dflash_doctor.simulate.demo import DEMOS, demo


@pytest.mark.parametrize("story", DEMOS, ids=lambda d: d.name)
def test_every_story_has_its_two_hosts_and_causes_of_the_vocabulary(story):
    tuned, broken = scenarios.load(story.tuned), scenarios.load(story.broken)
    assert tuned.fails is None and (broken.fails is None) is story.served
    assert tuned.model.path == broken.model.path and tuned.gpus.each == broken.gpus.each
    assert set(story.expects) <= set(causes())


def test_the_first_story_is_told_when_none_is_named():
    assert demo(None).broken == "a6000-dflash"
    assert demo("healthy").expects == ()
    with pytest.raises(Refused, match="a6000-flash-attn-4"):
        demo("a6000")
