"""Which tests guard which module: a table, quick ones first, since the first failure ends a trial.

The last entry of a room stands for all its modules; a module's own tests come before it.
"""

from __future__ import annotations

_CURVES = ("tests/contracts/test_curve.py", "tests/golden")
_MECHANISMS = ("tests/golden", "tests/contracts/test_mechanism.py", "tests/test_plan_binding.py")
_RELEASES = ("tests/test_verification.py", "tests/test_forgeries.py")
_FLAG = ("tests/mechanisms/test_floors.py", "tests/mechanisms/test_person_sketch.py")
_FLOORS = ("tests/mechanisms/test_check_limits.py", "tests/mechanisms/test_floor_rounding.py")
_RULES = ("tests/mechanisms/test_plan_rules.py",)
_CLAIMS = ("tests/mechanisms/test_claimed_numbers.py",)
_ACCOUNTS = (
    "tests/mechanisms/test_accounts.py",
    "tests/accounting/test_account_bags_command.py",
    "tests/golden",
)
_PARTS = ("tests/mechanisms/test_run_parts.py", "tests/mechanisms/test_sizes.py")
_BAGS = (
    "tests/mechanisms/test_bag_limits.py",
    *_PARTS,
    *_CLAIMS,
    "tests/mechanisms/test_bags.py",
    "tests/mechanisms/test_draws.py",
)
_MARGINS = "tests/statistics/test_rounding_margins.py"
_BY_HAND = "tests/statistics/test_scans_by_hand.py"
_BAG_LAWS = ("tests/mechanisms/test_laws.py", "tests/mechanisms/test_groups_over_draw.py")

GUARDS: dict[str, tuple[str, ...]] = {
    "_random.py": (
        "tests/test_random_words.py",
        "tests/test_random_streams.py",
        "tests/test_door.py",
        "tests/mechanisms/test_stream.py",
    ),
    "door.py": (
        "tests/test_door_margins.py",
        "tests/test_door_in_doubt.py",
        "tests/test_door.py",
        "tests/test_door_laplace.py",
        "tests/test_door_radial.py",
        "tests/test_compact.py",
    ),
    "source/labels.py": (
        "tests/source/test_label_checks.py",
        "tests/source/test_source_labels.py",
        "tests/statistics/test_exact_sums.py",
        "tests/golden",
    ),
    "engines/checkpoint.py": (
        "tests/engines/test_checkpoint_files.py",
        "tests/engines/test_checkpoint_binding.py",
        "tests/engines/test_local_engine.py",
    ),
    "ledger/": (
        "tests/ledger/test_ledger_entries.py",
        "tests/ledger/test_ledger.py",
        "tests/ledger/test_compose.py",
    ),
    "accounting/contour.py": (
        "tests/accounting/test_contour_pieces.py",
        "tests/accounting/test_accounting_contour.py",
        "tests/accounting/test_accounting_sketch.py",
        *_CURVES,
    ),
    "accounting/family.py": (
        "tests/accounting/test_family_pieces.py",
        "tests/accounting/test_accounting_family.py",
        "tests/accounting/test_accounting_groups.py",
        *_CURVES,
    ),
    "accounting/gaussian.py": (
        "tests/accounting/test_closed_laws.py",
        "tests/accounting/test_accounting_gaussian.py",
        *_CURVES,
    ),
    "accounting/laplace.py": (
        "tests/accounting/test_closed_laws.py",
        "tests/contracts/test_curve.py",
        "tests/mechanisms/test_noisy_rows.py",
    ),
    "accounting/radial.py": (
        "tests/accounting/test_radial_to_the_digit.py",
        "tests/accounting/test_accounting_radial.py",
        "tests/mechanisms/test_radial_noise.py",
        *_CURVES,
    ),
    "accounting/random_mu.py": (
        "tests/accounting/test_random_share.py",
        "tests/accounting/test_accounting_random_mu.py",
        "tests/accounting/test_accounting_noisy_wtd_lag.py",
        *_CURVES,
    ),
    "accounting/mixture.py": (
        "tests/accounting/test_random_share.py",
        "tests/accounting/test_accounting_random_mu.py",
        "tests/accounting/test_accounting_noisy_wtd_lag.py",
        *_CURVES,
    ),
    "accounting/paper": (
        "tests/accounting/test_paper_to_the_digit.py",
        "tests/accounting/test_accounting_paper.py",
        "tests/accounting/test_accounting_paper_bags.py",
        *_CURVES,
    ),
    "accounting/compose.py": (
        "tests/accounting/test_compose_pieces.py",
        "tests/ledger/test_compose.py",
        "tests/accounting/test_accounting_radial.py",
        *_CURVES,
    ),
    "accounting/floor.py": (
        "tests/accounting/test_closed_laws.py",
        "tests/accounting/test_accounting_floor.py",
        *_CURVES,
        *_FLAG,
    ),
    "accounting/draw.py": (
        "tests/accounting/test_closed_laws.py",
        "tests/accounting/test_accounting_sampled_wtd_flag.py",
        *_CURVES,
        "tests/mechanisms/test_groups_over_draw.py",
    ),
    "accounting/bounds.py": ("tests/accounting/test_closed_laws.py", *_CURVES),
    "accounting/curve.py": (
        "tests/accounting/test_closed_laws.py",
        "tests/accounting/test_accounting_groups.py",
        *_CURVES,
    ),
    "accounting/limits.py": ("tests/accounting/test_how_far_is_looked.py", *_CURVES),
    "accounting/decimals.py": ("tests/accounting/test_paper_to_the_digit.py", *_CURVES),
    "accounting/sketch.py": (
        "tests/accounting/test_family_pieces.py",
        "tests/accounting/test_accounting_sketch.py",
        "tests/accounting/test_accounting_groups.py",
        "tests/accounting/test_accounting_wtd_flag.py",
        *_CURVES,
    ),
    "accounting/invert.py": (
        "tests/accounting/test_search_to_the_digit.py",
        "tests/accounting/test_accounting_search.py",
        *_CURVES,
        "tests/accounting/test_accounting_wtd_flag.py",
    ),
    "accounting/": (
        "tests/accounting/test_accounting_search.py",
        "tests/accounting/test_accounting_groups.py",
        "tests/accounting/test_accounting_wtd_flag.py",
        "tests/accounting/test_accounting_sampled_wtd_flag.py",
        *_CURVES,
    ),
    "statistics/factor.py": (
        _MARGINS,
        "tests/statistics/test_factor_and_residual.py",
        "tests/statistics/test_wide_tables.py",
        "tests/golden",
    ),
    "statistics/residual.py": (
        _MARGINS,
        "tests/statistics/test_factor_and_residual.py",
        "tests/golden",
    ),
    "statistics/leverage.py": (
        _MARGINS,
        _BY_HAND,
        "tests/statistics/test_factor_and_residual.py",
        "tests/statistics/test_compound_sums.py",
        "tests/golden",
    ),
    "statistics/ridge.py": ("tests/statistics/test_ridge.py", _MARGINS, "tests/golden"),
    "statistics/persons.py": (
        _MARGINS,
        "tests/statistics/test_persons.py",
        "tests/mechanisms/test_person.py",
    ),
    "statistics/stacked.py": (
        _MARGINS,
        "tests/statistics/test_stacked.py",
        "tests/mechanisms/test_bag_blocks.py",
        "tests/golden",
    ),
    "statistics/w": (
        _MARGINS,
        _BY_HAND,
        "tests/statistics/test_shape.py",
        "tests/statistics/test_wide_tables.py",
        "tests/statistics/test_persons.py",
    ),
    "statistics/short_weights.py": (
        _MARGINS,
        _BY_HAND,
        "tests/statistics/test_shape.py",
        "tests/statistics/test_wide_tables.py",
        "tests/statistics/test_persons.py",
    ),
    "statistics/quadratic_form.py": (
        _MARGINS,
        _BY_HAND,
        "tests/statistics/test_shape.py",
        "tests/statistics/test_wide_tables.py",
        "tests/statistics/test_factor_and_residual.py",
    ),
    "statistics/": (
        "tests/statistics/test_exact_sums.py",
        "tests/statistics/test_compound_sums.py",
        "tests/golden",
    ),
    "mechanisms/wtd_flag/": (
        *_PARTS,
        *_RULES,
        *_CLAIMS,
        *_FLAG,
        *_MECHANISMS,
        "tests/test_compact.py",
        "tests/test_law.py",
    ),
    "mechanisms/shaped_flag/": (
        "tests/mechanisms/test_shaped_limits.py",
        *_CLAIMS,
        *_RULES,
        "tests/mechanisms/test_shaped_flag.py",
        "tests/mechanisms/test_radial_noise.py",
        "tests/mechanisms/test_person.py",
        *_MECHANISMS,
    ),
    "mechanisms/noisy_rows/": (
        "tests/mechanisms/test_row_limits.py",
        *_CLAIMS,
        *_RULES,
        "tests/mechanisms/test_noisy_rows.py",
        *_MECHANISMS,
    ),
    "mechanisms/sampled_wtd_flag/": (
        *_BAGS,
        *_RULES,
        "tests/mechanisms/test_bag_blocks.py",
        "tests/mechanisms/test_plan_facts.py",
        *_MECHANISMS,
        *_BAG_LAWS,
    ),
    "mechanisms/sampled_noisy_wtd_lag/": (
        *_BAGS,
        "tests/mechanisms/test_noisy_lag.py",
        *_MECHANISMS,
        *_BAG_LAWS,
    ),
    "mechanisms/workbench/floor": (
        *_FLOORS,
        *_PARTS,
        *_FLAG,
        *_MECHANISMS,
        "tests/mechanisms/test_laws.py",
    ),
    "mechanisms/workbench/laws.py": (
        "tests/mechanisms/test_law_limits.py",
        "tests/mechanisms/test_feature_laws.py",
        *_MECHANISMS,
    ),
    "mechanisms/workbench/bags.py": (*_BAGS, "tests/mechanisms/test_bag_blocks.py", *_MECHANISMS),
    "mechanisms/workbench/surveying.py": (
        "tests/mechanisms/test_sizes.py",
        *_RULES,
        "tests/mechanisms/test_plan_facts.py",
        *_MECHANISMS,
    ),
    "planning/bases.py": ("tests/mechanisms/test_curves.py", *_MECHANISMS),
    "mechanisms/account.py": (*_ACCOUNTS, *_MECHANISMS),
    "mechanisms/wtd_flag/account.py": _ACCOUNTS,
    "mechanisms/shaped_flag/account.py": _ACCOUNTS,
    "mechanisms/noisy_rows/account.py": _ACCOUNTS,
    "mechanisms/sampled_wtd_flag/account.py": _ACCOUNTS,
    "mechanisms/sampled_noisy_wtd_lag/account.py": _ACCOUNTS,
    "mechanisms/structure.py": (*_RULES, "tests/test_parquet_form.py", *_RELEASES),
    "mechanisms/workbench/check": (
        *_FLOORS,
        "tests/mechanisms/test_floors.py",
        "tests/golden",
        *_RELEASES,
    ),
    "mechanisms/workbench/plan": (*_RULES, *_MECHANISMS, "tests/test_recheck.py", *_RELEASES),
    "planning/": (*_RULES, *_MECHANISMS, "tests/test_recheck.py", *_RELEASES),
    "mechanisms/workbench/running.py": (*_RULES, "tests/mechanisms/test_draws.py", *_MECHANISMS),
    "mechanisms/workbench/once.py": _RULES,
    "mechanisms/workbench/noise_claim.py": (*_CLAIMS, *_MECHANISMS),
    "mechanisms/certificate_form.py": (*_RULES, *_MECHANISMS, *_RELEASES),
    "mechanisms/registry.py": (*_RULES, *_MECHANISMS, "tests/contracts/test_own_mechanism.py"),
    "mechanisms/protocol.py": (*_CLAIMS, *_MECHANISMS),
    "mechanisms/": (*_MECHANISMS, "tests/test_recheck.py", *_RELEASES),
    "release/parquet.py": (
        "tests/test_parquet_pages.py",
        "tests/test_parquet_form.py",
        "tests/test_release_files.py",
        *_RELEASES,
    ),
    "release/drawing.py": (
        "tests/test_release_parts.py",
        "tests/test_release_files.py",
        "tests/test_parquet_form.py",
        *_RELEASES,
    ),
    "release/files.py": (
        "tests/test_release_parts.py",
        "tests/test_release_files.py",
        "tests/test_parquet_form.py",
        "tests/learners/test_released_rows.py",
        *_RELEASES,
    ),
    "release/rows.py": (
        "tests/test_release_parts.py",
        "tests/learners/test_released_rows.py",
        *_RELEASES,
    ),
    "release/budget.py": ("tests/test_release_parts.py", "tests/test_budget.py", *_RELEASES),
    "release/statement.py": (
        "tests/test_envelopes.py",
        "tests/test_signing.py",
    ),
    "release/": (
        "tests/test_release_parts.py",
        "tests/golden",
        "tests/test_release_files.py",
        *_RELEASES,
    ),
}


def guards(path: str) -> tuple[str, ...]:
    """The tests of a module of the package, by the longest entry that its path begins with."""
    found = max((entry for entry in GUARDS if path.startswith(entry)), key=len)
    return tuple(dict.fromkeys(GUARDS[found]))
