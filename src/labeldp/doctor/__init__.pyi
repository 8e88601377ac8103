from labeldp.doctor.inspection import inspect as inspect
from labeldp.doctor.page import (
    cells as cells,
    command as command,
    label_facts as label_facts,
    page as page,
    summary as summary,
)
from labeldp.doctor.table import look as look
