"""The stages of the pipeline, outermost first: a call passes them in this order."""

from surehand.runtime.pipeline.pipeline import Stage
from surehand.runtime.pipeline.stages.active_space import active_space
from surehand.runtime.pipeline.stages.approve import approve
from surehand.runtime.pipeline.stages.audience import audience
from surehand.runtime.pipeline.stages.breaker import breaker
from surehand.runtime.pipeline.stages.budget import budget
from surehand.runtime.pipeline.stages.cache import cache
from surehand.runtime.pipeline.stages.clip import clip
from surehand.runtime.pipeline.stages.commit import commit
from surehand.runtime.pipeline.stages.deadline import deadline
from surehand.runtime.pipeline.stages.follow import follow
from surehand.runtime.pipeline.stages.intent import intent
from surehand.runtime.pipeline.stages.invoke import invoke
from surehand.runtime.pipeline.stages.ledger import ledger
from surehand.runtime.pipeline.stages.middleware import middleware, outer_middleware
from surehand.runtime.pipeline.stages.mount import mount
from surehand.runtime.pipeline.stages.park import park
from surehand.runtime.pipeline.stages.publish import publish
from surehand.runtime.pipeline.stages.queue import queue
from surehand.runtime.pipeline.stages.recall import recall
from surehand.runtime.pipeline.stages.record import record
from surehand.runtime.pipeline.stages.retry import retry
from surehand.runtime.pipeline.stages.validate import validate

STAGES: tuple[Stage, ...] = (
    active_space,  # make calls in the space that their agent entered
    record,  # statistics, journal and events, once per call; interruptions and our own bugs become outcomes
    commit,  # keep the last results of a session; await `on_commit`
    outer_middleware,  # middleware that sees refused calls too, such as `logging`
    audience,  # models cannot call a tool that is only for people
    mount,  # enter the lifespan of a tool that was added late
    validate,  # arguments against the schema, repaired where plain parsing fails
    recall,  # a given id that is known: the stored outcome, the same Pending, or a conflict
    budget,  # the calls and tokens of a turn
    publish,  # show a visible call as a message in the active space
    park,  # store a pending call; the only stage that knows that pending calls are stored
    follow,  # a repetition of a call that waits follows that call
    approve,  # policy and confirmation: allow, ask, or deny
    ledger,  # record the outcome, once
    clip,  # store an output that is too large under a handle
    middleware,  # global, then per tool
    cache,  # return a cached result; equal concurrent calls run once
    retry,  # retry repeatable calls after a back-off that holds no slot
    breaker,  # do not call a provider that is known to be down
    queue,  # wait for a slot; outside `deadline`, because waiting is not running
    intent,  # claim a call that is not repeatable, once it has its slot
    deadline,  # the time limit of one attempt
    invoke,  # run the handler or the provider; the only place where foreign code runs
)
