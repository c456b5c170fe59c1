"""How should 4,480 GPUs of Selene add up 1 GiB, and what do a tapered tree and one slow adapter cost?"""

from __future__ import annotations

import podsim
from podsim.hardware.fabrics import fabric_of
from podsim.network.collectives import Table, summary
from podsim.network.collectives.hierarchical import hierarchical_all_reduce, server_ring_all_reduce
from podsim.network.collectives.rings import multi_ring_all_reduce, rail_orders
from podsim.network.collectives.trees import double_tree_all_reduce
from podsim.network.play import play
from podsim.network.table_cost import link_cost

SIZE = 2.0**30
selene = podsim.load_cluster("selene")
nodes, local = selene.nodes, selene.gpus_per_node
fabric = fabric_of(selene)
print(f"{selene.gpus:,} GPUs in {nodes} servers; {fabric.links:,} links")
print()
print(f"{'algorithm':<14} {'rounds':>7} {'a rank sends':>13} {'fan-in':>7} {'step by step':>13}")


def line(name: str, table: Table) -> None:
    """One algorithm, costed on the links of Selene."""
    told, cost = summary(table, SIZE), link_cost(table, fabric)
    seconds = cost.latency + SIZE * cost.per_byte
    print(
        f"{name:<14} {told.rounds:>7,} {told.sent_most / 1e9:>10.2f} GB {told.fan_in:>7} {seconds * 1e3:>10.1f} ms"
    )


line("hierarchical", hierarchical_all_reduce(nodes, local))
line("server ring", server_ring_all_reduce(nodes, local))
line("8 rings", multi_ring_all_reduce(rail_orders(nodes, local)))
line("double tree", double_tree_all_reduce(selene.gpus, pieces=16))

table = hierarchical_all_reduce(nodes, local)
print()
print(f"hierarchical, simulated: {table.transfers:,} transfers")
whole = play(table, SIZE, fabric, fold=True)
print(f"  as built                        {whole.seconds * 1e3:6.2f} ms")
tapered = play(table, SIZE, fabric_of(selene, taper=2.0), fold=True)
print(f"  half the cables above leaves    {tapered.seconds * 1e3:6.2f} ms")
slow = play(table, SIZE, fabric.degraded("node7/nic3>*", share=0.5), fold=True)
print(f"  one adapter at half its rate    {slow.seconds * 1e3:6.2f} ms")
print(
    "Rails never leave their leaf switch inside a unit, so a tapered tree costs them nothing; and behind one slow"
)
print(
    "adapter its rail waits for bandwidth and no longer for latency, so that half the rate is not twice the time."
)
