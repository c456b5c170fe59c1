"""Pipeline schedules as tables: built, checked, played, measured, and exchanged with torch."""

from podsim.schedules.actions import ScheduleTable, Work
from podsim.schedules.check import check_schedule, schedule_problems
from podsim.schedules.entries import SCHEDULES, ScheduleEntry, build
from podsim.schedules.held import held, weight_copies
from podsim.schedules.player import bubble, idle, play_table, unit_seconds
from podsim.schedules.torch_csv import read_csv, to_csv, torch_problems

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
