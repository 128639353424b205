"""The variables of every password that docker-compose.yml's project asks for."""

from lockstep.settings import Settings, source_password_setting
from pizzeria.names import SOURCE, Login

LOGINS = {source_password_setting(SOURCE, role) for role in Login}
PASSWORDS = LOGINS | {
    f"LOCKSTEP_{name.upper()}" for name in Settings.model_fields if name.endswith("_password")
}
