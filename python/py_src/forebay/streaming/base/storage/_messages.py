"""Messages of errors that several stores have."""

from __future__ import annotations

__all__ = ["get_import_exception_message"]


def get_import_exception_message(package_name: str, extra_deps: str) -> str:
    """Returns the message of an import that fails because a package of the extra `package_name` is missing."""
    return (
        f"Streaming was installed without {package_name} support. To use {package_name} related packages with Streaming, "
        f"install the packages of the reference's extra `{extra_deps}`."
    )
