"""Rappel's words on this engine: only the import lines change.

::

    from resurgam.rappel import action, workflow
    from resurgam.rappel.workflow import RetryPolicy, Workflow

``run`` is run and not compiled, so that it may use all of Python that a workflow may use. Policies
mean what Rappel's document says: ``attempts`` counts the first one, the backoff doubles.
"""

from .workflow import Action, Call, RetryPolicy, Workflow, action, use, workflow

__all__ = ["Action", "Call", "RetryPolicy", "Workflow", "action", "use", "workflow"]
