"""Stage `wait_for_agent_enrollment`: the agent of this installation has enrolled, and the node is healthy."""

from __future__ import annotations

from datetime import datetime

from farrier.handlers.node.moves import Policy, proven_healthy
from farrier.handlers.node.stage import Done, Failed, StageResult, Waiting
from farrier.model.failures import FailureClass
from farrier.model.health import Healthy
from farrier.model.node import Agent, Node
from farrier.model.status import NodeStatus as N

# Failed reports of the SSH seed in a row after which a person has to look.
SSH_SEED_LIMIT = 3


def wait_for_agent_enrollment(node: Node, now: datetime, config: Policy) -> StageResult:
    """Done when the agent of this installation has enrolled and the node is healthy; agentless: when it is healthy."""
    agent = node.agent
    if not node.agentless:
        if agent is None or _of_an_earlier_installation(node, agent.enrolled_at):
            return Waiting(reason="waits for the agent to enrol")
        if agent.ssh_seed_failures >= SSH_SEED_LIMIT and _was_heard_in_this_attempt(node, agent):
            return Failed(
                failure=FailureClass.SSH_SEED_FAILED_REPEATEDLY,
                detail=f"the agent reported a failed SSH seed {agent.ssh_seed_failures} times in a row",
            )
    proof = proven_healthy(node, now, config)
    if isinstance(proof, Healthy):
        return Done(reason="enrolled and healthy")
    return Waiting(reason=f"enrolled, but not healthy yet: {proof.reason}" if agent else proof.reason)


def _was_heard_in_this_attempt(node: Node, agent: Agent) -> bool:
    """A report from before an operator asked for another attempt says nothing of what was mended."""
    assert node.workflow is not None, "a stage runs in a workflow"
    return agent.last_heartbeat_at is not None and agent.last_heartbeat_at >= node.workflow.status_entered_at


def _of_an_earlier_installation(node: Node, enrolled_at: datetime) -> bool:
    """True when a retired node is being installed anew and its agent has not been heard of since."""
    begun = node.workflow.mode_given_at if node.workflow is not None else None
    return node.status is N.RETIRED and begun is not None and enrolled_at < begun
