"""traverse and neighbors over a real store, and find narrowed by the graph and by likeness."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from tests.support.brain import Brain

VERBS = ("knows", "worksWith", "owns")
SUBTYPES = (None, "close", "distant")


@pytest.fixture
def brain(tmp_path) -> Iterator[Brain]:
    made = Brain(tmp_path / "brain")
    yield made
    made.store.close()


def people(brain: Brain, names: str, **more: object) -> None:
    brain.ask("addMany", items=[{"id": name, "type": "person", "data": "", **more} for name in names])


def relate(brain: Brain, *pairs: str, verb: str = "knows", **more: object) -> None:
    for pair in pairs:
        brain.ask("relate", {"from": pair[0], "to": pair[1], "type": verb, **more})


def followed(answer: dict) -> list[str]:
    """The relations of an answer, as `ab-knows`."""
    assert [edge["id"] for edge in answer["edges"]] == sorted(edge["id"] for edge in answer["edges"])
    return sorted(f"{edge['from']}{edge['to']}-{edge['type']}" for edge in answer["edges"])


def nodes(answer: dict) -> list[tuple[str, int]]:
    return [(node["id"], node["depth"]) for node in answer["nodes"]]


def plain_hops(edges, start, direction, verbs, subtype, depth):
    """Breadth-first hops in plain Python, from (source, target, verb, subtype) tuples."""
    hops, frontier = {start: 0}, [start]
    for level in range(1, depth + 1):
        found = set()
        for source, target, verb, sub in edges:
            if (verbs is None or verb in verbs) and (subtype is None or sub == subtype):
                if direction in ("out", "both") and source in frontier:
                    found.add(target)
                if direction in ("in", "both") and target in frontier:
                    found.add(source)
        frontier = [name for name in found if name not in hops]
        hops.update(dict.fromkeys(frontier, level))
    return hops


@pytest.mark.parametrize("seed", range(4))
def test_walks_are_those_of_plain_breadth_first_search_at_every_generation_a_find_06(brain, seed):
    dice = random.Random(seed)
    names = [f"n{i:02d}" for i in range(24)]
    brain.ask("addMany", items=[{"id": name, "type": "person", "data": ""} for name in names])
    edges: dict[str, tuple[str, str, str, str | None]] = {}
    past = {brain.head: []}
    for _ in range(60):
        if edges and dice.random() < 0.25:
            gone = dice.choice(sorted(edges))
            brain.ask("unrelate", id=gone)
            del edges[gone]
        else:
            edge = (dice.choice(names), dice.choice(names), dice.choice(VERBS), dice.choice(SUBTYPES))
            if edge not in edges.values():
                body = {"from": edge[0], "to": edge[1], "type": edge[2]}
                made = brain.ask("relate", body | ({} if edge[3] is None else {"subtype": edge[3]}))
                edges[made["id"]] = edge
        past[brain.head] = list(edges.values())
    for _ in range(40):
        generation = dice.choice(sorted(past))
        start, direction = dice.choice(names), dice.choice(["out", "in", "both"])
        verbs, subtype, depth = dice.choice([None, VERBS[:1], VERBS[1:]]), dice.choice(SUBTYPES), dice.randint(1, 5)
        wanted = plain_hops(past[generation], start, direction, verbs, subtype, depth)
        asked = {"direction": direction, "depth": depth, "asOf": generation}
        via = {} if verbs is None else {"via": list(verbs)}
        narrow = via | ({} if subtype is None else {"subtype": subtype})
        around = sorted(((hops, name) for name, hops in wanted.items() if hops), key=lambda pair: pair)
        walked = brain.ask("traverse", {"from": start, "includePaths": True} | asked | narrow)
        assert nodes(walked) == [(name, hops) for hops, name in around]
        for node in walked["nodes"]:
            assert (node["path"][0], node["path"][-1]) == (start, node["id"])
            assert len(node["path"]) == node["depth"] + 1
        deep = brain.ask("traverse", {"from": start, "strategy": "dfs"} | asked | narrow)
        assert sorted(nodes(deep)) == sorted(nodes(walked))
        if subtype is None:
            listed = {} if verbs is None else {"verbType": list(verbs)}
            assert brain.ask("neighbors", {"id": start} | asked | listed)["ids"] == [name for _, name in around]
        found = brain.ask(
            "find", {"connected": {"from": start} | asked_of(asked) | narrow, "asOf": generation, "limit": 50}
        )
        assert sorted(row["id"] for row in found["rows"]) == sorted(name for _, name in around)
        assert found["legs"]["graph"] == {"served": True}


def asked_of(asked: dict) -> dict:
    return {name: asked[name] for name in ("direction", "depth")}


def test_an_answer_has_the_relations_between_its_nodes(brain):
    people(brain, "abcd")
    relate(brain, "ab", "bc", "ac", "cd")
    relate(brain, "ab", verb="owns")
    walked = brain.ask("traverse", {"from": "a", "depth": 2})
    assert nodes(walked) == [("b", 1), ("c", 1), ("d", 2)]
    assert followed(walked) == ["ab-knows", "ab-owns", "ac-knows", "bc-knows", "cd-knows"]
    assert walked["truncated"] is False
    cut = brain.ask("traverse", {"from": "a", "depth": 2, "limit": 1})
    assert (nodes(cut), cut["truncated"]) == ([("b", 1)], True)
    assert followed(cut) == ["ab-knows", "ab-owns"]


def test_depth_first_has_each_node_below_the_one_it_was_reached_from(brain):
    people(brain, "abcdefg")
    relate(brain, "ab", "ac", "bd", "be", "cf", "fg")
    walked = brain.ask("traverse", {"from": "a", "strategy": "dfs", "depth": 3})
    assert nodes(walked) == [("b", 1), ("d", 2), ("e", 2), ("c", 1), ("f", 2), ("g", 3)]


def test_a_shortest_path_and_none(brain):
    people(brain, "abcdz")
    relate(brain, "ab", "bc", "cd", "ad", "da")
    walked = brain.ask("traverse", {"from": "a", "to": "c", "strategy": "shortest"})
    assert [node["id"] for node in walked["nodes"]] == ["b", "c"]
    assert walked["nodes"][-1] == {"id": "c", "depth": 2, "path": ["a", "b", "c"]}
    assert [edge["to"] for edge in walked["edges"]] == ["b", "c"]
    none = brain.ask("traverse", {"from": "a", "to": "z", "strategy": "shortest", "depth": 8})
    assert (none["nodes"], none["edges"]) == ([], [])
    itself = brain.ask("traverse", {"from": "a", "to": "a", "strategy": "shortest"})
    assert itself["nodes"] == [{"id": "a", "depth": 0, "path": ["a"]}]


def test_loops_and_cycles_end_and_the_start_is_not_its_own_neighbour(brain):
    people(brain, "abc")
    relate(brain, "aa", "ab", "bc", "ca")
    assert brain.ask("neighbors", {"id": "a", "depth": 8})["ids"] == ["b", "c"]
    assert brain.ask("neighbors", {"id": "a", "depth": 8, "direction": "out"})["ids"] == ["b", "c"]
    walked = brain.ask("traverse", {"from": "a", "depth": 8})
    assert followed(walked) == ["aa-knows", "ab-knows", "bc-knows", "ca-knows"]


def test_what_is_not_public_is_not_walked_through(brain):
    people(brain, "abd")
    people(brain, "c", visibility="internal")
    relate(brain, "ac", "cd", "ab")
    relate(brain, "bd", visibility="internal")
    assert brain.ask("neighbors", {"id": "a", "depth": 3})["ids"] == ["b"]
    brain.ask("vfs.writeFile", path="/notes/x.txt", content="x")
    assert brain.ask("find", connected={"from": "a", "depth": 8})["rows"][0]["id"] == "b"


def test_a_walk_of_a_removed_entity_ends_before_it(brain):
    people(brain, "abc")
    relate(brain, "ab", "bc")
    before = brain.head
    brain.ask("remove", id="b")
    assert brain.ask("neighbors", {"id": "a", "depth": 2})["ids"] == []
    assert brain.ask("neighbors", {"id": "a", "depth": 2, "asOf": before})["ids"] == ["b", "c"]
    assert brain.refused("neighbors", id="b").name == "EntityNotFoundError"


@pytest.mark.parametrize(
    ("door", "body", "name"),
    [
        ("traverse", {"from": "nobody"}, "EntityNotFoundError"),
        ("traverse", {"from": "a", "to": "nobody", "strategy": "shortest"}, "EntityNotFoundError"),
        ("traverse", {"from": "a", "strategy": "shortest"}, "ValidationError"),
        ("traverse", {"from": "a", "to": "b"}, "ValidationError"),
        ("traverse", {"from": "a", "depth": 9}, "ValidationError"),
        ("traverse", {"from": "a", "via": "knowz"}, "UnknownVerbTypeError"),
        ("traverse", {"from": "a", "asOf": 99}, "GenerationInFutureError"),
        ("neighbors", {"id": "nobody"}, "EntityNotFoundError"),
        ("find", {"connected": {"from": "nobody"}}, "EntityNotFoundError"),
        ("find", {"connected": {"depth": 2}}, "ValidationError"),
        ("find", {"connected": {"from": "a", "via": "knows", "type": "knows"}}, "ValidationError"),
        ("find", {"searchMode": "graph"}, "ValidationError"),
        ("find", {"searchMode": "graph", "connected": {"from": "a"}, "query": "x"}, "ValidationError"),
        ("find", {"near": {"id": "a"}}, "SemanticLegUnavailableError"),
        ("find", {"near": {"id": "nobody"}}, "EntityNotFoundError"),
        ("find", {"query": "x", "fusion": {"weights": {"graph": 1}}}, "ValidationError"),
    ],
)
def test_a_wrong_question_is_refused_by_name_a_find_06(brain, door, body, name):
    people(brain, "ab")
    assert brain.refused(door, body).name == name


def test_connected_meets_every_other_filter_and_is_never_short_a_find_06(brain):
    brain.ask("addMany", items=[{"id": f"p{i}", "type": "person", "data": "", "metadata": {"n": i}} for i in range(30)])
    for i in range(1, 30):
        brain.ask("relate", {"from": "p0", "to": f"p{i}", "type": "knows" if i % 2 else "owns"})
    found = brain.ask("find", connected={"from": "p0", "via": "knows"}, where={"n": {"greaterThan": 9}}, limit=5)
    assert [row["id"] for row in found["rows"]] == ["p11", "p13", "p15", "p17", "p19"]
    assert found["total"] == 10
    assert brain.ask("find", connected={"to": "p7", "direction": "out"})["rows"][0]["id"] == "p0"
    both = brain.ask("find", connected={"from": "p1", "to": "p3", "depth": 1})
    assert [row["id"] for row in both["rows"]] == ["p0"]
    assert brain.ask("find", connected={"from": "p0", "direction": "in"})["rows"] == []


def test_the_graph_ranks_by_hops(brain):
    people(brain, "abcd")
    relate(brain, "ad", "dc", "cb")
    found = brain.ask("find", searchMode="graph", connected={"from": "a", "depth": 3})
    assert [(row["id"], round(row["score"], 3)) for row in found["rows"]] == [("d", 1.0), ("c", 0.5), ("b", 0.333)]


def test_relations_weigh_in_where_they_are_asked_to(brain):
    for name, text in (("a", "start"), ("b", "song song song"), ("c", "a song of the sea")):
        brain.ask("add", id=name, type="person", data=text)
    relate(brain, "ac", "cb")
    question = {"query": "song", "searchMode": "text", "connected": {"from": "a", "depth": 2, "direction": "out"}}
    assert [row["id"] for row in brain.ask("find", question)["rows"]] == ["b", "c"]
    weighed = question | {"fusion": {"weights": {"text": 1, "graph": 5}}}
    assert [row["id"] for row in brain.ask("find", weighed)["rows"]] == ["c", "b"]
    ranks = question | {"fusion": {"strategy": "rrf", "weights": {"text": 1, "graph": 5}}}
    assert [row["id"] for row in brain.ask("find", ranks)["rows"]] == ["c", "b"]


def test_near_keeps_what_is_like_an_entity_and_orders_by_it(brain):
    vectors = {"a": [1.0, 0.0], "b": [0.9, 0.1], "c": [0.5, 0.5], "d": [0.0, 1.0], "e": [-1.0, 0.0]}
    brain.ask("addMany", items=[{"id": k, "type": "thing", "data": "", "vector": v} for k, v in vectors.items()])
    brain.ask("add", id="f", type="thing", data="no vector")
    assert [row["id"] for row in brain.ask("find", near={"id": "a"})["rows"]] == ["b", "c", "d"]
    close = brain.ask("find", near={"id": "a", "threshold": 0.6})
    assert [row["id"] for row in close["rows"]] == ["b", "c"]
    assert close["rows"][0]["semanticScore"] == pytest.approx(0.9939, abs=1e-4)
    ordered = brain.ask("find", near={"id": "a", "threshold": 0.6}, orderBy="id", order="desc")
    assert [row["id"] for row in ordered["rows"]] == ["c", "b"]


def test_explain_tells_of_the_graph(brain):
    people(brain, "abc")
    relate(brain, "ab")
    told = brain.ask("explain", connected={"from": "a"}, searchMode="graph")
    assert next(leg for leg in told["legs"] if leg["leg"] == "graph")["served"] is True
    assert (told["candidates"], told["order"]["path"]) == (1, "relevance")
