"""vLLM's own KV block zeroer as a subject: its class, unmodified, of an installed vLLM.

`release` finds the class and says in one line why it cannot, `engine` makes of a case's
views what the engine would hand to it, `subject` fits it to the protocol. `closure` is
a command of its own: it collects what importing the class needs into a folder.

Nothing of vLLM is imported until `VLLM` is asked for.
"""

from kvzero.subjects.protocol import Subject


def __getattr__(name: str) -> Subject:
    """Return the subject ``VLLM``; its first use imports vLLM, which takes seconds."""
    if name != "VLLM":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from kvzero.subjects.vllm.subject import vllm_subject

    return vllm_subject()
