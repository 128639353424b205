"""The variables of every password that docker-compose.yml's project asks for."""

from lockstep.pipeline.folder import source_manifests
from lockstep.settings import Settings, source_password_setting

from tests.project import PROJECT_DIR

LOGINS = {
    source_password_setting(source, role)
    for source, manifest in source_manifests(PROJECT_DIR)
    for role in manifest.logins
}
PASSWORDS = LOGINS | {
    f"LOCKSTEP_{name.upper()}" for name in Settings.model_fields if name.endswith("_password")
}
