"""Promises and prices: what is guaranteed, what each event costs, who has paid. Sees no data."""

from privstats.privacy.events import ApproxEvent, Event, GaussianEvent, PureEvent
from privstats.privacy.sampled import Subsampled
from privstats.privacy.together import Jointly, Parallel

EVENTS: tuple[type[Event], ...] = (PureEvent, GaussianEvent, ApproxEvent, Jointly, Subsampled, Parallel)
