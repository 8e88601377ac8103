"""The paper's laboratory on public names of labeldp: data, experiments, theorems, naive sums."""
