"""Pipeline schedules as tables: built, checked, played, measured, and exchanged with torch."""

from podsim.training.schedules.check import check_schedule, schedule_problems
from podsim.training.schedules.entries import SCHEDULES, ScheduleEntry, build
from podsim.training.schedules.held import held, weight_copies
from podsim.training.schedules.play import bubble, idle, play_table, unit_seconds
from podsim.training.schedules.table import ScheduleTable, Work
from podsim.training.schedules.torch_csv import read_csv, to_csv, torch_problems

__all__ = [
    "SCHEDULES",
    "ScheduleEntry",
    "ScheduleTable",
    "Work",
    "bubble",
    "build",
    "check_schedule",
    "held",
    "idle",
    "play_table",
    "read_csv",
    "schedule_problems",
    "to_csv",
    "torch_problems",
    "unit_seconds",
    "weight_copies",
]
