"""Every error a user can cause: one line that says what was given, what is allowed, what to do."""


class SpecMemoError(Exception):
    """A problem to report in one line; ``exit_code`` is what the command line returns for it."""

    exit_code = 1


class InputError(SpecMemoError, ValueError):
    """A value, file or name from outside that cannot be used."""


class UnitError(InputError):
    """A quantity without a unit, with an unknown one, or out of range."""


class CatalogError(InputError):
    """A device, model or profile that the catalogue does not hold, or holds incompletely."""


class ModelConfigError(InputError):
    """A model configuration that is damaged, incomplete or of an unknown architecture."""


class InvalidTreeError(InputError):
    """A token tree that is not prefix-closed, too deep, or too wide for its profile."""


class PlanFileError(InputError):
    """A plan file that is damaged, of another version, or altered after it was written."""
