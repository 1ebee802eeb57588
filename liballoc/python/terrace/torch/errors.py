"""What goes wrong for a user of the offload, and how it is said."""
import logging

log = logging.getLogger("terrace")


class OffloadError(RuntimeError):
    """A saved tensor cannot be stored, or cannot be brought back.

    The text names the tensor, the cause and the remedy. Nothing was given in the place of the tensor's content.
    """


def describe(geometry):
    """A saved tensor for an error's text."""
    return f"a tensor of shape {list(geometry[0])} and {geometry[3]}"


def say(text):
    """One line for the user: logging's, which ends on standard error where the program set up no logging."""
    log.warning("terrace: %s", text)
