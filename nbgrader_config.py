"""nbgrader's settings for this course; run nbgrader's commands in this folder (README, section "Instructors")."""

from autograder.nbgrader_preprocessors import configure

c = get_config()  # noqa: F821  (nbgrader puts it here)
configure(c)
c.CourseDirectory.course_id = "torch-clinic"
c.Execute.timeout = 120  # for Validate, as in learners' copies (release/nbgrader_config.py)
