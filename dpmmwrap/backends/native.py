"""The built-in sampler as a backend."""

from __future__ import annotations

from dpmmwrap.backends import Result, Settings
from dpmmwrap.families.base import Points
from dpmmwrap.sampler.chain import Chain


class NativeBackend:
    """The built-in sampler."""

    name = "native"

    def fit(self, X: Points, settings: Settings) -> Result:
        settings.bind(X, settings.full_ratio)
        chain = Chain(X, settings)
        try:
            return chain.run()
        finally:
            chain.context.data.close()
