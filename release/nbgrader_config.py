"""nbgrader's settings for a learner's copy: what the Validate button goes by."""

c = get_config()  # noqa: F821  (nbgrader puts it here)
c.Execute.timeout = 120  # seconds for a cell; checks of several processes may need more than the usual 30
