"""Promises and prices: what is guaranteed, what each event costs, who has paid. Sees no data."""

from privstats.older.privacy.events import ApproxEvent, Event, GaussianEvent, PureEvent
from privstats.older.privacy.sampled import Subsampled
from privstats.older.privacy.together import Jointly, Parallel

EVENTS: tuple[type[Event], ...] = (PureEvent, GaussianEvent, ApproxEvent, Jointly, Subsampled, Parallel)
