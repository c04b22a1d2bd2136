"""What scripts for SecretFlow call, so that such a script changes its imports:

    import vesica.secretflow as sf          # for: import secretflow as sf
    from vesica.secretflow import link, psi # for: from spu import libspu, psi; link = libspu.link

Every call becomes the launch configuration that SecretFlow's own program would read, and runs as `vesica run --config` does. What
cannot be honoured raises a `vesica.ConfigError` that names it; what has another effect here is a `UserWarning`.
"""

from . import link, psi
from ._csv import SPU, psi_csv
from .psi import *  # noqa: F403

__all__ = ["SPU", "link", "psi", "psi_csv", *psi.__all__]
