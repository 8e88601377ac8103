"""The workbench: what mechanisms are made with, on one page, for those here and for others.

    surveying    a table's features: sums, factor, leverage, and what is said of them (`notes`)
    plans        a plan, its file (`plan_file`), its run (`running`), which is one (`once`)
    bags         disjoint sets of rows from a public seed, and their tables (`layouts`)
    floors       the residual floor: where it comes from, and how it is checked (`floor_checks`)
    noise_claim  what follows where a claim rests on noise alone
    checks       what `verify` asks of published numbers, and whether they are drawn (`laws`)
    forecasting  what privacy adds to a prediction, before a label is read
    trial        what `labeldp audit` needs to try a claim

What a declaration is made of stands in `labeldp.mechanisms`, which is quicker to import.
"""
