"""What a graph is made of. The names and defaults are those of graph templates; what is wrong with a
graph is said, all of it at once, when it is upserted."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from typing import Any

from .._failures import Snooze, TerminalError


class PruneSignal(TerminalError):
    """Raised by a node: this branch ends here, and that is no failure."""

    def __init__(self, data: dict[str, Any] | None = None):
        super().__init__("pruned")
        self.data = data or {}


class ReQueueAfterSignal(Snooze):
    """Raised by a node: run me again after this time. That is no failure and counts as none."""

    def __init__(self, delay: dt.timedelta):
        if delay <= dt.timedelta(0):
            raise ValueError(f"delay={delay}: a time that is longer than nothing")
        super().__init__(delay)


class RetryStrategyEnum(str, enum.Enum):
    """How delays grow."""

    EXPONENTIAL = "EXPONENTIAL"
    EXPONENTIAL_FULL_JITTER = "EXPONENTIAL_FULL_JITTER"
    EXPONENTIAL_EQUAL_JITTER = "EXPONENTIAL_EQUAL_JITTER"
    LINEAR = "LINEAR"
    LINEAR_FULL_JITTER = "LINEAR_FULL_JITTER"
    LINEAR_EQUAL_JITTER = "LINEAR_EQUAL_JITTER"
    FIXED = "FIXED"
    FIXED_FULL_JITTER = "FIXED_FULL_JITTER"
    FIXED_EQUAL_JITTER = "FIXED_EQUAL_JITTER"


class UnitesStrategyEnum(str, enum.Enum):
    """When branches are united."""

    ALL_SUCCESS = "ALL_SUCCESS"
    ALL_DONE = "ALL_DONE"


@dataclasses.dataclass
class _Model:
    def _json(self) -> dict[str, Any]:
        made = dataclasses.asdict(self)
        return {name: value for name, value in made.items() if value is not None}


@dataclasses.dataclass
class RetryPolicyModel(_Model):
    """When a node is tried again. Times are milliseconds; ``max_retries`` does not count the first
    attempt."""

    max_retries: int = 3
    strategy: RetryStrategyEnum | str = RetryStrategyEnum.EXPONENTIAL
    backoff_factor: int = 2000
    exponent: int = 2
    max_delay: int | None = None


@dataclasses.dataclass
class UnitesModel(_Model):
    """A node waits for everything below another one."""

    identifier: str
    strategy: UnitesStrategyEnum | str = UnitesStrategyEnum.ALL_SUCCESS


@dataclasses.dataclass
class GraphNodeModel(_Model):
    """A node of a graph: what runs, what it gets, what follows it."""

    node_name: str
    namespace: str
    identifier: str
    inputs: dict[str, str] = dataclasses.field(default_factory=dict)
    next_nodes: list[str] | None = None
    unites: UnitesModel | None = None


@dataclasses.dataclass
class StoreConfigModel(_Model):
    """Which values a run of a graph is given, and which it has unless they are."""

    required_keys: list[str] = dataclasses.field(default_factory=list)
    default_values: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class CronTrigger:
    """The clock starts a graph."""

    expression: str
    timezone: str | None = None

    def _json(self) -> dict[str, Any]:
        value = {"expression": self.expression}
        if self.timezone is not None:
            value["timezone"] = self.timezone
        return {"type": "CRON", "value": value}


__all__ = [
    "CronTrigger",
    "GraphNodeModel",
    "PruneSignal",
    "ReQueueAfterSignal",
    "RetryPolicyModel",
    "RetryStrategyEnum",
    "StoreConfigModel",
    "UnitesModel",
    "UnitesStrategyEnum",
]
