"""The API's document is made of its endpoints: what it says of them is so."""

import json

from nearcast.web.endpoints import ENDPOINTS
from nearcast.web.openapi import document


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        found = {str(value["$ref"])} if "$ref" in value else set()
        return found.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list | tuple) else set()


def test_every_reference_leads_somewhere() -> None:
    made = json.loads(json.dumps(document()))
    known = {f"#/components/schemas/{name}" for name in made["components"]["schemas"]}
    assert references(made) <= known


def test_what_changes_anything_is_a_post_with_a_dry_run_by_default_and_a_reason() -> None:
    made = document()
    orders = [each for each in ENDPOINTS if each.accepted is not None]
    assert len(orders) == 9
    for each in orders:
        operation = made["paths"][each.path.replace(":path", "")]["post"]
        (dry_run,) = [given for given in operation["parameters"] if given["name"] == "dry_run"]
        assert dry_run["schema"]["default"] is True
        body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        assert "reason" in made["components"]["schemas"][body]["properties"]
        assert "202" in operation["responses"]


def test_no_operation_has_the_name_of_another() -> None:
    made = document()
    names = [operation["operationId"] for path in made["paths"].values() for operation in path.values()]
    assert len(names) == len(set(names))
