"""Every exception that the autograder raises on purpose.

::

    ClinicError                    something a person can act on: its text is shown, never a traceback
    ├── ChapterError               an authored chapter is not well formed (an author's mistake)
    │   └── PlantingError          a solution region is malformed
    ├── SubmissionRefused          a file holds no learner's code that could be graded
    ├── IsolationUnavailable       the machine cannot isolate other people's code as asked
    ├── ReportError                text that is no report of ours, or of another schema version
    ├── StoreError                 what has been graded cannot be kept
    ├── WireError                  bytes from a worker that are not a message of ours
    ├── SandboxError               the sandbox failed; never the learner's fault
    ├── RanksError                 ranks that a learner launched from a notebook did not all come back
    └── LearnerError               the learner's code went wrong while a test used it
        ├── LearnerException       it raised
        ├── LearnerMissing         it does not define what a test asks for
        ├── LearnerCrashed         its process ended (``os._exit``, a signal, out of memory)
        └── LearnerTimeout         it did not answer in time

:class:`Finding`, apart from this tree, is the ``AssertionError`` of a check whose figures may be told to anyone.

A :class:`LearnerError` fails the test that met it. All others are ours or the caller's and cost nobody a point.
"""

from autograder.text import printable


class ClinicError(Exception):
    """Base of all errors below; the text says what is wrong, where, and what to do next."""


class ChapterError(ClinicError):
    """An authored chapter cannot be used as it is."""


class PlantingError(ChapterError):
    """A solution region lacks a marker, or its two sides cannot be told apart."""


class SubmissionRefused(ClinicError):
    """A submitted file cannot be graded; the text is the reason, in words for its author.

    It may quote names of files, which are the author's to choose.
    """

    def __init__(self, text: str) -> None:
        super().__init__(printable(text))


class IsolationUnavailable(ClinicError):
    """No sandbox works here that is strong enough for what was asked."""


class ReportError(ClinicError):
    """Text is not the JSON of a report, or of another schema version."""


class StoreError(ClinicError):
    """The folder of stored reports cannot be written."""


class WireError(ClinicError):
    """A message is malformed, too large, or describes a tensor outside its own storage."""


class SandboxError(ClinicError):
    """A sandbox could not be started or broke down."""


class RanksError(ClinicError):
    """Ranks did not all come back; the text says what became of each, and who waits for whom."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows in place of a traceback, which would lead through code of ours."""
        return [f"RanksError: {self}"]


class LearnerError(ClinicError):
    """The learner's code went wrong; the text is written for the learner."""


class LearnerException(LearnerError):
    """The learner's code raised an exception.

    ``kind`` is the name of the exception's class and ``output`` the tail of what the code printed.
    """

    def __init__(self, message: str, kind: str = "", output: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.output = output


class LearnerMissing(LearnerError):
    """The notebook does not define the function that a test asks for."""


class LearnerCrashed(LearnerError):
    """The learner's process ended before it had answered.

    ``public`` is the text without what the code itself chose, such as an exit status, for a hidden test to tell.
    """

    def __init__(self, message: str, public: str = "sent something that is no answer") -> None:
        super().__init__(message)
        self.public = public


class LearnerTimeout(LearnerError):
    """The learner's code did not answer in time."""


class Finding(AssertionError):
    """A check's verdict that gives away no input: shown to learners even where a hidden test found it.

    ``in_full`` says more, and is shown for visible tests only.
    """

    def __init__(self, text: str, in_full: str = "") -> None:
        super().__init__(text)
        self.in_full = in_full or text
