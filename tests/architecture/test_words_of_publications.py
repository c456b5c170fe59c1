"""No module of podsim knows a single publication: what a row of one means is decided in reference/.

Names of models, clusters and software of the catalogs are no publications. When it was first counted, 35 lines
of 17 modules met the list.
"""

from __future__ import annotations

import re
from pathlib import Path

import podsim

WORDS = re.compile(
    r"jean[ -]zay|vtrain|polaris|sirius|internevo|mega-?scale|korthikanti|deeplearningexamples|demobert|mt-nlg|turing-nlg"
    r"|simumax|dgxc-|sc21-|frontier-1t|llama ?3 paper|maxtext-|aurora-?gpt",
    re.IGNORECASE,
)
SOURCE = Path(podsim.__path__[0])


def test_no_module_has_words_of_a_publication() -> None:
    met = [
        f"{path.relative_to(SOURCE)}:{number}: {line.strip()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if WORDS.search(line)
    ]
    assert not met, "\n".join(met)
