"""The OpenAPI document, made of the endpoints and the types that they take and give."""

import re
from importlib.metadata import version
from typing import Any

import msgspec

from nearcast.web.endpoints import ENDPOINTS, PREFIX, Endpoint
from nearcast.web.models import Problem

_TEXT = {404: "There is none.", 409: "Refused: the state forbids it.", 415: "The body is not JSON."}
_ALWAYS = {422: "What was asked cannot be: `field` and `expected` say why.", 503: "Nobody leads now; ask again."}
_ENTRY = {
    401: "No token, or one that is not known or has expired.",
    403: "The token's role is not enough: orders need an operator's.",
}
_OPEN = ("/healthz", "/readyz")  # answered to anybody
_REFERENCE = "#/components/schemas/{name}"


def document() -> dict[str, Any]:
    types: list[Any] = [Problem]
    for each in ENDPOINTS:
        types += [kind for kind in (each.gives, each.query, each.body, each.accepted) if kind is not None]
    unique = list(dict.fromkeys(types))
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REFERENCE)
    known = dict(zip(unique, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in ENDPOINTS:
        path = re.sub(r"\{(\w+):path\}", r"{\1}", each.path)
        paths.setdefault(path, {})[each.method.lower()] = _operation(each, known, components)
    refused = {"401": _json(_ENTRY[401], known[Problem])}
    paths[f"{PREFIX}/events"] = {"get": {**_EVENTS, "responses": {**_EVENTS["responses"], **refused}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nearcast",
            "version": version("nearcast"),
            "description": "What changes anything is a POST with `dry_run=true` by default: it tells what would happen."
            " With `dry_run=false` and a `reason` it answers 202 with a task."
            " Where the configuration names a file of tokens, a viewer's is needed to GET and an operator's to POST.",
        },
        "paths": paths,
        "security": [{"token": []}, {"cookie": []}],
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "`nearcast token create` makes one."},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "nearcast-PORT",
                    "description": "What the dashboard's link leaves in a browser.",
                },
            },
        },
    }


def _operation(each: Endpoint, known: dict[Any, Any], components: dict[str, Any]) -> dict[str, Any]:
    answers: dict[str, Any] = {"200": _json("What was asked for.", known[each.gives])}
    if each.accepted is not None:
        answers["202"] = _json("Ordered.", known[each.accepted])
    if each.body is not None:
        answers["400"] = _json("The body is no JSON.", known[Problem])
        answers["413"] = _json("The body is too large.", known[Problem])
        answers["415"] = _json(_TEXT[415], known[Problem])
    for status in sorted({*each.problems, *([404] if each.names else [])}):
        answers[str(status)] = _json(_TEXT[status], known[Problem])
    for status, text in _ALWAYS.items():
        answers[str(status)] = _json(text, known[Problem])
    if each.path not in _OPEN:
        for status, text in _ENTRY.items():
            if status == 401 or each.method == "POST":
                answers[str(status)] = _json(text, known[Problem])
    query = components[known[each.query]["$ref"].rpartition("/")[2]]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in each.names
    ] + [
        {"name": name, "in": "query", "required": name in query.get("required", ()), "schema": schema}
        for name, schema in query["properties"].items()
    ]
    operation: dict[str, Any] = {
        "summary": each.summary,
        "operationId": getattr(each.answer, "__name__", ""),
        "parameters": parameters,
        "responses": answers,
    }
    if each.path in _OPEN:
        operation["security"] = []
    if each.body is not None:
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": known[each.body]}}}
    return operation


def _json(text: str, schema: Any) -> dict[str, Any]:
    return {"description": text, "content": {"application/json": {"schema": schema}}}


_EVENTS: dict[str, Any] = {
    "summary": "Server-sent events: `look` whenever something new was seen",
    "operationId": "events",
    "responses": {
        "200": {"description": "Without an end.", "content": {"text/event-stream": {"schema": {"type": "string"}}}}
    },
}
