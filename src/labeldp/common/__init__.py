"""What every room may use: arguments, files, cards, pictures, Arrow's numbers, threads."""
