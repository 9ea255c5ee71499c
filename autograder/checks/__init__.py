"""The kinds of check that tests are made of: plain data in, verdict out.

Each raises ``AssertionError`` with a message for the learner, or a :class:`~autograder.errors.LearnerError` that the
learner's code caused on the way. They serve anyone's tests: *function* is a learner's function (``submission.name``).
"""

from autograder.checks.aliasing import assert_is_view as assert_is_view
from autograder.checks.aliasing import assert_leaves_inputs_alone as assert_leaves_inputs_alone
from autograder.checks.aliasing import assert_owns_result as assert_owns_result
from autograder.checks.gradients import assert_gradcheck as assert_gradcheck
from autograder.checks.gradients import assert_gradients_match as assert_gradients_match
from autograder.checks.memory import assert_holds_at_most as assert_holds_at_most
from autograder.checks.outputs import assert_matches as assert_matches
from autograder.checks.own_test import assert_accepts as assert_accepts
from autograder.checks.own_test import assert_rejects as assert_rejects
from autograder.checks.speedup import assert_faster as assert_faster
from autograder.checks.speedup import assert_gains as assert_gains

__all__ = [
    "assert_accepts",
    "assert_faster",
    "assert_gains",
    "assert_gradcheck",
    "assert_gradients_match",
    "assert_holds_at_most",
    "assert_is_view",
    "assert_leaves_inputs_alone",
    "assert_matches",
    "assert_owns_result",
    "assert_rejects",
]
