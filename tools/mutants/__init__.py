"""Can the tests fail? Wrong changes of the privacy-critical rooms, and whether a test notices."""
