"""Text made safe to look at: what would not be seen, or would reorder the rest, is.

Names of subjects, texts of exceptions and paths come from whatever is under test. A
control character, a bidirectional override or a lone surrogate in them is spelled out,
so that no report shows other text than the one that was there.
"""

from unicodedata import category

_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of Unicode: controls, formats (bidi), surrogates, private, unassigned,
separators of lines and paragraphs."""


def visible(text: str, keep: str = "\n\t") -> str:
    r"""Return a text in which every character is seen, such as ``\u202e``.

    Args:
        text: Any text.
        keep: Characters that are left although they are controls.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c in keep or _is_seen(c) else _escaped(c) for c in text)


def one_line(text: str) -> str:
    """Return a text in which every character is seen, line ends too."""
    return visible(text, keep="")


def _is_seen(character: str) -> bool:
    return category(character) not in _HIDDEN


def _escaped(character: str) -> str:
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
