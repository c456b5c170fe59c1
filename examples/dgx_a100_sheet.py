"""What is in a DGX A100, and how do the headline figures follow?"""

from __future__ import annotations

import podsim

sheet = podsim.show("dgx-a100")
print(sheet.title)
for section in sheet.sections:
    for row in section.rows:
        if row.source == "derived":
            print(f"  {row.label}: {row.text} = {row.how}")
small = podsim.show("dgx-a100-40gb")
for label in ("GPU memory", "NVMe cache"):
    print(f"  {label} of the 320 GB system: {small.row(label).text} = {small.row(label).how}")
