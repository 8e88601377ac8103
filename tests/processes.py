"""Programs that run in a process of their own and tell their peak of memory."""

PEAK = """
import json, resource, sys
from pathlib import Path

def peak():
    "MiB; ru_maxrss starts from the peak of the process that started this one."
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    (kibibytes,) = [l.split()[1] for l in status.read_text().splitlines() if "VmHWM" in l]
    return int(kibibytes) / 1024
"""
