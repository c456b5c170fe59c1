"""Laws of the loss: known constants are found again, gradients are exact, files and laws survive, bands hold."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import check_grad

from podsim.errors import PodsimError, TableError
from podsim.learning import loss_catalog
from podsim.learning.loss_catalog import OWN, find_law, named_laws, read_law, write_law
from podsim.learning.loss_choice import choose_form, score
from podsim.learning.loss_fit import FORMS, _problem, fit_law, fit_offset
from podsim.learning.loss_law import LossLaw, repeated
from podsim.learning.loss_optimum import Budget, best_parameters
from podsim.learning.loss_runs import Runs
from podsim.learning.loss_table import mixed_lines, read_runs
from podsim.learning.loss_tuning import tune

HOFFMANN = {"irreducible": 1.69, "size": 406.4, "data": 410.7, "size_exponent": 0.34, "data_exponent": 0.28}


def drawn_runs(law: LossLaw, count: int, noise: float, seed: int = 3) -> Runs:
    random = np.random.default_rng(seed)
    parameters = 10 ** random.uniform(7.3, 9.7, count)
    tokens = parameters * 10 ** random.uniform(0.8, 2.6, count)
    loss = law.loss(parameters, tokens) * np.exp(noise * random.standard_normal(count))
    return Runs(parameters=parameters, tokens=tokens, loss=loss)


def chinchilla(role: str = "") -> Runs:
    packed = Path(loss_catalog.__file__).with_name("losses.csv.gz").read_bytes()
    rows = [
        row
        for row in csv.DictReader(io.StringIO(gzip.decompress(packed).decode()))
        if row["tables"] == "losses-chinchilla" and role in ("", row["role"])
    ]
    values = {name: np.array([float(row[name]) for row in rows]) for name in ("parameters", "tokens", "loss")}
    return Runs(**values)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_exact(form: str) -> None:
    problem = _problem(drawn_runs(find_law("hoffmann"), 40, 0.01), FORMS[form], 0.2)
    start = np.array([0.4, 0.3, 0.2, 0.4, 0.35, -0.2])[list(FORMS[form].free)]
    error = check_grad(lambda at: problem.cost(at)[0], lambda at: problem.cost(at)[1], start)
    assert error < 1e-3 * np.abs(problem.cost(start)[1]).max()


def test_constants_that_made_the_runs_come_back() -> None:
    law = fit_law(drawn_runs(find_law("hoffmann"), 150, 0.0), name="made", form="additive", bootstraps=0)
    assert {name: law.constants[name] for name in HOFFMANN} == pytest.approx(HOFFMANN, rel=0.02)


def test_the_published_refit_of_chinchilla_is_reproduced() -> None:
    """Besiroglu et al. 2024 leave out the five runs of least tokens a parameter, and weigh all others alike."""
    runs = chinchilla()
    kept = runs.where(np.argsort(np.argsort(runs.ratio)) >= 5)
    assert len(kept) == 240
    law = fit_law(kept, name="refit", form="additive", bootstraps=0, lean=0.0)
    published = find_law("besiroglu").constants
    for name, share in (("irreducible", 0.002), ("size", 0.02), ("data", 0.05), ("size_exponent", 0.005)):
        assert law.constants[name] == pytest.approx(published[name], rel=share)
    assert law.constants["data_exponent"] == pytest.approx(published["data_exponent"], rel=0.01)


def test_larger_runs_are_foretold() -> None:
    calibrate, test = chinchilla("calibrate"), chinchilla("test")
    law = fit_law(calibrate.where(calibrate.is_sane).best(), name="own", bootstraps=20)
    checked = score(law, test.where(test.is_sane))
    assert checked.error < 0.007
    assert 0.65 < checked.covered < 0.95
    assert law.constants == pytest.approx(find_law(OWN).constants, rel=1e-3), "python -m reference.loss_rows"


def test_the_band_widens_outside_the_fitted_range() -> None:
    law = find_law(OWN)
    assert law.fitted is not None
    tokens = law.fitted.tokens[1] * np.array([0.1, 1.0, 10.0, 100.0])
    band = law.band(1e9, tokens)
    widths = (band.high - band.low) / band.loss
    assert (np.diff(widths) > 0).all()
    assert widths[0] < 0.02


@pytest.mark.long
def test_kaplans_form_is_chosen_for_runs_without_a_floor() -> None:
    law = find_law("kaplan")
    form, errors = choose_form(drawn_runs(law, 40, 0.001))
    assert form == "kaplan"
    assert errors["kaplan"] < 0.002


def test_one_offset_carries_a_shape_to_other_losses() -> None:
    own = find_law(OWN)
    runs = drawn_runs(own, 30, 0.002)
    scaled = Runs(parameters=runs.parameters, tokens=runs.tokens, loss=1.2 * runs.loss)
    law = fit_offset(own, scaled, name="offset")
    assert float(law.loss(1e9, 2e10)) == pytest.approx(1.2 * float(own.loss(1e9, 2e10)), rel=0.002)


def test_the_optimum_is_that_of_a_grid() -> None:
    for name, named in named_laws().items():
        if named.loss is not None:
            closed, tokens = named.loss.optimum(1e22)
            assert best_parameters(named.loss, Budget(flops=1e22)) == pytest.approx(
                float(closed), rel=0.02
            ), name
            assert float(6 * closed * tokens) == pytest.approx(1e22)


def test_inference_and_repetition_ask_for_smaller_networks() -> None:
    law = find_law(OWN)
    plain = best_parameters(law, Budget(flops=1e22))
    assert best_parameters(law, Budget(flops=1e22, inference=1e12)) < 0.8 * plain
    assert best_parameters(law, Budget(flops=1e22, unique=1e9)) != pytest.approx(plain, rel=0.1)
    with pytest.raises(PodsimError, match="inference"):
        best_parameters(law, Budget(flops=1e18, inference=1e14))


def test_repeated_tokens_follow_muennighoff() -> None:
    """Four passes are nearly as good as new tokens, forty are not."""
    law = find_law("muennighoff")
    fresh = float(law.loss(1e9, 4e10))
    assert float(law.loss(1e9, 4e10, 1e10)) == pytest.approx(fresh, rel=0.01)
    assert float(law.loss(1e9, 4e10, 1e9)) > 1.02 * fresh
    assert float(law.loss(1e9, 4e10, 5e10)) == fresh


def test_a_law_survives_its_file(tmp_path: Path) -> None:
    law = fit_law(drawn_runs(find_law("hoffmann"), 40, 0.01), name="kept", bootstraps=5)
    write_law(tmp_path / "law.json", law)
    again = read_law(tmp_path / "law.json")
    assert again.constants == law.constants
    assert np.allclose(again.band(1e10, 1e12), law.band(1e10, 1e12), rtol=1e-4)
    (tmp_path / "law.json").write_text('{"format": "podsim-loss-law", "version": 1}')
    with pytest.raises(PodsimError, match="holds no law"):
        read_law(tmp_path / "law.json")


def table(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "runs.csv"
    path.write_text(text)
    return path


def test_columns_units_and_suffixes_are_read(tmp_path: Path) -> None:
    path = table(tmp_path, "Model Size,D,val ppl\n124M,2.5B,30\n1.5B,30e9,20\n,1B,3\n")
    read = read_runs(path)
    assert read.runs.parameters.tolist() == [124e6, 1.5e9]
    assert read.runs.loss == pytest.approx(np.log([30, 20]))
    assert read.notes == ("1 of 3 rows lack a number and are left out",)
    scaled = read_runs(table(tmp_path, "params (M);tokens_b;Loss\n124;2.5;3.4\n1500;30;3.0\n"))
    assert scaled.runs.parameters.tolist() == [124e6, 1.5e9]
    assert scaled.runs.tokens.tolist() == [2.5e9, 30e9]
    bits = read_runs(table(tmp_path, "N,flops,loss\n1e8,1.2e18,4\n"), unit="bits")
    assert bits.runs.tokens.tolist() == [2e9]
    assert bits.runs.loss == pytest.approx([4 * np.log(2)])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "--params COLUMN"),
        ("N,D,loss\n1e8,1e9,30\n1e9,1e9,20\n", "perplexity"),
        ("N,D,loss\n1e8,x,3\n", "line 2"),
        ("N,D,loss,metric\n1e8,1e9,3,c4\n1e8,1e9,3,pile\n", "--only 'metric=c4'"),
        ("N,D,loss,unit\n1e8,1e9,3,volts\n", "volts"),
        ("N,D,loss\n", "0 rows"),
        ("", "0 rows"),
    ],
)
def test_tables_that_cannot_be_fitted_say_why(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(TableError, match=said):
        read_runs(table(tmp_path, text))


@pytest.mark.parametrize(("factor", "said"), [(1 / np.log(2), "bits"), (0.0, "perplexity")])
def test_losses_of_another_unit_are_told(tmp_path: Path, factor: float, said: str) -> None:
    runs = drawn_runs(find_law(OWN), 30, 0.002)
    losses = [
        loss if index % 6 else (loss * factor if factor else float(np.exp(loss)))
        for index, loss in enumerate(runs.loss.tolist())
    ]
    rows = zip(runs.parameters.tolist(), runs.tokens.tolist(), losses, strict=True)
    path = table(tmp_path, "N,D,loss\n" + "".join(f"{size},{tokens},{loss}\n" for size, tokens, loss in rows))
    if said == "perplexity" and max(losses) > 13:
        with pytest.raises(TableError, match="perplexity"):
            read_runs(path)
        return
    read = read_runs(path)
    law = fit_law(read.runs, name="mixed", bootstraps=0)
    assert said in mixed_lines(read, law.loss(read.runs.parameters, read.runs.tokens))


def test_too_few_sizes_are_refused() -> None:
    runs = Runs(parameters=np.array([1e8] * 9), tokens=1e9 * np.arange(1.0, 10.0), loss=np.linspace(4, 3, 9))
    with pytest.raises(PodsimError, match="1 sizes"):
        fit_law(runs, name="one size")


def test_repetition_is_fitted_where_runs_repeat() -> None:
    law = find_law("besiroglu")
    parameters = np.repeat([3e7, 1e8, 3e8, 1e9], 12)
    tokens = np.tile(np.geomspace(2e9, 4e10, 12), 4)
    unique = np.tile([1e9, 4e9, 4e10], 16)
    worth = repeated(tokens, np.minimum(unique, tokens), 8.0)
    runs = Runs(parameters=parameters, tokens=tokens, loss=law.loss(parameters, worth), unique=unique)
    fitted = fit_law(runs, name="repeated", form="additive", bootstraps=0)
    assert fitted.constants["repeat"] == pytest.approx(8.0, rel=0.15)
    assert fitted.loss(1e9, 4e10, 1e9) == pytest.approx(law.loss(1e9, repeated(4e10, 1e9, 8.0)), rel=0.01)


def test_a_grid_tells_the_best_rate_and_batch() -> None:
    """Runs of a made law whose best rate is 3 N^-0.4 D^-0.1, and whose best batch is 0.5 D^0.6."""
    law = find_law("besiroglu")
    rows = []
    for size in (1e8, 3e8, 1e9):
        for ratio in (10, 30, 100):
            tokens = ratio * size
            rate, batch = 3 * size**-0.4 * tokens**-0.1, 0.5 * tokens**0.6
            for more in (0.5, 0.8, 1.25, 2.0):
                for wider in (0.5, 1.0, 2.0):
                    away = 0.02 * np.log(more) ** 2 + 0.01 * np.log(wider) ** 2
                    rows.append(
                        (
                            size,
                            tokens,
                            float(law.loss(size, tokens)) * np.exp(away),
                            rate * more,
                            batch * wider,
                        )
                    )
    columns = dict(zip(("parameters", "tokens", "loss", "rate", "batch"), np.array(rows).T, strict=True))
    tuning = tune(Runs(**columns))
    assert tuning is not None
    assert tuning.rate is not None
    assert tuning.batch is not None
    assert (tuning.rate.parameters, tuning.rate.tokens) == pytest.approx((-0.4, -0.1), abs=1e-6)
    assert tuning.batch.factor * 1e10**tuning.batch.tokens == pytest.approx(0.5 * 1e10**0.6, rel=1e-6)
    assert tuning.rate.cost == pytest.approx(0.02 * np.log(2) ** 2, rel=0.01)
    assert tune(drawn_runs(law, 60, 0.0)) is None
