"""For each behaviour of a BMC, the test that proves it: on a server of sushy-tools, or on the fake with the reason.

A row names the test, and its case if it has several; both have to exist. `test_bmc_client` runs on the emulator
and on the fake, `test_bmc_static` on sushy-static.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ON_SUSHY = {
    "good": "test_bmc_client::test_a_known_system_takes_two_requests_and_gives_a_full_reading",
    "wrong password": "test_bmc_client::test_a_wrong_password_is_tried_exactly_once",
    "unknown CA": "test_bmc_client::test_a_certificate_of_an_unknown_ca_is_refused_before_the_credential_is_sent",
    "wrong host": "test_bmc_client::test_a_certificate_for_another_host_or_time_is_refused::wrong-host",
    "expired": "test_bmc_client::test_a_certificate_for_another_host_or_time_is_refused::expired",
    "refused": "test_bmc_client::test_a_closed_port_is_unreachable",
    "never answers": "test_bmc_client::test_a_bmc_that_never_answers_fails_as_timeout_and_recovers",
    "404 system": "test_bmc_client::test_a_missing_system_is_unsupported_and_named",
    "redirect": "test_bmc_client::test_a_redirect_to_another_path_of_the_bmc_is_followed",
    "several systems": "test_bmc_static::test_a_bmc_without_the_required_resources_is_unsupported::two-hosts",
    "malformed JSON": "test_bmc_static::test_a_system_that_cannot_be_read_is_a_matter_of_protocol::malformed",
    "huge body": "test_bmc_static::test_a_system_that_cannot_be_read_is_a_matter_of_protocol::huge",
    "power null": "test_bmc_static::test_a_system_that_cannot_be_read_is_a_matter_of_protocol::power-null",
}

# behaviour: (test, why neither of sushy's servers can show it)
ON_THE_DOUBLE_ALONE = {
    "user locked": (
        "test_bmc_logins::test_a_locked_account_gets_no_more_than_three_logins",
        "the emulator cannot lock an account of its password file; sushy-static takes any credential",
    ),
    "black-holed": (
        "test_bmc_read::test_a_bmc_whose_packets_vanish_is_known_long_before_the_deadline",
        "no server takes part: the packets vanish before one",
    ),
    "drips bytes": (
        "test_bmc_client_faults::test_the_deadline_is_for_the_whole_answer::drip",
        "both write an answer at once",
    ),
    "500": (
        "test_bmc_client_faults::test_a_system_that_cannot_be_read_has_a_class_and_a_text::500",
        "sushy-static answers 200 or 404, and a read of the emulator's fake systems does not fail so",
    ),
    "503 with Retry-After": (
        "test_bmc_client_faults::test_a_system_that_cannot_be_read_has_a_class_and_a_text::503",
        "the emulator has the status in its OpenStack driver alone, and neither sends the header",
    ),
    "session limit reached": (
        "test_bmc_sessions::test_a_bmc_without_a_free_session_is_busy_and_no_session_is_closed",
        "neither has a session service",
    ),
}


def is_there(named: str) -> bool:
    """Whether the suite has this test, and the test this case."""
    suite, test, *case = named.split("::")
    text = Path(__file__).with_name(f"{suite}.py").read_text(encoding="utf-8")
    of_test = re.search(rf"((?:^[@\s)\]].*\n)*)^async def {test}\(", text, re.MULTILINE)
    return of_test is not None and all(f'"{one}"' in of_test[1] for one in case)


@pytest.mark.parametrize("behaviour", ON_SUSHY)
def test_behaviour_that_sushy_tools_has_is_tested_on_it(behaviour: str) -> None:
    assert ON_SUSHY[behaviour].startswith(("test_bmc_client::", "test_bmc_static::"))
    assert is_there(ON_SUSHY[behaviour])


@pytest.mark.parametrize("behaviour", ON_THE_DOUBLE_ALONE)
def test_behaviour_that_sushy_tools_lacks_is_tested_on_the_fake_with_a_reason(behaviour: str) -> None:
    named, reason = ON_THE_DOUBLE_ALONE[behaviour]
    assert reason and behaviour not in ON_SUSHY
    assert is_there(named)


def test_a_row_that_names_no_existing_test_is_detected() -> None:
    assert not is_there("test_bmc_static::test_nothing")
    assert not is_there("test_bmc_static::test_a_bmc_without_the_required_resources_is_unsupported::no-such-case")
