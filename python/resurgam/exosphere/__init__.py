"""Exosphere's words on this engine, in your process: nodes are classes, graphs say what follows what.

::

    from resurgam.exosphere import BaseNode, GraphNodeModel, Runtime, StateManager

There is no state manager to run, and no MongoDB. The unmodified ``exospherehost`` talks to the
server instead; the guide for those who come from Exosphere has both.
"""

from ._models import (
    CronTrigger,
    GraphNodeModel,
    PruneSignal,
    ReQueueAfterSignal,
    RetryPolicyModel,
    RetryStrategyEnum,
    StoreConfigModel,
    UnitesModel,
    UnitesStrategyEnum,
)
from ._node import BaseNode
from ._runtime import Runtime, StateManager, new_secrets_key, use

__all__ = [
    "BaseNode",
    "CronTrigger",
    "GraphNodeModel",
    "PruneSignal",
    "ReQueueAfterSignal",
    "RetryPolicyModel",
    "RetryStrategyEnum",
    "Runtime",
    "StateManager",
    "StoreConfigModel",
    "UnitesModel",
    "UnitesStrategyEnum",
    "new_secrets_key",
    "use",
]
