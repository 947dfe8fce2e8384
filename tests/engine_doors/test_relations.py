"""Relations: one edge for its ends, type and subtype; paging cut from the whole ordered incidence."""

import pytest


@pytest.fixture
def nodes(brain):
    """Four entities a..d."""
    items = [{"id": name, "data": name, "type": "person"} for name in "abcd"]
    brain.ask("addMany", items=items)
    return brain


def relate(brain, source, target, type_="knows", **fields):
    return brain.ask("relate", {"from": source, "to": target, "type": type_, **fields})


def ids(brain, **selection):
    return [row["id"] for row in brain.ask("related", selection)["relations"]]


def test_an_edge_is_made_once(nodes):
    first = relate(nodes, "a", "b", weight=0.5)
    again = relate(nodes, "a", "b", weight=0.7, data="new")
    assert again["id"] == first["id"]
    assert (again["existed"], again["differs"], again["changed"]) == (True, ["data", "weight"], False)
    assert again["generation"] == first["generation"]
    assert relate(nodes, "a", "b", subtype="close")["id"] != first["id"]
    assert relate(nodes, "a", "b", "likes")["id"] != first["id"]
    assert nodes.ask("counts")["relations"] == 3


def test_an_edge_has_its_defaults(nodes):
    made = relate(nodes, "a", "b")
    [edge] = nodes.ask("related", node="a")["relations"]
    assert edge["id"] == made["id"]
    assert {key: edge[key] for key in ("from", "to", "weight", "visibility", "metadata", "_rev")} == {
        **{"from": "a", "to": "b", "weight": 1.0},
        **{"visibility": "public", "metadata": {}, "_rev": 1},
    }


def test_both_ends_must_exist(nodes):
    for source, target, end in [("zz", "a", "from"), ("a", "zz", "to")]:
        refusal = nodes.refused("relate", {"from": source, "to": target, "type": "knows"})
        assert (refusal.name, refusal.details) == ("EntityNotFoundError", {"endpoint": end, "id": "zz"})


def test_a_reverse_edge_comes_with_bidirectional(nodes):
    made = relate(nodes, "a", "b", bidirectional=True)
    assert sorted(ids(nodes, node="a")) == sorted([made["id"], made["reverseId"]])
    assert ids(nodes, **{"from": "b"}) == [made["reverseId"]]
    half = relate(nodes, "a", "c")
    whole = relate(nodes, "a", "c", bidirectional=True)
    assert (whole["id"], "changed" in whole) == (half["id"], False)


def test_directions_types_and_labels_narrow_a_rel_01(nodes):
    out = relate(nodes, "a", "b", service="s")["id"]
    back = relate(nodes, "c", "a", "likes", subtype="much")["id"]
    loop = relate(nodes, "a", "a", subtype="self")["id"]
    assert sorted(ids(nodes, node="a")) == sorted([out, back, loop])
    assert sorted(ids(nodes, **{"from": "a"})) == sorted([out, loop])
    assert sorted(ids(nodes, to="a")) == sorted([back, loop])
    assert ids(nodes, **{"from": "a", "to": "b"}) == [out]
    assert ids(nodes, node="a", type="likes") == [back]
    assert ids(nodes, node="a", type=["likes", "knows"]) == sorted([out, back, loop])
    assert ids(nodes, node="a", subtype="much") == [back]
    assert ids(nodes, node="a", subtype=["much", "self"]) == sorted([back, loop])
    assert ids(nodes, node="a", service="s") == [out]


def test_every_page_is_a_slice_of_one_order_a_rel_02_a_rel_03(nodes):
    made = sorted(relate(nodes, "a", "b", subtype=f"s{n}")["id"] for n in range(23))
    for selection in ({"node": "a"}, {"from": "a"}, {"to": "b"}, {"from": "a", "to": "b"}):
        assert ids(nodes, **selection) == made
        for limit in (1, 7, 23, 100):
            pages = [ids(nodes, **selection, limit=limit, offset=offset) for offset in range(0, 30, limit)]
            assert [edge for page in pages for edge in page] == made
        assert nodes.ask("related", {**selection, "limit": 1, "offset": 50})["total"] == 23
    subtypes = [f"s{n}" for n in range(10)]
    assert len(ids(nodes, node="a", subtype=subtypes)) == 10
    assert ids(nodes, node="a", subtype=subtypes, limit=3, offset=8) == ids(nodes, node="a", subtype=subtypes)[8:]


def test_a_mistyped_node_is_not_an_empty_page_a_rel_05(nodes):
    assert nodes.refused("related", node="nobody").name == "EntityNotFoundError"
    assert ids(nodes, node="d") == []


@pytest.mark.parametrize("selection", [{}, {"node": "a", "from": "b"}, {"node": "a", "to": "b"}])
def test_one_way_of_asking_is_used(nodes, selection):
    assert nodes.refused("related", selection).name == "ValidationError"


def test_removing_an_entity_takes_its_edges(nodes):
    relate(nodes, "a", "b")
    relate(nodes, "b", "c")
    relate(nodes, "c", "d")
    assert nodes.ask("remove", id="b")["relationsRemoved"] == 2
    assert ids(nodes, node="a") == []
    assert nodes.ask("counts")["relations"] == 1
    assert len(nodes.ask("related", {"node": "b", "asOf": 4})["relations"]) == 2


def test_an_edge_can_be_removed_and_made_again(nodes):
    edge = relate(nodes, "a", "b")["id"]
    assert nodes.ask("unrelate", id=edge)["removed"]
    again = nodes.ask("unrelate", id=edge)
    assert (again["removed"], again["generation"]) == (False, nodes.head)
    assert relate(nodes, "a", "b")["id"] != edge


def test_internal_edges_are_seen_when_asked_for(nodes):
    edge = relate(nodes, "a", "b", visibility="internal")["id"]
    assert ids(nodes, node="a") == []
    assert ids(nodes, node="a", includeInternal=True) == [edge]
    assert ids(nodes, node="a", visibility="internal") == [edge]
    assert nodes.refused("related", node="a", includeSystem=True).name == "ForbiddenError"
    assert nodes.ask("counts")["relations"] == 0


def test_unknown_verbs_are_refused_with_near_names(nodes):
    refusal = nodes.refused("relate", {"from": "a", "to": "b", "type": "belongsTo"})
    assert refusal.name == "UnknownVerbTypeError"
