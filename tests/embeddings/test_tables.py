"""Sets of embedding tables, of the catalog and of users' files."""

from pathlib import Path

import pytest

from podsim.embeddings.table_files import read_tables
from podsim.embeddings.tables import table_sets
from podsim.errors import ModelError


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("criteo-small", 4.2e9),
        ("criteo-large", 22.8e9),
        ("criteo-extra-large", 113e9),
        ("criteo-40m", 26.1e9),
    ],
)
def test_published_sizes(name: str, parameters: float) -> None:
    assert table_sets()[name].parameters == pytest.approx(parameters, rel=0.005)


def test_multi_hot_lookups() -> None:
    tables = table_sets()["criteo-multi-hot"]
    assert (tables.lookups, tables.lookup_bytes) == (214, 214 * 512)
    assert tables.bytes == pytest.approx(104.5e9, rel=1e-3)


def test_files_agree(tmp_path: Path) -> None:
    toml, csv, parquet = (tmp_path / f"t.{kind}" for kind in ("toml", "csv", "parquet"))
    toml.write_text(
        "[[table]]\nname='user'\nrows=1_000_000\nwidth=64\npooling=20\nskew=0.9\n[[table]]\nname='ad'\nrows=10\nwidth=16\n"
    )
    csv.write_text(
        "name,num_embeddings,embedding_dim,pooling_factor,skew\nuser,1_000_000,64,20,0.9\nad,10,16,,\n"
    )
    assert read_tables(toml).tables == read_tables(csv).tables
    arrow = pytest.importorskip("pyarrow")
    rows = [
        {"name": t.name, "rows": t.rows, "width": t.width, "pooling": t.pooling, "skew": t.skew}
        for t in read_tables(csv).tables
    ]
    pytest.importorskip("pyarrow.parquet").write_table(arrow.Table.from_pylist(rows), parquet)
    assert read_tables(parquet).tables == read_tables(csv).tables


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name,rows,width\na,0,8\n", "one row or more"),
        ("name,rows,width,skew\na,5,8,nan\n", "skew=nan"),
        ("name,rows,width\na,-3,8\n", "rows=-3"),
        ("name,rows,width\na,1e400,8\n", "not a whole number"),
        ("name,rows,wide\na,5,8\n", "unknown column 'wide'"),
        ("name,rows,width,pooling\na,5,8,-1\n", "pooling"),
        ("name,rows\na,5\n", "no width"),
        ("", "no tables"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(ModelError, match=said):
        read_tables(path)
