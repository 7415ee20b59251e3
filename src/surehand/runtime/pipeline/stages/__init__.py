"""The stages, in the order in which a call meets them. This list is the pipeline."""

from surehand.runtime.pipeline.pipeline import Stage
from surehand.runtime.pipeline.stages.active_space import active_space
from surehand.runtime.pipeline.stages.approve import approve
from surehand.runtime.pipeline.stages.audience import audience
from surehand.runtime.pipeline.stages.breaker import breaker
from surehand.runtime.pipeline.stages.budget import budget
from surehand.runtime.pipeline.stages.cache import cache
from surehand.runtime.pipeline.stages.clip import clip
from surehand.runtime.pipeline.stages.deadline import deadline
from surehand.runtime.pipeline.stages.intent import intent
from surehand.runtime.pipeline.stages.invoke import invoke
from surehand.runtime.pipeline.stages.ledger import ledger
from surehand.runtime.pipeline.stages.middleware import middleware
from surehand.runtime.pipeline.stages.mount import mount
from surehand.runtime.pipeline.stages.park import park
from surehand.runtime.pipeline.stages.publish import publish
from surehand.runtime.pipeline.stages.queue import queue
from surehand.runtime.pipeline.stages.recall import recall
from surehand.runtime.pipeline.stages.record import record
from surehand.runtime.pipeline.stages.retry import retry
from surehand.runtime.pipeline.stages.validate import validate

STAGES: tuple[Stage, ...] = (
    active_space,  # once an agent has entered a space: its calls are made in that space
    record,  # every call ends in journal and statistics once; cancelled by its id, or a bug of ours: still an outcome
    audience,  # a tool for people is not there for models
    mount,  # a tool with a lifespan has been entered
    validate,  # arguments against the schema, mended first where plain parsing fails
    recall,  # an id that is known already: the stored outcome, the same open wait, or a conflict
    budget,  # the turn's calls and tokens
    publish,  # visible and a space is active: one message, amended at each step
    park,  # Pending becomes a wait; the only stage that knows how waits are kept
    approve,  # policy and confirmation: allow, ask, or deny
    ledger,  # the outcome, once
    clip,  # too large: kept under a handle, with how to read on
    middleware,  # global, then per tool
    cache,  # a hit returns; one flight per key
    retry,  # repeatable and worth another try: again after a back-off that holds no slot
    breaker,  # a provider known to be down is not waited for
    queue,  # waiting is not running: outside `deadline`
    intent,  # not repeatable: claim this call, after the queue
    deadline,  # the time limit of one attempt
    invoke,  # the only place where foreign code runs
)
