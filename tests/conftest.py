"""What every test run shares."""

from __future__ import annotations

import os

from hypothesis import settings

# the same examples every time, so that a run says something about the change; HYPOTHESIS_PROFILE=wander looks for more
settings.register_profile("steady", derandomize=True, deadline=None)
settings.register_profile("wander", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
