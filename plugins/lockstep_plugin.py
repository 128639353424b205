"""What Lockstep registers in Airflow. Registrations only: the code is in the installed package.

Airflow executes every file of this folder under its bare name, so no other file belongs here.
"""

from lockstep.airflow_plugin import LockstepPlugin

__all__ = ["LockstepPlugin"]
