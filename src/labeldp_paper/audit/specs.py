"""How each mechanism is audited, by its name."""

from __future__ import annotations

from labeldp_paper.audit import (
    noisy_rows,
    sampled_noisy_wtd_lag,
    sampled_wtd_flag,
    shaped_flag,
    wtd_flag,
)
from labeldp_paper.audit.audit_spec import AuditSpec

AUDIT_SPECS = {
    "noisy-rows": AuditSpec(
        noisy_rows.moves,
        noisy_rows.most,
        noisy_rows.Rowwise,
    ),
    "shaped-flag": AuditSpec(
        shaped_flag.moves,
        shaped_flag.most,
        shaped_flag.Shaped,
        private=("residual_root",),
    ),
    "wtd-flag": AuditSpec(
        wtd_flag.moves,
        wtd_flag.most,
        wtd_flag.Sketched,
        private=("floor", "utility", "label_noise_std"),
        any_labels=wtd_flag.any_labels,
        refusal=wtd_flag.refusal,
    ),
    "sampled-wtd-flag": AuditSpec(
        sampled_wtd_flag.moves,
        sampled_wtd_flag.most,
        sampled_wtd_flag.Sketched,
        private=("floor", "utility", "label_noise_std"),
        any_labels=sampled_wtd_flag.any_labels,
        refusal=sampled_wtd_flag.refusal,
    ),
    "sampled-noisy-wtd-lag": AuditSpec(
        sampled_noisy_wtd_lag.moves,
        sampled_noisy_wtd_lag.most,
        sampled_noisy_wtd_lag.Lagged,
        refusal=sampled_noisy_wtd_lag.refusal,
    ),
}
