"""docs/openapi.json (OpenAPI 3.1) from the contract document alone."""

from typing import Any

from contract.reading import doors_of, full_name, refusal_schema

Json = dict[str, Any]


def openapi(contract: Json) -> Json:
    """The HTTP surface: every door's route, the raw file routes, and the doors of the fleet."""
    statuses = {entry["name"]: entry["status"] for entry in contract["refusals"]}
    paths: dict[str, Json] = {}
    for door in doors_of(contract):
        route = door["route"]
        paths.setdefault(route["path"], {})[route["method"].lower()] = _operation(door, statuses)
    _file_routes(contract, paths)
    for door in contract["layers"]["server"]["doors"]:
        route = door["route"]
        paths.setdefault(route["path"], {})[route["method"].lower()] = _server_operation(door)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Brainy",
            "version": contract["version"],
            "summary": "A self-hosted knowledge engine: one contract of doors over one durable store.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "http://127.0.0.1:8300"}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Refusal": refusal_schema(), "Meta": _meta_schema()},
        },
    }


def _meta_schema() -> Json:
    properties = {
        "ms": {"type": "number", "description": "Wall time of the call, measured once, ms."},
        "generation": {"type": "integer", "description": "The brain's generation."},
        "replayed": {"type": "boolean", "description": "True when an idempotency key answered again."},
    }
    return {"type": "object", "required": ["ms"], "properties": properties}


def _operation(door: Json, statuses: dict[str, int]) -> Json:
    path, method = door["route"]["path"], door["route"]["method"]
    params, in_path = door["params"], [name[1:-1] for name in path.split("/") if name.startswith("{")]
    properties: Json = params.get("properties", {})
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string"},
            "description": properties.get(name, {}).get("description", "The brain's name."),
        }
        for name in in_path
    ]
    operation: Json = {
        "operationId": full_name(door).replace(".", "_"),
        "tags": [door.get("namespace", "engine")],
        "summary": door["title"],
        "description": f"{door['summary']}\n\n{door['teaching']}",
        "parameters": parameters,
    }
    rest = {name: schema for name, schema in properties.items() if name not in in_path}
    if method in ("GET", "DELETE"):
        parameters += [_query_parameter(name, schema, params) for name, schema in rest.items()]
    elif rest:
        operation["requestBody"] = _request_body(rest, params, door.get("example", {}), in_path)
    operation["responses"] = _responses(door, statuses)
    return operation


def _query_parameter(name: str, schema: Json, params: Json) -> Json:
    found: Json = {"name": name, "in": "query", "required": name in params.get("required", ())}
    found["description"] = schema.get("description", name)
    if schema.get("type") == "string" or "enum" in schema:
        return found | {"schema": schema}
    return found | {"content": {"application/json": {"schema": schema}}}


def _request_body(rest: Json, params: Json, example: Json, in_path: list[str]) -> Json:
    required = [name for name in params.get("required", ()) if name in rest]
    schema: Json = {"type": "object", "properties": rest, "additionalProperties": False}
    if required:
        schema["required"] = required
    body = {"schema": schema, "example": {key: value for key, value in example.items() if key not in in_path}}
    return {
        "required": bool(required),
        "content": {"application/json": body, "application/msgpack": {"schema": schema}},
    }


def _responses(door: Json, statuses: dict[str, int]) -> Json:
    by_status: dict[int, list[str]] = {}
    for name in door["refusals"]:
        by_status.setdefault(statuses[name], []).append(name)
    answer = {"allOf": [door["result"], {"properties": {"_meta": {"$ref": "#/components/schemas/Meta"}}}]}
    responses: Json = {"200": {"description": "The answer.", "content": {"application/json": {"schema": answer}}}}
    refused = {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}}
    for status in sorted(by_status):
        responses[str(status)] = {"description": ", ".join(by_status[status]), "content": refused}
    return responses


def _file_routes(contract: Json, paths: dict[str, Json]) -> None:
    files = contract["layers"]["server"]["files"]
    doors = {full_name(door): door for door in doors_of(contract)}
    for method, name in files["doors"].items():
        door = doors[name]
        operation: Json = {
            "operationId": f"file_{method.lower()}",
            "tags": ["files"],
            "summary": f"{door['title']}, as raw bytes",
            "description": door["summary"],
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in ("brain", "path")
            ],
            "responses": {
                "200": {"description": "The file, or the door's receipt."},
                "default": {
                    "description": "A refusal.",
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Refusal"}}},
                },
            },
        }
        if method == "PUT":
            operation["requestBody"] = {"required": True, "content": {"*/*": {"schema": {}}}}
        paths.setdefault(files["path"], {})[method.lower()] = operation


def _server_operation(door: Json) -> Json:
    schema = door.get("result", {"type": "object"} if door["mediaType"] == "application/json" else {"type": "string"})
    media_type = door["mediaType"].partition(";")[0]
    operation: Json = {
        "operationId": f"server_{door['name']}",
        "tags": ["server"],
        "summary": door["title"],
        "description": door["summary"],
        "responses": {"200": {"description": "The answer.", "content": {media_type: {"schema": schema}}}},
    }
    if door["access"] == "public":
        operation["security"] = []
    if door["route"]["method"] == "POST":
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    return operation
