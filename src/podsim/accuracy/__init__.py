"""Reference tables, each number with its source, and the errors of predictions against them.

    rows = tables.load("torchtitan")
    comparison = score.compare(rows, Priced(predictions={row.id: row_seconds(row) for row in rows}))
    comparison.score("test").mae

What judges (`tables`, `score`) does not know how a prediction is made.
"""
