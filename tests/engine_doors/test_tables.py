"""CSV, TSV, JSON and JSON Lines: every row arrives or is named with its line."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.importing.jsonrows import read_json
from engine.importing.lines import LineRows
from engine.importing.rows import ImportFailure, Row
from engine.importing.tables import ColumnMap, read_table


def rows_of(text, **options):
    parsed = read_table(text, delimiter=options.pop("delimiter", ","), **options)
    return [(row.line, row.fields) for row in parsed.rows], parsed.failures


def test_named_columns_fill_fields_and_the_rest_is_metadata():
    rows, failures = rows_of("id,Type,data,price,tag\na,thing,hello,2,x\nb,event,bye,3,\n")
    assert failures == []
    assert rows == [
        (2, {"id": "a", "type": "thing", "data": "hello", "metadata": {"price": 2, "tag": "x"}}),
        (3, {"id": "b", "type": "event", "data": "bye", "metadata": {"price": 3}}),
    ]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1", "2"], [1, 2]),
        (["1", "02"], ["1", "02"]),
        (["1", "2.5"], [1, 2.5]),
        (["1.50", "2"], ["1.50", "2"]),
        (["1e5", "2"], ["1e5", "2"]),
        (["+1", "2"], ["+1", "2"]),
        (["-0", "2"], ["-0", "2"]),
        (["true", "false"], [True, False]),
        (["true", "1"], ["true", "1"]),
        (["True", "false"], ["True", "false"]),
        (["2024-01-02", "2024-01-03"], ["2024-01-02", "2024-01-03"]),
        (["9999999999999999999", "1"], ["9999999999999999999", "1"]),
        (["NaN", "1.5"], ["NaN", "1.5"]),
        (["٣", "1"], ["٣", "1"]),
    ],
)
def test_a_column_has_one_type_and_no_text_changes(cells, values):
    rows, _ = rows_of("data,x\n" + "".join(f"d,{cell}\n" for cell in cells))
    found = [fields["metadata"]["x"] for _, fields in rows]
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def test_text_columns_are_the_data_when_none_is_named():
    rows, _ = rows_of("name,city,age\nAda,London,36\n")
    assert rows[0][1]["data"] == "name: Ada\ncity: London"


def test_a_column_map_decides():
    columns = ColumnMap(fields={"id": "Key", "data": "Text"}, metadata=["b"])
    rows, _ = rows_of("Key,Text,id,a,b\nk,t,i,1,2\n", columns=columns)
    assert rows == [(2, {"id": "k", "data": "t", "metadata": {"b": 2}})]


def test_a_bad_row_costs_itself_and_names_its_line():
    rows, failures = rows_of('a,b\n1,2\n1\n1,2,3\n"x"y,2\n3,4\n\n"multi\nline",5\n6,7\n')
    assert [line for line, _ in rows] == [2, 6, 8, 10]
    assert [(fault.line, fault.column) for fault in failures] == [(3, 2), (4, 3), (5, None)]
    assert {fault.name for fault in failures} == {"ImportFormatError"}


@pytest.mark.parametrize("text", ["a,a\n1,2\n", "a,\n1,2\n", ",a\n1,2\n"])
def test_a_bad_header_is_one_failure(text):
    rows, failures = rows_of(text)
    assert (rows, [fault.line for fault in failures]) == ([], [1])


def test_a_missing_mapped_column_is_named():
    _, failures = rows_of("a,b\n1,2\n", columns=ColumnMap(fields={"id": "Key"}))
    assert '"Key"' in failures[0].message


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "a,b\n"])
def test_an_empty_table_has_no_rows(text):
    assert rows_of(text) == ([], [])


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_and_marks_change_nothing_b_53(end):
    text = end.join(["id,x", "a,1", '"b",2', ""])
    assert rows_of("\ufeff" + text) == rows_of("id,x\na,1\nb,2\n")


def test_tabs_separate_a_tsv():
    rows, _ = rows_of("id\tx\na\t1,2\n", delimiter="\t")
    assert rows == [(2, {"id": "a", "data": "x: 1,2", "metadata": {"x": "1,2"}})]


def test_from_and_to_make_relations():
    parsed = read_table("from,to,type,since\na,b,knows,2020\n", delimiter=",")
    assert parsed.rows[0].relation
    assert parsed.rows[0].fields == {"from": "a", "to": "b", "type": "knows", "metadata": {"since": 2020}}


@given(st.lists(st.lists(st.text(alphabet='a,"\n\r \u00e9', max_size=6), min_size=2, max_size=2), max_size=8))
def test_what_a_writer_wrote_is_read_back(cells):
    """Any table that Python's own writer makes comes back cell for cell."""
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows([["k", "v"], *cells])
    rows, failures = rows_of(out.getvalue(), columns=ColumnMap(fields={}, metadata=["k", "v"]))
    assert failures == []
    kept = [{name: text for name, text in zip(("k", "v"), row, strict=True) if text != ""} for row in cells]
    assert [fields.get("metadata", {}) for _, fields in rows] == kept


def read_lines(text):
    found = list(LineRows(io.BytesIO(text.encode())))
    return [row for row in found if isinstance(row, Row)], [row for row in found if isinstance(row, ImportFailure)]


def test_json_lines_take_both_forms():
    rows, failures = read_lines(
        '{"format":"brain-portable-graph","version":1}\n{"e":{"id":"a"}}\n{"r":{"id":"x"}}\n\n'
        '{"data":"plain"}\r\n{"from":"a","to":"b","type":"knows"}\n{"end":true,"sha256":"00"}\n'
    )
    assert failures == []
    assert [(row.line, row.relation, row.exact) for row in rows] == [
        (2, False, True),
        (3, True, True),
        (5, False, False),
        (6, True, False),
    ]


def test_bad_lines_are_named_and_stop_nothing_b_25():
    rows, failures = read_lines('{"data":"a"}\n{"data":\n[1]\n{"a":1,"a":2}\n{"n":NaN}\n{"data":"b"}')
    assert [row.line for row in rows] == [1, 6]
    assert [fault.line for fault in failures] == [2, 3, 4, 5]


def test_json_takes_an_array_an_object_and_two_lists():
    assert [row.relation for row in read_json('[{"data":"a"},{"from":"a","to":"b"}]').rows] == [False, True]
    assert len(read_json('{"data":"a"}').rows) == 1
    both = read_json('{"entities":[{"data":"a"}],"relations":[{"from":"a","to":"b","type":"knows"}]}')
    assert [row.relation for row in both.rows] == [False, True]
    assert [fault.line for fault in read_json("[1,").failures] == [1]
