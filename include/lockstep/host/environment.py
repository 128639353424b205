"""The settings as another process of ours gets them."""

from lockstep.settings import Settings


def settings_environment(settings: Settings) -> dict[str, str]:
    """LOCKSTEP_… for every setting but the passwords, which are read from the home's file."""
    return {
        f"LOCKSTEP_{name.upper()}": str(getattr(settings, name))
        for name in Settings.model_fields
        if not name.endswith("_password")
    }
