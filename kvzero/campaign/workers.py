"""The fork server of a campaign's workers, which has imported all that they want.

It is this process's shared one, so that cases are run again in isolation by children
of the same server; whoever asks first makes it, so a campaign asks here first.
"""

from kvzero.executors.fork_server import ForkServer, shared_fork_server

TARGET = "kvzero.campaign.shard:serve"


def worker_server(executor: str) -> ForkServer:
    """Return the fork server for an executor's workers, started if need be."""
    module, _, _ = TARGET.partition(":")
    return shared_fork_server(interpreted=executor == "host", imports=(module,))
