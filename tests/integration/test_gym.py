"""Two hosts of the fault gym, from the SSH connection to the verdict; `python -m tests.gym` runs all of them."""

from __future__ import annotations

from tests.gym.__main__ import run


def test_a_planted_fault_stands_first_with_its_factor_and_a_healthy_host_is_left_in_peace(capsys):
    assert run(["no overlap of scheduling, SGLang", "another start"]) == 0, capsys.readouterr().out
