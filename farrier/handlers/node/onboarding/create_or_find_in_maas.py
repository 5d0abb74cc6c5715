"""Stage `create_or_find_in_maas`: finds or creates the node's machine in MAAS. No other node may have this machine.

An adoption only searches, and only by recorded values. A deployment uses the only machine that matches a recorded
value, or creates a machine if none matches. A found machine is assigned in two runs: the first run records it as a
candidate, and the next snapshot shows whether another node has it. A contradiction requires an operator, because
farrier sends nothing to a machine that may not be the node's machine.
"""

from __future__ import annotations

import re
from datetime import datetime

from farrier.config.sites import MaasSite
from farrier.handlers.node.changes import (
    Done,
    Failed,
    NodeServices,
    Policy,
    ServiceCall,
    Settled,
    StageResult,
    StageStep,
    Waiting,
    attempt_began_at,
    with_fields,
    with_note,
)
from farrier.handlers.node.maas import region
from farrier.handlers.node.onboarding import discovery
from farrier.handlers.node.onboarding.discovery import Clues, FoundMachine
from farrier.handlers.node.onboarding.preparation import PASSED, power_credential
from farrier.handlers.node.workflow.onboarding_adopt import adopts
from farrier.model.credential import Credential
from farrier.model.maas.changes import NewMachine, PowerAccess, UpdateMachine
from farrier.model.maas.reading import MaasError, MaasFailure, MaasStatus, Machine, PowerAddress, StatusNumber
from farrier.model.node.failures import FailureClass
from farrier.model.node.snapshot import Node
from farrier.protocols import MaasClient

_NAME = "create_or_find_in_maas"
# Statuses of a machine on which no user's system runs, and which no user has reserved.
_FREE = frozenset(
    {
        StatusNumber.NEW,
        StatusNumber.COMMISSIONING,
        StatusNumber.FAILED_COMMISSIONING,
        StatusNumber.TESTING,
        StatusNumber.FAILED_TESTING,
        StatusNumber.READY,
    }
)
# A name that MAAS makes for a machine: two words of the lists of petname.
_PETNAME = re.compile(r"[a-z]+-[a-z]+")
# The fields that MAAS names if it refuses to create a machine that exists.
_IS_THERE = frozenset({"hostname", "mac_addresses"})


def create_or_find_in_maas(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Find or create the machine. The stage is done when the node has the ID of its machine."""
    if adopts(node):
        if node.maas_id is None:
            return Done(reason="the node is not in MAAS", skipped="the node has no MAAS id")
        return region.with_region(node, policy, lambda client: _recorded(client, node), name=_NAME, reads_only=True)
    if node.maas_id is not None and node.live.memo.has_deployed:
        return region.with_machine(node, policy, _deployed_already, name=_NAME, reads_only=True)
    candidate = _candidate(node)
    if candidate is not None and node.candidate_of is not None:
        return discovery.taken_by_other(candidate, node.candidate_of)
    return _with_credential(node, now, policy)


def _with_credential(node: Node, now: datetime, policy: Policy) -> StageResult:
    """Read the credential before waiting for a slot, so that a slow store of credentials occupies none."""
    maas = policy.maas_of(node)
    if maas is None:
        return region.elsewhere(node)

    async def act(services: NodeServices) -> Settled:
        credential = await power_credential(node, services)
        if not isinstance(credential, Credential):
            return credential
        run = _Run(node, now, maas, credential)
        turn = region.with_region(node, policy, run.ask, name=_NAME)
        return await turn.act(services) if isinstance(turn, ServiceCall) else turn

    return ServiceCall(name=_NAME, act=act, reads_only=False)


def _candidate(node: Node) -> str | None:
    """Return the candidate that this attempt recorded, or None. The candidate of an earlier attempt may be outdated."""
    workflow = node.live
    asked_at = workflow.memo.asked_at
    if node.maas_id is not None or asked_at is None or asked_at < attempt_began_at(workflow):
        return None
    return workflow.memo.candidate


async def _deployed_already(machine: Machine, _client: MaasClient) -> Settled:
    return Done(reason=f"machine {machine.system_id} belongs to this node")


async def _recorded(client: MaasClient, node: Node) -> Settled:
    """Check for an adoption that the recorded machine is deployed, free of other users, and contradicts nothing."""
    known = discovery.clues(node)
    found = await _looked(client, node, known)
    if not isinstance(found, FoundMachine):
        return found or region.gone(node)
    machine = found.machine
    if machine.state is not MaasStatus.DEPLOYED:
        return _stands_elsewhere(machine, "a machine to adopt must be Deployed")
    return Done(reason=f"machine {machine.system_id} belongs to this node, found by {' and '.join(found.by)}")


async def _looked(client: MaasClient, node: Node, known: Clues) -> FoundMachine | Failed | None:
    """Return the only matching machine if no other user owns it; None without a match."""
    seen = await discovery.look(client, known)
    if seen is None:
        return region.gone(node)
    found = discovery.the_one(seen)
    return found if not isinstance(found, FoundMachine) else await _checked(client, node, known, found)


async def _checked(client: MaasClient, node: Node, known: Clues, found: FoundMachine) -> FoundMachine | Failed:
    machine = found.machine
    if machine.owner and not await client.holds(machine):
        return region.foreign(node, machine)
    return discovery.contradiction(known, found) or found


class _Run:
    """One run of the stage for a deployment. The run occupies a slot of the region."""

    def __init__(self, node: Node, now: datetime, maas: MaasSite, credential: Credential) -> None:
        self._node = node
        self._now = now
        self._maas = maas
        self._known = discovery.clues(node)
        self._power = PowerAccess(
            address=self._known.host,
            username=credential.username,
            password=credential.password,
            node_id=self._known.system,
        )

    async def ask(self, client: MaasClient) -> Settled:
        noted_id = _candidate(self._node)
        if noted_id is not None:
            return await self._take(client, noted_id)
        found = await _looked(client, self._node, self._known)
        if found is None:
            return await self._create(client)
        if isinstance(found, Failed):
            return found
        if self._node.maas_id is not None:
            return await self._keep(client, found)
        return _elsewhere(found.machine) or self._noted(found)

    async def _take(self, client: MaasClient, system_id: str) -> Settled:
        """Read the candidate again in the second run. The snapshot shows that no other node has this machine."""
        machine = await discovery.existing(client, system_id)
        if machine is None:
            return StageStep(
                to=with_note(self._node, candidate=None),
                reason=f"machine {system_id} no longer exists; farrier searches again",
            )
        addresses = await client.power_addresses((system_id,))
        found = FoundMachine(
            machine=machine, by=("the previous search",), power=addresses.get(system_id, PowerAddress())
        )
        checked = await _checked(client, self._node, self._known, found)
        if isinstance(checked, Failed):
            return checked
        return _elsewhere(machine) or await self._keep(client, found)

    async def _keep(self, client: MaasClient, found: FoundMachine) -> Settled:
        """Assign the machine to this node, and configure its BMC in MAAS."""
        machine = found.machine
        wanted = corrections(self._known, found, self._power, made=self._node.maas_created)
        if wanted is not None and machine.status in _FREE:
            await client.do(machine, wanted)
        made = self._node.maas_created or machine.description == region.comment(self._node, region.CREATE)
        kept = with_note(self._node, candidate=None, asked_at=None)
        return Done(
            reason=f"machine {machine.system_id} belongs to this node, found by {' and '.join(found.by)}",
            to=with_fields(kept, maas_id=machine.system_id, maas_created=made),
        )

    async def _create(self, client: MaasClient) -> Settled:
        if not self._node.macs:
            return Failed(
                failure=FailureClass.INVALID_CONFIG,
                detail="MAAS has no machine of this node, and cannot create a machine without a MAC address: "
                "boot the machine once from the network so that MAAS discovers it; or cancel "
                "the onboarding, set the MAC address of its boot interface, and onboard the node again",
            )
        new = NewMachine(
            hostname=self._known.hostname,
            mac_addresses=self._node.macs,
            power=self._power,
            description=region.comment(self._node, region.CREATE),
            architecture=self._maas.architecture,
            domain=self._maas.domain,
            zone=self._maas.zone,
            pool=self._maas.pool,
        )
        try:
            machine = await client.create(new)
        except MaasError as error:
            if error.failure is MaasFailure.INVALID and _IS_THERE & error.fields.keys():
                # The machine was created after the search: by a request whose response was lost, or by a network boot.
                detail = f"MAAS refused to create the machine, and has no matching machine: {error.detail}"
                return Failed(failure=FailureClass.UPSTREAM_ERROR, detail=detail)
            raise
        if machine.description != new.description:
            # The next attempt finds the machine, if MAAS created one.
            detail = (
                f"farrier requested machine {new.hostname} from MAAS, but MAAS returned another machine, "
                f"{machine.system_id[:64]}"
            )
            return Failed(failure=FailureClass.UPSTREAM_ERROR, detail=detail)
        # No other node can have the new machine, so it need not be a candidate first. From now on, an undo finds it.
        made = with_fields(self._node, maas_id=machine.system_id, maas_created=True)
        return Done(reason=f"machine {machine.system_id} was created", to=made)

    def _noted(self, found: FoundMachine) -> StageStep:
        system_id = found.machine.system_id
        return StageStep(
            to=with_note(self._node, candidate=system_id, asked_at=self._now),
            reason=f"machine {system_id} was found by {' and '.join(found.by)}",
        )


def corrections(known: Clues, found: FoundMachine, power: PowerAccess, *, made: bool) -> UpdateMachine | None:
    """Return the changes after which MAAS can reach the node's BMC. A machine that MAAS discovered gets all settings of
    farrier. A machine that an operator set up keeps its account and name, unless its BMC is missing or wrong. A machine
    that farrier created gets the current password.
    """
    machine, there = found.machine, found.power
    discovered = _is_discovered(machine)
    host = discovery.host_of(there.power_address or "")
    is_set = bool(machine.power_type) and bool(host)
    is_ours = machine.power_type == "redfish" and there.power_user == power.username
    wrong = (
        not is_set
        or discovery.other_host(known.host, host)
        or (known.named and there.node_id != known.system)
        or (discovered and not is_ours)
        or made
    )
    hostname = known.hostname if discovered and machine.hostname.lower() != known.hostname else None
    if not wrong and hostname is None:
        return None
    return UpdateMachine(hostname=hostname, power=power if wrong else None)


def _is_discovered(machine: Machine) -> bool:
    """Return whether MAAS enlisted the machine after a network boot. Then its commissioning scripts have passed, it is
    New afterwards, and MAAS made its name. A machine that a person created is Ready after scripts that passed. It is
    New before its commissioning, after an aborted one (`Unknown`), or after tests that passed though its commissioning
    had failed (`Failed`).
    Sources: metadataserver/user_data/templates/snippets/maas_run_remote_scripts.py:994 (no hostname, `commission`),
    maasserver/models/node.py:2183 and 3162 (petname), metadataserver/api.py:664-674 and 717-727. Responses of a
    region: tests/data/maas/machine-{enlisted,created,tested}.json."""
    if machine.status != StatusNumber.NEW or machine.owner:
        return False
    return machine.commissioning_status_name == PASSED and _PETNAME.fullmatch(machine.hostname) is not None


def _elsewhere(machine: Machine) -> Failed | Waiting | None:
    """Refuse a machine in a state that this workflow did not request, except broken: the next stage handles it."""
    if machine.status in _FREE or machine.status == StatusNumber.BROKEN:
        return None
    return _stands_elsewhere(machine, "no onboarding requested this state, so farrier does not use the machine")


def _stands_elsewhere(machine: Machine, why: str) -> Failed | Waiting:
    if (unknown := region.undefined(machine)) is not None:
        return unknown
    stands = (machine.status_name or str(machine.state))[:64]
    return Failed(
        failure=FailureClass.STATE_DISAGREEMENT, detail=f"machine {machine.system_id} is {stands} in MAAS; {why}"
    )
