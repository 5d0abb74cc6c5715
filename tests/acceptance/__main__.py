"""`python -m tests.acceptance STEP`: does a step of NVIDIA's acceptance suite on a farrier, and prints the answer.

FARRIER_API is the URL of the server, and FARRIER_API_TOKEN a token with the scopes `read` and `intent`.
"""

from __future__ import annotations

import argparse
import json
import sys

from tests.acceptance.api import Api, Refused
from tests.acceptance.steps import STEPS


def main() -> int:
    """Print the answer of the step. Returns 1 if farrier refused it."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance", description=__doc__)
    parser.add_argument("step", choices=sorted(STEPS))
    parser.add_argument("target", nargs="?", help="name of the node, or of the rack")
    given = parser.parse_args()
    act = STEPS[given.step]
    try:
        api = Api.of_environment()
        found = act(api) if given.target is None else act(api, given.target)
    except (Refused, OSError) as failure:
        found = {"success": False, "error": str(failure)}
    answer = {"success": True, "platform": "farrier", **found}
    sys.stdout.write(json.dumps(answer, indent=1) + "\n")
    return 0 if answer["success"] else 1


if __name__ == "__main__":
    sys.exit(main())
