"""Reads a typed object from a JSON file; what does not fit is one line."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from testbed.errors import InputError

Model = TypeVar("Model", bound=BaseModel)


def read_model(model: type[Model], path: Path, what: str = "") -> Model:
    """Read and validate one object.

    Parameters
    ----------
    model
        Its type.
    path
        JSON file.
    what
        What messages call the file, such as ``the plan``; nothing by default.

    Raises
    ------
    InputError
        The file is missing, not JSON, of another version, or does not fit the model.
    """
    try:
        return model.model_validate_json(path.read_text())
    except OSError as error:
        name = f"{what} {path}" if what else str(path)
        raise InputError(f"cannot read {name}: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"{path}: {where or what.removeprefix('the ') or 'file'}: {first['msg']}"
        ) from error
