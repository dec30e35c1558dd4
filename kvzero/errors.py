"""Every error that kvzero raises on purpose.

``...Error`` means misuse or a broken environment, ``...Failure`` that a subject broke
a property, and `InternalError` that kvzero itself is wrong. The module imports nothing,
so that catching an error costs nothing.

Messages follow one form: ``name=value, but must rule: reason or remedy``.
"""


class KvzeroError(Exception):
    """Any error that kvzero raises on purpose."""


class LayoutError(KvzeroError, ValueError):
    """A layout that no memory could have, or whose blocks share bytes."""


class CaseError(KvzeroError, ValueError):
    """A case that contradicts itself, or a file that does not hold a case."""


class KnownFileError(CaseError):
    """A file of known findings that does not hold what it must."""


class ConfigurationError(KvzeroError, ValueError):
    """A setting, in a file or the environment, that is unknown or out of its range."""


class BlockIdError(KvzeroError, ValueError):
    """A block id, or a list of them, that the zeroer refuses before any launch."""


class CaptureError(KvzeroError, RuntimeError):
    """Something asked for in CUDA graph capture that no graph can hold."""


class SubjectError(KvzeroError):
    """A subject that cannot be found, imported or built."""


class LaunchLimitError(KvzeroError, RuntimeError):
    """A launch that the launcher would skip or the platform reject."""


class EnvironmentMissingError(KvzeroError):
    """Something that this machine or installation lacks: a GPU, an extra, memory."""


class ReportError(KvzeroError):
    """A report that cannot be written."""


class InternalError(KvzeroError):
    """A bug in kvzero: please report it with the case that showed it."""


class PropertyFailure(AssertionError):  # noqa: N818 - a broken property, not misuse
    """A subject broke a property; the text is the located explanation."""
